"""What an evaluation shows in a terminal: progress on standard error, tables on standard output."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..agents.evaluation import Progress as TickProgress
from ..agents.trial import TrialPlan
from .drawing import Drawing
from .results import Summary
from .study import Study
from .wording import counted, short, spanned, ticks_in_words, verdict_line

TABLE_WIDTH: Final = 120
"""Characters a table takes; a narrower terminal wraps its lines."""
_COLUMNS: Final = (
    "return",
    "95 % interval",
    "median",
    "IQM",
    "violating %",
    "replica-h",
    "errors %",
    "TTFT P95 s",
    "changes",
)


class StudyProgress(Drawing):
    """A bar for the piece of work under way; without a terminal one line a piece."""

    def __init__(self, unit: str = "ticks") -> None:
        """Sets up a bar on standard error; it shows from `with` on.

        Args:
            unit: What is counted, in the plural.
        """
        self._console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn(f"{{task.completed:,.0f}}/{{task.total:,.0f}} {unit}"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )

    def start(self, what: str, total: int) -> TickProgress:
        """Begins a piece of work; the one before it is done."""
        what = short(what)
        if not self._console.is_terminal:
            self._console.print(f"{what} ...")
        for task in self._progress.task_ids:
            self._progress.remove_task(task)
        bar = self._progress.add_task(what, total=total)

        def advance(done: int) -> None:
            self._progress.advance(bar, done)

        return advance

    def note(self, text: str) -> None:
        """Says something beside the bar."""
        self._console.print(text)


def print_study(study: Study) -> None:
    """Prints one table a scenario, one over all if there are several, and the verdicts."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.width = max(console.width, TABLE_WIDTH)
    results = study.results
    for trial in study.trials:
        if trial.windows:
            rows = results.by_scenario[trial.scenario.name]
            console.print(_table(f"{trial.scenario.name}: {described(trial)}", rows))
    if len(results.by_scenario) > 1:
        played = ticks_in_words(trial for trial in study.trials if trial.windows)
        console.print(_table(f"all scenarios together: {played}", results.summary))
    for row in results.summary:
        for scenario, settings in row.settings.items():
            console.print(f"{short(row.policy)} on {scenario}: {json.dumps(settings)}")
    if results.gated_out:
        console.print(gated_line(study))
    shown = results.headline_pairs()
    for pair in shown:
        console.print(verdict_line(pair))
    if len(results.pairs) > len(shown):
        console.print(f"The other {len(results.pairs) - len(shown)} pairs: --report or --json.")


def described(trial: TrialPlan) -> str:
    """Split, windows, ticks and their length in words."""
    part = "the whole range" if trial.split is None else f"split {trial.split}"
    windows = counted(len(trial.windows), "window")
    return f"{part}, {windows} of {counted(trial.ticks, 'tick')} of {trial.tick_s:g} s"


def gated_line(study: Study) -> str:
    """Which windows were set apart, in one line."""
    by_scenario: dict[str, list[str]] = {}
    for window in study.results.gated_out:
        by_scenario.setdefault(window.scenario, []).append(str(window.window))
    windows = "; ".join(f"{name}: {', '.join(ids)}" for name, ids in by_scenario.items())
    return f"set apart, no number of replicas keeps them: windows of {windows}"


def _table(title: str, rows: Sequence[Summary]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("policy", no_wrap=True)
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            short(row.policy),
            f"{row.return_mean:.1f}",
            spanned(row.return_ci95),
            f"{row.return_median:.1f}",
            f"{row.return_iqm:.1f}",
            f"{100 * row.violation_rate:.2f}",
            f"{row.replica_hours:.2f}",
            f"{100 * row.error_rate:.2f}",
            "-" if row.ttft_p95_s is None else f"{row.ttft_p95_s:.2f}",
            f"{row.changes:.1f}",
        )
    return table
