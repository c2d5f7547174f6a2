"""What the workload commands show: progress on standard error, tables on standard output."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..envs.workload.check import ModelCheck
from .drawing import Drawing
from .workload_wording import TextTable, check_tables, checks_table


class CheckProgress(Drawing):
    """A bar over the samples of a check; without a terminal one line a piece of work."""

    def __init__(self, what: str, total: int) -> None:
        """Sets up a bar; it shows from `with` on.

        Args:
            what: What is done first; nothing: `start` says it.
            total: Its steps; 0: unknown.
        """
        self._console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID | None = None
        if what:
            self.start(what, total)

    def start(self, what: str, total: int) -> None:
        """Begins a piece of work; the one before it is done."""
        if not self._console.is_terminal:
            self._console.print(f"{what} ...")
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(what, total=total or None)

    def __call__(self, done: int) -> None:
        """Moves the bar to a number of steps."""
        if self._task is not None:
            self._progress.update(self._task, completed=done)


def print_load(line: str, lines: Sequence[str], tables: Sequence[TextTable]) -> None:
    """Prints the figures of a load."""
    console = _console()
    console.print(line)
    for note in lines:
        console.print(note)
    for table in tables:
        console.print(_table(table))


def print_check(check: ModelCheck, lines: Sequence[str]) -> None:
    """Prints one model against its trace."""
    console = _console()
    for note in lines:
        console.print(note)
    for table in check_tables(check):
        console.print(_table(table))
    rates = f"mean rate {check.model_rate_rps:.3f} / {check.trace_rate_rps:.3f} requests/s"
    ranks = (
        f"rank correlation {check.model_rank_correlation:.2f} / {check.trace_rank_correlation:.2f}"
    )
    console.print(f"model / trace: {rates}, {ranks}; {check.seeds} samples")
    verdict = "is like its trace" if check.passed else "is not like its trace"
    console.print(f"{check.model} {verdict}.")


def print_checks(checks: Sequence[ModelCheck]) -> None:
    """Prints several models against their traces, a row each."""
    _console().print(_table(checks_table(checks)))


def _console() -> Console:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.width = max(console.width, 120)
    return console


def _table(content: TextTable) -> Table:
    table = Table(title=content.title, title_justify="left", box=box.SIMPLE_HEAD)
    for i, name in enumerate(content.columns):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=True)
    for row in content.rows:
        table.add_row(*row)
    return table
