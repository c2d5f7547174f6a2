"""Who is told how jobs get on."""

from __future__ import annotations

from typing import Protocol


class Watcher(Protocol):
    """Shows how jobs get on; workers are counted from 0."""

    def begin(self, jobs: int, workers: int) -> None:
        """So many jobs begin, on so many workers."""
        ...

    def started(self, worker: int, label: str) -> None:
        """A worker has taken a job."""
        ...

    def piece(self, worker: int, what: str, ticks: int) -> None:
        """A worker begins a part of its job, of so many ticks."""
        ...

    def advanced(self, worker: int, ticks: int) -> None:
        """A worker has simulated so many more ticks."""
        ...

    def finished(self, worker: int, label: str) -> None:
        """A worker has done its job."""
        ...

    def note(self, text: str) -> None:
        """Something that a person should know."""
        ...


class SilentWatcher:
    """Shows nothing: for callers without a terminal."""

    def begin(self, jobs: int, workers: int) -> None:
        """Nobody is told."""

    def started(self, worker: int, label: str) -> None:
        """Nobody is told."""

    def piece(self, worker: int, what: str, ticks: int) -> None:
        """Nobody is told."""

    def advanced(self, worker: int, ticks: int) -> None:
        """Nobody is told."""

    def finished(self, worker: int, label: str) -> None:
        """Nobody is told."""

    def note(self, text: str) -> None:
        """Nobody is told."""
