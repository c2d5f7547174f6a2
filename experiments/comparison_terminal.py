"""Runs side by side, as tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

from .comparison import ComparedRun, Comparison
from .wording import short

_MISSING: Final = "-"
_FIGURES: Final[tuple[tuple[str, str, Callable[[float], str]], ...]] = (
    ("return", "return_mean", lambda x: f"{x:.2f}"),
    ("median", "return_median", lambda x: f"{x:.2f}"),
    ("violating %", "violation_rate", lambda x: f"{100 * x:.2f}"),
    ("replica-h", "replica_hours", lambda x: f"{x:.2f}"),
    ("changes", "changes", lambda x: f"{x:.1f}"),
    ("threshold off", "threshold_distance", lambda x: f"{x:.3f}"),
    ("best at step", "step", lambda x: f"{x:,.0f}"),
)
"""Column, figure of the best checkpoint, and its form."""


def table_rows(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Columns and a row a run."""
    columns = ["run", "name", "status", *(title for title, _, _ in _FIGURES), "steps/s", "minutes"]
    return columns, [_row(run) for run in comparison.runs]


def print_comparison(comparison: Comparison) -> None:
    """Prints what each reached, then the keys in which they differ, then what to mind."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    columns, rows = table_rows(comparison)
    _print(console, columns, rows, "best checkpoints on their validation windows")
    differences = comparison.differences
    if differences:
        ids = [short(run.summary.run_id) for run in comparison.runs]
        listed = [[key, *(x or _MISSING for x in values)] for key, values in differences.items()]
        _print(console, ["differs in", *ids], listed, None)
    for note in comparison.notes:
        console.print(short(note))


def _row(run: ComparedRun) -> list[str]:
    summary = run.summary
    figures = [
        form(summary.best[name]) if name in summary.best else _MISSING for _, name, form in _FIGURES
    ]
    speed = _MISSING if summary.steps_per_s is None else f"{summary.steps_per_s:,.0f}"
    minutes = _MISSING if summary.wall_s is None else f"{summary.wall_s / 60:.1f}"
    return [short(summary.run_id), summary.name, summary.status, *figures, speed, minutes]


def _print(console: Console, columns: list[str], rows: list[list[str]], title: str | None) -> None:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    texts = 3 if title else 1
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i < texts else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    console.width = max(console.width, sum(widths) + 3 * len(widths))  # nothing is cut off
    console.print(table)
