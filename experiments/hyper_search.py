"""A search for hyperparameters: trainings that are broken off where they lag behind the others.

Optuna's tree-structured Parzen estimator proposes; each training is judged by its validations
alone, and ends early where its best is below the median of what the others had come to by then
(Akiba et al., KDD 2019). The configuration itself is the first to be tried, so what is found is
never worse on validation windows. What was tried is kept in a journal; an interrupted search goes
on with another training in place of the one that was under way.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import optuna
from optuna.pruners import MedianPruner
from optuna.samplers import TPESampler
from optuna.trial import FixedTrial, FrozenTrial, Trial, TrialState

from ..agents.baselines.site import Suggest
from ..agents.callbacks import TrainingDivergedError, TrainingStatus
from ..agents.config import TrainingConfig
from ..agents.digests import json_digest
from ..agents.search_space import suggested
from ..agents.training import Training
from ..agents.tuning import StudyError, kept_study

STARTUP_TRIALS: Final = 4
"""Trainings that are drawn at random and never broken off: a median needs some."""
_OWN: Final = "own"
"""Attribute of the training that is the configuration's own."""
_DONE: Final = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
OnStatus: TypeAlias = Callable[[TrainingStatus], None]
Watch: TypeAlias = Callable[[str, int], OnStatus]
"""Told of a training's name and steps; says whom to tell how it goes."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A training of a search."""

    number: int
    state: str
    """`complete`, `pruned` or `fail` (it diverged)."""
    score: float | None
    """Best validation score; `None`: it diverged before the first."""
    steps: int
    """Steps after the last validation."""
    hyperparameters: dict[str, Any]
    """Those that were drawn; none for the configuration itself."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search has come to."""

    config: TrainingConfig
    """The best one, ready to be trained."""
    score: float
    trials: tuple[Tried, ...]
    """All of them, in their order."""


class _Pruned:
    """Takes a training's figures, and breaks it off where it lags behind."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self.best: float | None = None

    def record(self, step: int, values: Mapping[str, float]) -> None:
        found = values.get("validation/score")
        if found is None:
            return
        self.best = found if self.best is None else max(self.best, found)
        self._trial.report(self.best, step)
        if self._trial.should_prune():
            raise optuna.TrialPruned

    def flush(self) -> None:
        """Nothing is held back."""


def search(
    config: TrainingConfig,
    *,
    trials: int,
    studies: Path,
    traces_dir: Path | None,
    watch: Watch = lambda *_: lambda _: None,
) -> Found:
    """Trains until so many trainings have been tried.

    Args:
        config: Where the search begins; its seed, steps and validation hold for all.
        trials: Trainings in all, those of an earlier call included.
        studies: Folder of the journals.
        traces_dir: Folder of the traces; `None`: workload models stand in.
        watch: Shows how trainings go.

    Raises:
        StudyError: The journal is damaged, or every training diverged.
        ValueError: The configuration cannot be trained here: one line.
    """
    study = _study(config, studies)
    left = trials - len(_done(study))

    def objective(trial: Trial) -> float:
        done = _done(study)
        trial.set_user_attr(_OWN, not any(one.user_attrs.get(_OWN) for one in done))
        wanted = _of(config, trial.user_attrs, trial)
        training = Training(wanted, traces_dir=traces_dir)
        on_status = watch(f"training {len(done) + 1} of {trials}", wanted.steps)
        with tempfile.TemporaryDirectory() as folder:
            return training.run(Path(folder), _Pruned(trial), on_status=on_status).validation.score

    if left > 0:
        study.optimize(objective, n_trials=left, catch=(TrainingDivergedError,))
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not complete:
        msg = f"{config.name}: every training of the search diverged"
        raise StudyError(msg)
    best = max(complete, key=lambda trial: (trial.value or 0.0, -trial.number))
    return Found(
        _of(config, best.user_attrs, FixedTrial(best.params)),
        best.value or 0.0,
        tuple(map(_tried, _done(study))),
    )


def _done(study: optuna.Study) -> list[FrozenTrial]:
    """Trainings that have come to their end, in their order."""
    return study.get_trials(deepcopy=False, states=_DONE)


def _study(config: TrainingConfig, studies: Path) -> optuna.Study:
    """The study of a configuration; one that was interrupted goes on."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    digest = json_digest(asdict(config))
    folder = studies / "trainings"
    folder.mkdir(parents=True, exist_ok=True)
    return kept_study(
        folder / f"{config.name}-{config.algo}-{digest[:12]}.journal",
        digest,
        sampler=TPESampler(n_startup_trials=STARTUP_TRIALS),
        pruner=MedianPruner(STARTUP_TRIALS, n_warmup_steps=config.validation.every_steps),
    )


def _of(config: TrainingConfig, attrs: Mapping[str, Any], suggest: Suggest) -> TrainingConfig:
    """What a training is of: of the configuration itself, or of what is suggested."""
    return config if attrs[_OWN] else suggested(config, suggest)


def _tried(trial: FrozenTrial) -> Tried:
    reported = trial.intermediate_values
    score = max(reported.values()) if reported else None
    return Tried(
        trial.number, trial.state.name.lower(), score, max(reported, default=0), trial.params
    )
