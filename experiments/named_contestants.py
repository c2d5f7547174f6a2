"""Contestants by the names of the command line, runs included; each is loaded once a process."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path

from ..agents.contestants import Contestant, TrainedPolicy, parse_contestant


@lru_cache(maxsize=128)
def named_contestant(name: str, runs: Path) -> Contestant:
    """Finds out who is meant.

    Args:
        name: As `parse_contestant` takes it.
        runs: Folder of runs, for `run:ID`.

    Raises:
        PolicyError: Nobody.
        RunError: A run cannot be used.
    """
    return parse_contestant(name, partial(_load_run, runs))


def _load_run(runs: Path, run_id: str) -> TrainedPolicy:
    from .run_policy import load_run_policy  # noqa: PLC0415  # MLflow and torch, only where needed

    return load_run_policy(runs, run_id)
