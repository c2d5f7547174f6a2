"""What a leaderboard leaves in its folder, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table

from ..files import replacing, writing
from ..tables import write_table
from ..wording import short, signed, spanned, ticks_in_words
from .board import Board
from .standings import Standing

BOARD_FILE: Final = "leaderboard.json"
FROZEN_FILE: Final = "frozen.json"
RUN_FILE: Final = "run.json"
TABLE_FILE: Final = "leaderboard.csv"
EPISODES_FILE: Final = "episodes.parquet"
REPORT_FILE: Final = "report.html"
SCENARIOS_FOLDER: Final = "scenarios"
_TABLE_WIDTH: Final = 150
_COLUMNS: Final = (
    *("steps", "return", "95 % interval", "violating %", "replica-h", "gap", "gap %"),
    *("against {rival}", "95 % interval", "won", "lost", "open"),
)


def write_board(board: Board, folder: Path, run: dict[str, Any]) -> None:
    """Writes every table; only `RUN_FILE` says when and how it was run.

    Args:
        board: The leaderboard.
        folder: Where to; made if need be.
        run: Command, versions, machine.

    Raises:
        OutputError: It cannot be written.
    """
    scenarios = folder / SCENARIOS_FOLDER
    with writing(folder):
        scenarios.mkdir(parents=True, exist_ok=True)
    for name, content in (
        (BOARD_FILE, board.as_dict()),
        (FROZEN_FILE, board.frozen()),
        (RUN_FILE, run),
    ):
        with replacing(folder / name) as temporary:
            text = json.dumps(content, indent=1, allow_nan=False)
            temporary.write_text(text + "\n", encoding="utf-8")
    write_table(_columns(board.standings.suite, board.ticks), folder / TABLE_FILE)
    for trial in board.trials:
        name = trial.scenario.name
        rows = board.standings.scenarios[name]
        write_table(_columns(rows, ticks_in_words([trial])), scenarios / f"{name}.csv")
    board.results.write(folder / EPISODES_FILE)


def print_board(board: Board) -> None:
    """Prints the table over the suite, best return first, and the hashes."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.width = max(console.width, _TABLE_WIDTH)
    spec, digests = board.spec, board.digests
    console.print(
        _table(
            f"{spec.name}: {len(board.trials)} scenarios, {board.ticks}; "
            f"gap to {spec.bound}, 100 % is {spec.floor}; won, lost and open are scenarios",
            sorted(board.standings.suite, key=lambda row: -row.return_mean),
            spec.against,
        )
    )
    gated_out = len(board.grid.gated_out)
    if gated_out:
        console.print(f"windows set apart, no number of replicas keeps them: {gated_out}")
    console.print(f"specification {digests['spec'][:16]}, sources {digests['sources'][:16]}")
    for name, parts in digests["scenarios"].items():
        told = ", ".join(f"{what} {str(parts[what])[:12]}" for what in parts)
        console.print(f"  {name}: {told}")
    console.print(
        f"table {digests['suite_table']}, episodes {digests['episodes'][:16]}", style="bold"
    )


def _table(title: str, rows: Sequence[Standing], rival: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("policy", no_wrap=True)
    for name in _COLUMNS:
        table.add_column(name.format(rival=rival), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            short(row.policy),
            row.steps,
            f"{row.return_mean:.1f}",
            spanned(row.return_ci95),
            f"{100 * row.violation_rate:.2f}",
            f"{row.replica_hours:.2f}",
            f"{row.gap:.1f}",
            "–" if row.gap_share is None else f"{100 * row.gap_share:.0f}",  # noqa: RUF001
            signed(row.difference),
            spanned(row.difference_ci95),
            *map(str, (row.wins, row.losses, row.undecided)),
        )
    return table


def _columns(rows: Sequence[Standing], ticks: str) -> pa.Table:
    """Standings as a flat table; an interval becomes two columns."""
    columns: dict[str, list[Any]] = {"ticks": [ticks] * len(rows)}
    for field in fields(Standing):
        values = [asdict(row)[field.name] for row in rows]
        if field.name.endswith("_ci95"):
            columns[f"{field.name}_low"] = [None if v is None else v[0] for v in values]
            columns[f"{field.name}_high"] = [None if v is None else v[1] for v in values]
        else:
            columns[field.name] = values
    return pa.table(columns)
