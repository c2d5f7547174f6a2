"""`gatepilot leaderboard`: the frozen comparison, reproduced by one command and verified."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ..compilation import compile_with_notice
from ..files import check_folder, check_writable
from ..job_progress import JobsProgress
from ..leaderboard.board import Board, study_plan
from ..leaderboard.frozen import Reproduction, compared, frozen_table
from ..leaderboard.output import REPORT_FILE, print_board, write_board
from ..leaderboard.spec import FULL, QUICK, load_spec
from ..leaderboard.verification import differing, sample
from ..options import MOST_WORKERS, AsJson, CellsDir, StudiesDir, TracesDir
from ..places import CELLS_DIR, STUDIES_DIR, Places
from ..provenance import collect
from ..study import play_grid, prepare_study
from ..study_provenance import study_notes
from ..wording import counted

NOT_THE_SAME: Final = 1
"""Exit code where a stored cell, or the frozen table, is not what is played now."""
NOTHING_JUDGED: Final = 1
"""Exit code where not one window could be played."""
_ALL: Final = "all"


def leaderboard(  # noqa: PLR0913, PLR0917  # options of the command
    which: Annotated[
        str | None,
        typer.Argument(
            metavar=f"[{_ALL}]", help="Behind --verify: every cell instead of a sample."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few scenarios and policies, in a few minutes.")
    ] = False,
    spec: Annotated[
        str | None,
        typer.Option(metavar="NAME_OR_FILE", help=f"Another specification; default: {FULL}."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_WORKERS,
            envvar="GATEPILOT_WORKERS",
            help="Processes to play on; default: one a core, if there is so much to do.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for tables and report.")] = Path(
        "gatepilot-leaderboard"
    ),
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html", help=f"The report's place; default: {REPORT_FILE} in --out."
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Play a sample of the stored cells again, and compare byte for byte."
        ),
    ] = False,
    cells: CellsDir = CELLS_DIR,
    studies: StudiesDir = STUDIES_DIR,
    traces: TracesDir = None,
    runs: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of runs, for run:ID in a specification.")
    ] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Reproduce the frozen comparison: every controller over the suite, with hashes and a report.

    What was played is kept and verified when it is read, so an interrupted run goes on where it
    was. Ends with 1 if --verify finds a stored cell that is not what is played now, or if the same
    inputs do not give the frozen table.

    Example: gatepilot leaderboard --quick
    """
    if which is not None and (which != _ALL or not verify):
        raise typer.BadParameter(f"{which}: expected --verify, or --verify {_ALL}")
    if quick and spec is not None:
        raise typer.BadParameter("--quick is a specification of its own: give it, or --spec")
    frozen_spec = load_spec(spec or (QUICK if quick else FULL))
    page = report or out / REPORT_FILE
    if report is not None:
        check_writable(report)
    for folder in (out, cells, studies):
        check_folder(folder)
    places = Places(cells, studies, traces, runs)
    plan = study_plan(frozen_spec, places, workers)
    planned = prepare_study(plan)
    compile_with_notice()
    with JobsProgress() as progress:
        board = Board(frozen_spec, plan, play_grid(plan, planned, progress))
        notes = study_notes(plan, planned)
        for note in notes:
            progress.note(note)
        changed: tuple[str, ...] = ()
        checked = 0
        if verify:
            entries = board.grid.entries if which == _ALL else sample(board.grid.entries)
            checked = len(entries)
            changed = differing(entries, places, workers=workers, watcher=progress)
    run: dict[str, Any] = {"notes": notes, **asdict(collect())}
    frozen = frozen_table(frozen_spec)
    reproduction = None if frozen is None else compared(board.frozen(), frozen)
    write_board(board, out, run)
    from ..leaderboard.page import write_page  # noqa: PLC0415  # plots take a second to load

    write_page(board, page, run, reproduction)
    if as_json:
        typer.echo(json.dumps(board.as_dict(), allow_nan=False))
    else:
        print_board(board)
        typer.echo(f"tables {out}, report {page}")
    _conclude(board, reproduction, checked, changed)


def _conclude(
    board: Board, reproduction: Reproduction | None, checked: int, changed: tuple[str, ...]
) -> None:
    """Says on standard error what was found out, and ends with 1 where that is not good."""
    if checked:
        same = checked - len(changed)
        typer.echo(
            f"verified: {same} of {counted(checked, 'cell')} played again, the same", err=True
        )
    for name in changed:
        typer.echo(f"{name}: what is stored is not what is played now", err=True)
    if reproduction is not None:
        if not reproduction.differences:
            typer.echo("the frozen table is reproduced: every hash is the same", err=True)
        for line in reproduction.differences:
            typer.echo(line, err=True)
    if not board.trials:
        typer.echo("nothing to judge: no window can be kept", err=True)
        raise typer.Exit(NOTHING_JUDGED)
    if changed or (reproduction is not None and reproduction.failed):
        raise typer.Exit(NOT_THE_SAME)
