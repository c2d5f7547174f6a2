"""Progress bars, on standard error: standard output is for results."""

from __future__ import annotations

import math

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from ..agents.callbacks import TrainingStatus
from .drawing import Drawing


class TrainingProgress(Drawing):
    """A bar with return, violations, speed and remaining time."""

    def __init__(self, name: str, total_steps: int) -> None:
        """Sets up a bar; it shows from `with` on.

        Args:
            name: What is trained.
            total_steps: Steps in all.
        """
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps"),
            TextColumn("{task.fields[figures]}"),
            console=Console(stderr=True),
            expand=True,
        )
        self._total_steps = total_steps
        self._task = self._progress.add_task(name, total=total_steps, figures="")

    def __call__(self, status: TrainingStatus) -> None:
        """Shows how the training stands."""
        figures = [
            f"return {_figure(status.episode_return)}",
            f"violations {_figure(status.violation_rate, 100.0)} %",
            f"best {_figure(status.best_return)}",
            f"{status.steps_per_s:,.0f} steps/s",
            f"{self._remaining(status)} left",
        ]
        figures += ["collapsed: one action everywhere"] if status.has_collapsed else []
        self._progress.update(self._task, completed=status.steps, figures=", ".join(figures))

    def _remaining(self, status: TrainingStatus) -> str:
        """Minutes and seconds to the end at the speed so far."""
        if status.steps_per_s == 0:
            return "..."
        seconds = max(self._total_steps - status.steps, 0) / status.steps_per_s
        return "{:.0f}:{:02.0f}".format(*divmod(round(seconds), 60))


def _figure(value: float | None, factor: float = 1.0) -> str:
    """A number with one decimal; three dots as long as there is none."""
    return "..." if value is None or math.isnan(value) else f"{factor * value:.1f}"
