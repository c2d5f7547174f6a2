"""Trainings of one recipe from several seeds: child runs of one parent run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from typing import Any, TypeAlias

from ..agents.callbacks import CHECKPOINT_FILE
from ..agents.config import ConfigError, TrainingConfig
from ..agents.training import Training
from .provenance import Provenance
from .run_files import RunError
from .tracking import RunStore, TrackedRun
from .training_run import FinishedRun, config_to_resume, open_run

TrainOne: TypeAlias = Callable[[Training, TrackedRun, bool], FinishedRun]
"""Trains with a record; the flag says whether it goes on from the record's checkpoint."""
SetUp: TypeAlias = Callable[[TrainingConfig], Training]
"""Builds environments and learner of a configuration."""


@dataclass(frozen=True)
class FinishedSeeds:
    """A parent run whose children have all come to their end."""

    run_id: str
    """The parent's."""
    runs: tuple[FinishedRun, ...]
    """Those that were trained now, in order of their seeds."""
    returns: dict[int, float]
    """Mean validation return of every child's best checkpoint, by seed."""

    @property
    def return_mean(self) -> float:
        """Mean of them."""
        return fmean(self.returns.values())

    @property
    def return_sd(self) -> float:
        """Their standard deviation."""
        return pstdev(self.returns.values())

    def as_dict(self) -> dict[str, Any]:
        """The object that `train --seeds N --json` prints."""
        return {
            "run_id": self.run_id,
            "runs": [run.as_dict() for run in self.runs],
            "validation_returns": self.returns,
        }


def train_seeds(
    parent: str,
    ready: list[Training],
    store: RunStore,
    provenance: Provenance,
    *,
    set_up: SetUp,
    train: TrainOne,
) -> FinishedSeeds:
    """Trains the seeds of a group one after the other, from the configuration's on.

    What is finished stays, and what has a checkpoint goes on from it.

    Args:
        parent: Id of the group.
        ready: That of the first seed, set up; which also says the recipe. It is taken out: the
            traffic of a training takes gigabytes, and nobody is to keep it beside the next one's.
        store: Where runs are kept.
        provenance: By which code and command.
        set_up: Builds the others.
        train: Trains it.

    Raises:
        ValueError: It cannot be recorded or resumed: one line.
    """
    before, seeds = _children(store, parent), store.group_size(parent) or 0
    config = ready[0].config
    finished: list[FinishedRun] = []
    with _marked(store, parent):
        for seed in range(config.seed, config.seed + seeds):
            wanted, known = replace(config, seed=seed), before.get(seed)
            if known is not None and store.summary(known).status == "FINISHED":
                continue
            resume = None
            if known is not None and _has_checkpoint(store, known):
                resume, wanted = known, config_to_resume(store.files(known).config(), wanted, known)
            if not ready or ready[0].config != wanted:
                ready.clear()
                ready.append(set_up(wanted))
            training = ready.pop()
            run = open_run(training, store, provenance, resume=resume, parent=parent)
            finished.append(train(training, run, resume is not None))
            del training
        best = {s: store.best_figures(run_id) for s, run_id in _children(store, parent).items()}
        returns = {s: best[s]["return_mean"] for s in sorted(best)}
        found = FinishedSeeds(parent, tuple(finished), returns)
        store.finish_group(
            parent,
            {"seeds/return_mean": found.return_mean, "seeds/return_sd": found.return_sd},
        )
    return found


def group_config(store: RunStore, parent: str) -> TrainingConfig:
    """The recipe of a group, with its first seed.

    Raises:
        RunError: It has no child yet: start it anew.
    """
    children = _children(store, parent)
    if not children:
        raise RunError(f"run {parent}: no training of it has begun: start a new one")
    return store.files(children[min(children)]).config()


def check_seeds(config: TrainingConfig, seeds: int, most: int) -> None:
    """Refuses seeds beyond the largest.

    Raises:
        ConfigError: The last one is too large.
    """
    if config.seed + seeds - 1 > most:
        raise ConfigError(
            f"--seeds: the last seed would be {config.seed + seeds - 1}, at most {most}"
        )


def _children(store: RunStore, parent: str) -> dict[int, str]:
    """Ids of a group's runs, by seed; of two with the same seed the one that got further."""
    found: dict[int, str] = {}
    for run_id in store.children(parent):  # in order of their start
        seed = store.files(run_id).config().seed
        if seed not in found or _has_checkpoint(store, run_id):
            found[seed] = run_id
    return found


def _has_checkpoint(store: RunStore, run_id: str) -> bool:
    return (store.files(run_id).folder / CHECKPOINT_FILE).is_file()


@contextmanager
def _marked(store: RunStore, group: str) -> Iterator[None]:
    """Marks a group as broken off where its block does not end well."""
    try:
        yield
    except KeyboardInterrupt:
        store.stop_group(group, "KILLED")
        raise
    except Exception:
        store.stop_group(group, "FAILED")
        raise
