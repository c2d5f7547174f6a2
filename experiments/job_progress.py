"""How jobs get on: a bar for all of them and one a worker, on standard error."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from .drawing import Drawing
from .wording import short


class JobsProgress(Drawing):
    """Bars in a terminal; elsewhere one line a job."""

    def __init__(self) -> None:
        """Sets up the bars; they show from `with` on."""
        self._console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} {task.fields[unit]}"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._jobs = 0
        self._begun = 0
        self._all: TaskID | None = None
        self._pieces: dict[int, TaskID] = {}

    def begin(self, jobs: int, workers: int) -> None:
        """Sets up a bar for so many jobs."""
        for task in self._progress.task_ids:
            self._progress.remove_task(task)
        self._jobs, self._begun, self._pieces = jobs, 0, {}
        if jobs:
            counted = "all jobs" if workers == 1 else f"all jobs, on {workers} workers"
            self._all = self._progress.add_task(counted, total=jobs, unit="jobs")

    def started(self, worker: int, label: str) -> None:
        """Says which job is taken, where there is no bar."""
        del worker
        self._begun += 1
        if not self._console.is_terminal:
            self._console.print(f"{self._begun}/{self._jobs} {short(label)} ...")

    def piece(self, worker: int, what: str, ticks: int) -> None:
        """Begins a bar for a part of a worker's job; the part before it is done."""
        self._end_piece(worker)
        self._pieces[worker] = self._progress.add_task(short(what), total=ticks, unit="ticks")

    def advanced(self, worker: int, ticks: int) -> None:
        """Moves a worker's bar."""
        if worker in self._pieces:
            self._progress.advance(self._pieces[worker], ticks)

    def finished(self, worker: int, label: str) -> None:
        """Moves the bar of all jobs."""
        del label
        self._end_piece(worker)
        if self._all is not None:
            self._progress.advance(self._all, 1)

    def note(self, text: str) -> None:
        """Says something beside the bars."""
        self._console.print(text)

    def _end_piece(self, worker: int) -> None:
        if worker in self._pieces:
            self._progress.remove_task(self._pieces.pop(worker))
