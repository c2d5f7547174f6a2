"""Runs side by side as one HTML file: the curves, the figures, the differences."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from .comparison import Comparison, compared
from .comparison_terminal import table_rows
from .files import replacing, writing
from .page import Picture, filled
from .plots import COLORS, drawn
from .run_files import REPORT_FILE
from .tracking import RunStore
from .wording import short

_TEMPLATE: Final = "comparison.html.j2"


def write_page(comparison: Comparison, path: Path) -> None:
    """Writes the page; a failure leaves what was there before.

    Raises:
        OutputError: It cannot be written.
    """
    columns, rows = table_rows(comparison)
    values = {
        "columns": columns,
        "rows": rows,
        "ids": [short(run.summary.run_id) for run in comparison.runs],
        "differences": comparison.differences,
        "notes": [short(note) for note in comparison.notes],
        "curves": Picture(
            "Return on the validation windows while training",
            "Mean documented return of each checkpoint that was judged; the dot is the best one.",
            drawn(lambda: curves_plot(comparison)),
        ),
    }
    with replacing(path) as temporary:
        temporary.write_text(filled(_TEMPLATE, values), encoding="utf-8")


def write_run_report(store: RunStore, run_id: str) -> None:
    """Writes the page of a training, or of all the trainings of a parent run, among its artifacts.

    Raises:
        RunError: There is no such run.
        OutputError: It cannot be written.
    """
    is_group = store.group_size(run_id) is not None
    comparison = compared(store, store.children(run_id) if is_group else [run_id])
    folder = store.files(run_id).folder
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_page(comparison, folder / REPORT_FILE)


def curves_plot(comparison: Comparison) -> Figure:
    """A line a run, over steps."""
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    ax = figure.subplots()
    for i, run in enumerate(comparison.runs):
        steps, returns = [step for step, _ in run.curve], [value for _, value in run.curve]
        color, label = COLORS[i % len(COLORS)], f"{short(run.summary.run_id)} {run.summary.name}"
        ax.plot(steps, returns, "-", color=color, lw=1.6, label=label)
        best = max(run.curve, key=lambda point: point[1], default=None)
        if best is not None:
            ax.plot([best[0]], [best[1]], "o", color=color, ms=5)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda steps, _: f"{steps:,.0f}"))
    ax.set_xlabel("Training steps")
    ax.set_ylabel("Mean documented return a window")
    if comparison.runs:
        ax.legend(loc="lower right")
    return figure
