"""Plays stored cells again and holds them against what is stored, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ..cell_grid import Entry, sensible_workers
from ..cell_job import CellJob
from ..cells import CellStore
from ..job_watcher import Watcher
from ..jobs import run_jobs
from ..places import Places

_SHARE: Final = 20
"""A sample is one cell in so many."""
_FEWEST: Final = 3
"""Cells that a sample has at least."""


def sample(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """A few cells: those of the lowest digests, which is as good as drawn and always the same."""
    size = max(_FEWEST, -(-len(entries) // _SHARE))
    chosen = set(sorted(one.key.digest for one in entries)[:size])
    return tuple(one for one in entries if one.key.digest in chosen)


def differing(
    entries: Sequence[Entry], places: Places, *, workers: int | None, watcher: Watcher
) -> tuple[str, ...]:
    """Plays cells again, from nothing: no study is gone on with.

    Args:
        entries: Which.
        places: Where the stored ones lie.
        workers: Processes to play on; `None`: as many as there is work for.
        watcher: Shows progress.

    Returns:
        Those whose bytes are not the stored ones, by name.
    """
    stored = CellStore(places.cells)
    with TemporaryDirectory(prefix="gatepilot.") as temporary:
        anew = replace(places, cells=Path(temporary), studies=None)
        jobs = [CellJob(one.key, one.planned, one.shipped, anew) for one in entries]
        run_jobs(jobs, workers=workers or sensible_workers(entries), watcher=watcher)
        played = CellStore(anew.cells)
        return tuple(
            str(one.key)
            for one in entries
            if _bytes(stored.path(one.key)) != _bytes(played.path(one.key))
        )


def _bytes(path: Path) -> tuple[bytes, bytes]:
    """Of a cell and of its course."""
    course = path.with_suffix(".npz")
    return path.read_bytes(), course.read_bytes() if course.exists() else b""
