"""`gatepilot compare`: MLflow runs side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from ..files import check_ending, check_writable
from ..options import RUNS_DIR, AsJson, RunsDir

NEWEST: Final = 10
"""Runs that are shown where none is named."""


def compare(
    run: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help=f"MLflow's ids; none: the newest {NEWEST}."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="A page with the curves, too."),
    ] = None,
    as_json: AsJson = False,
    runs: RunsDir = RUNS_DIR,
) -> None:
    """Compare tracked runs: what the best checkpoint of each reached, and in what they differ.

    Figures are of the validation windows, which chose the checkpoints: evidence comes from
    gatepilot evaluate. Whoever was validated on other windows is named.

    Example: gatepilot compare RUN1 RUN2 --report runs.html
    """
    if report is not None:
        check_ending(report, ".html")
        check_writable(report)
    # MLflow takes seconds to load: only once the arguments are right
    from ..comparison import compared  # noqa: PLC0415
    from ..comparison_terminal import print_comparison  # noqa: PLC0415
    from ..tracking import RunStore  # noqa: PLC0415

    store = RunStore(runs)
    comparison = compared(store, run or store.newest(NEWEST))
    if report is not None:
        from ..comparison_page import write_page  # noqa: PLC0415  # plots take a second to load

        write_page(comparison, report)
    if as_json:
        typer.echo(json.dumps(comparison.as_dict(), allow_nan=False))
        return
    print_comparison(comparison)
    if report is not None:
        typer.echo(f"report  {report}")
