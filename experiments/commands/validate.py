"""`gatepilot validate`: the simulator against what is known outside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ..compilation import compile_with_notice
from ..files import check_ending, check_folder, check_writable, replacing
from ..options import MOST_SEED, AsJson
from ..provenance import collect
from ..terminal import StudyProgress
from ..validation.claim import Section, ValidationContext
from ..validation.record import is_met, section_dict
from ..validation.reference_runs import INDEX, ReferenceRunError
from ..validation.sections import SECTIONS, run_section
from ..validation.terminal import print_sections

NOT_MET: Final = 1
_BESIDE_TRACES: Final = Path("reference") / "vidur"
"""Where the reference runs lie, beside the folder of the traces."""


def validate(  # noqa: PLR0913, PLR0917  # options of the command
    sections: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SECTION]...", help=f"Of {', '.join(SECTIONS)}; default: all."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A rough look: wider intervals, same bars.")
    ] = False,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Run Envoy and the testbed now, for 15 minutes; else their recordings are used.",
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=MOST_SEED, help="Of everything that is drawn.")
    ] = 0,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write an HTML page with plots.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write what --json prints.")
    ] = None,
    docs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Renew tables and plots of the documentation, in docs/validation."
        ),
    ] = None,
    as_json: AsJson = False,
    reference: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            envvar="GATEPILOT_REFERENCE",
            help="Folder of reference runs with an index.json; default: reference/vidur beside "
            "the traces.",
        ),
    ] = None,
    traces: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", envvar="GATEPILOT_TRACES", help="Folder of request traces and profiles."
        ),
    ] = None,
) -> None:
    """Compare the simulator with what is known outside it, under the bars it must keep.

    Ends with 1 if a bar is not met, or if nothing could be compared. A section whose data are not
    here is skipped, and says so.

    Example: gatepilot validate --quick

    Example: gatepilot validate reference --reference held-out-runs --json

    Example: gatepilot validate breaker --live
    """
    chosen = list(dict.fromkeys(sections or SECTIONS))
    for name in chosen:
        if name not in SECTIONS:
            raise typer.BadParameter(f"section {name}: expected one of {', '.join(SECTIONS)}")
    if docs is not None and quick:
        raise typer.BadParameter("--docs shows what is promised: not with --quick")
    for path in (report, out):
        if path is not None:
            check_writable(path)
    if out is not None:
        check_ending(out, ".json")
    if docs is not None:
        check_folder(docs)
    runs = _reference(reference, traces)
    compile_with_notice()
    with StudyProgress("steps") as progress:
        context = ValidationContext(traces, runs, seed, quick, progress, live)
        found = [run_section(name, context) for name in chosen]
    record: dict[str, Any] = {
        "met": is_met(found),
        "quick": quick,
        "seed": seed,
        "sections": [section_dict(section) for section in found],
        "provenance": asdict(collect()),
    }
    if report is not None or docs is not None:
        _write_plotted(found, report, docs, record["provenance"])
    if out is not None:
        with replacing(out) as temporary:
            text = json.dumps(record, indent=1, allow_nan=False)
            temporary.write_text(text + "\n", encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(record, allow_nan=False))
    else:
        print_sections(found, quick=quick)
    if not record["met"]:
        raise typer.Exit(NOT_MET)


def _write_plotted(
    sections: Sequence[Section], report: Path | None, docs: Path | None, provenance: dict[str, Any]
) -> None:
    from ..validation.page import write_docs, write_page  # noqa: PLC0415  # loads plots

    if report is not None:
        write_page(sections, report, provenance)
    if docs is not None:
        docs.mkdir(parents=True, exist_ok=True)
        write_docs(sections, docs)


def _reference(named: Path | None, traces: Path | None) -> Path | None:
    """The folder of reference runs; one that is named must be there.

    Raises:
        ReferenceRunError: It is not.
    """
    if named is not None:
        if not (named / INDEX).is_file():
            msg = f"{named / INDEX}: no such file; expected the index of the reference runs"
            raise ReferenceRunError(msg)
        return named
    beside = None if traces is None else traces.resolve().parent / _BESIDE_TRACES
    return beside if beside is not None and (beside / INDEX).is_file() else None
