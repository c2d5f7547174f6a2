"""`gatepilot fetch`: an artifact from the registry, pinned."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..files import check_folder
from ..model_names import parse_reference
from ..options import AsJson

NOT_AS_TAGGED = 1
"""Exit code where the files are not what the registry says."""


def fetch(
    reference: Annotated[
        str, typer.Argument(metavar="MODEL", help="NAME@ALIAS or NAME/VERSION of the registry.")
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="DIR", help="The artifact's folder to be.")
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace another artifact there.")] = False,
    as_json: AsJson = False,
    runs: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of runs, which holds the registry.")
    ] = Path("runs"),
) -> None:
    """Bring an artifact from the registry to a folder, and note what was asked for beside it.

    The bridge never talks to the registry: it acts on the folder. An alias may move later; the note
    (DIR.request.json) keeps version and digest. Ends with 1 if the files are not what the
    registry's tag says.

    Example: gatepilot fetch gateway@challenger -o artifact
    """
    wanted = parse_reference(reference)
    check_folder(out)
    # MLflow takes seconds to load: only once the arguments are right
    from ..fetching import FetchRefusedError, request_path  # noqa: PLC0415
    from ..fetching import fetch as fetch_artifact  # noqa: PLC0415
    from ..tracking import RunStore  # noqa: PLC0415

    try:
        request = fetch_artifact(RunStore(runs).registry(), wanted, out, force=force)
    except FetchRefusedError as error:
        typer.echo(f"gatepilot fetch: {error}", err=True)
        raise typer.Exit(NOT_AS_TAGGED) from None
    if as_json:
        found = {"artifact": str(out), "request": str(request_path(out))}
        typer.echo(json.dumps(asdict(request) | found))
        return
    from rich.console import Console  # noqa: PLC0415

    console = Console(soft_wrap=True, highlight=False, markup=False)
    asked = f", which {request.alias} points to now" if request.alias else ""
    console.print(f"artifact  {out}")
    console.print(f"digest    {request.digest}")
    console.print(f"version   {request.name}/{request.version}{asked}")
    console.print(f"request   {request_path(out)}")
