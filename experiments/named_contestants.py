"""Contestants by the names of the command line, runs included."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ..agents.contestant import Contestant
from ..agents.contestants import Learned, TrainedPolicy, parse_contestant


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


def weights_of(contestant: Contestant) -> tuple[str, ...]:
    """Which networks a contestant plays with: a digest a training, none for a rule."""
    if not isinstance(contestant, Learned):
        return ()
    return tuple(member.digest for member in contestant.members)


def _load_run(runs: Path, run_id: str) -> TrainedPolicy:
    from .run_policy import load_run_policy  # noqa: PLC0415  # MLflow and torch, only where needed

    return load_run_policy(runs, run_id)
