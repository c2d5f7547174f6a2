"""Contestants by the names of the command line, runs included."""

from __future__ import annotations

import re
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


def spelt_out(name: str, runs: Path) -> str:
    """A parent run as the ids of its trainings; any other name as it is.

    Args:
        name: As it was given.
        runs: Folder of runs.

    Raises:
        RunError: There is no such run.
    """
    if not re.fullmatch(r"run:[^,]+", name):
        return name
    from .tracking import RunStore  # noqa: PLC0415  # MLflow, only where needed

    store, run_id = RunStore(runs), name.removeprefix("run:")
    if store.group_size(run_id) is None:
        return name
    return f"run:{','.join(store.children(run_id))}"


def _load_run(runs: Path, run_id: str) -> TrainedPolicy:
    from .run_policy import load_run_policy  # noqa: PLC0415  # MLflow and torch, only where needed

    return load_run_policy(runs, run_id)
