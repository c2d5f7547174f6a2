"""A training together with its record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from ..agents.callbacks import CHECKPOINT_FILE, TrainingStatus
from ..agents.checkpoint import CheckpointError
from ..agents.config import ConfigError, TrainingConfig
from ..agents.digests import Traffic
from ..agents.training import Training, TrainingResult
from .config import flat
from .provenance import Provenance
from .tracking import RunStore, TrackedRun


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A training that has come to its end."""

    run_id: str
    """MLflow's id."""
    result: TrainingResult
    """The best model and its figures."""
    tracking_share: float
    """Share of the wall time that was spent on talking to MLflow."""

    def as_dict(self) -> dict[str, Any]:
        """The object that `train --json` prints."""
        result = self.result
        return {
            "run_id": self.run_id,
            "model": str(result.model_path),
            "steps": result.steps,
            "wall_s": result.wall_s,
            "steps_per_s": result.steps_per_s,
            "validation": {"best_step": result.best_step, **asdict(result.validation)},
        }


def open_run(
    training: Training,
    store: RunStore,
    provenance: Provenance,
    *,
    resume: str | None = None,
    parent: str | None = None,
) -> TrackedRun:
    """Starts the record of a training, or goes on with one.

    The training is set up beforehand: what cannot be trained leaves no run behind.

    Args:
        training: With `resume`, of the configuration that run was started with.
        store: Where runs are kept.
        provenance: By which code and command.
        resume: Id of a run to go on with; `None`: a new one.
        parent: Id of the group it belongs to, if any.

    Raises:
        ValueError: It cannot be recorded or resumed: one line.
    """
    if resume is None:
        return store.create(
            training.config,
            training.scenarios,
            training.contract,
            provenance,
            traffic=training.traffic,
            parent=parent,
        )
    files, known = store.files(resume), store.traffic(resume)
    if set(known) != set(training.traffic):
        raise ConfigError(
            f"run {resume}: started on {_named(known)}, and now there is "
            f"{_named(training.traffic)}: give the same --traces, or start a new run"
        )
    before = files.scenarios()
    if before != training.scenarios:
        changed = ", ".join(one.name for one in training.scenarios if one not in before)
        raise ConfigError(
            f"run {resume}: scenario {changed} has changed since then: start a new run"
        )
    if not (files.folder / CHECKPOINT_FILE).is_file():
        raise CheckpointError(f"run {resume}: no checkpoint was written: start a new run")
    return store.resume(resume)


def _named(traffic: Iterable[Traffic]) -> str:
    """Traffic in words, with the start of its hash: two files may have one name."""
    return ", ".join(f"{one} ({one.sha256[:8]})" for one in traffic)


def run_training(
    training: Training,
    run: TrackedRun,
    *,
    resume: bool = False,
    on_status: Callable[[TrainingStatus], None] = lambda _: None,
) -> FinishedRun:
    """Trains, and keeps the record; a training that is broken off can be resumed.

    Args:
        training: What to train.
        run: Its record, from `open_run`.
        resume: Whether to go on from the record's checkpoint.
        on_status: Told how it goes.

    Raises:
        ValueError: It cannot be resumed or recorded: one line.
        TrainingDivergedError: The weights are no longer finite; the run is marked as failed.
    """
    run.watch_machine()
    try:
        result = training.run(run.folder, run, on_status=on_status, resume=resume)
        last = {f"best/{name}": value for name, value in result.validation.figures().items()}
        last |= {
            "best/step": float(result.best_step),
            "time/wall_s": result.wall_s,
            "time/steps_per_s": result.steps_per_s,
            "time/tracking_s": run.spent_s,
        }
        run.finish(last, result.steps)
    except KeyboardInterrupt:
        run.stop("KILLED")
        raise
    except Exception:
        run.stop("FAILED")
        raise
    return FinishedRun(run.run_id, result, run.spent_s / result.wall_s)


def config_to_resume(stored: TrainingConfig, given: TrainingConfig, run_id: str) -> TrainingConfig:
    """The configuration to go on with: the run's own, if the given one does not contradict it.

    Args:
        stored: What the run was started with.
        given: What the command line asks for, the run's values where it is silent.
        run_id: The run's id.

    Raises:
        ConfigError: A key differs: a resumed training would be neither the one nor the other.
    """
    if stored == given:
        return stored
    ours, theirs = flat(stored), flat(given)
    keys = [key for key in ours if ours[key] != theirs.get(key)]
    key = keys[0] if keys else "algo"
    raise ConfigError(
        f"run {run_id}: {key} is {theirs.get(key)}, but the run was started with {ours[key]}:"
        " start a new run"
    )
