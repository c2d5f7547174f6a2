"""Chooses a controller's parameters on training windows, so that a comparison with it is fair.

Every controller gets the same budget: so many sets of parameters, drawn by Optuna's tree-structured
Parzen estimator from the controller's own space (`ControllerParams.suggested`), each played through
the same windows of the scenario's `train` split; the score is the mean documented return. Where
faults are on, a controller that leaves the breaker alone gets a constant threshold tuned beside it.
The best set is taken if it is no worse than the upstream defaults on validation windows, else the
defaults stay; windows that are evaluated are never looked at. A controller at one step a tick is
tuned as such: what suits jumps does not suit steps.

Studies are kept on disk, one file a controller and scenario; an interrupted one is gone on with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import optuna
from optuna.samplers import TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FixedTrial, FrozenTrial, TrialState

from ..envs.scenario import Scenario
from ..envs.schema.settings import MAX_THRESHOLD_STEPS, MIN_THRESHOLD_STEPS
from .baselines.registry import (
    REPLICA_KEEPERS,
    THRESHOLD_RULES,
    UNIT_SUFFIX,
    controller_names,
    params_type,
)
from .baselines.site import Site, Suggest
from .choice import Choice, default_choice
from .digests import scenario_digest, sources_digest
from .evaluation import Progress, no_progress, play_controllers, unkeepable
from .policy import Controller
from .trial import Trial, TrialPlan, load_trial, plan_trial
from .windows import Window

TRIALS: Final = 32
"""Sets of parameters that each controller may try."""
BATCH: Final = 16
"""Sets played side by side; the first batch is drawn at random."""
TUNING_WINDOWS: Final = 16
"""Windows of each split that a set is judged on. With half as many the best on training windows was
the boldest: a tuned HPA that fell from -21 to -327 on validation windows of `tenants70b`."""
TUNING_SEED: Final = 7_919
"""Base of the windows' seeds: one, so that a result can be kept whatever is evaluated."""
_THRESHOLD: Final = "breaker_threshold_steps"
_JUDGED: Final = "train of the defaults; validation of the defaults, of the best"

SOURCES: Final = (
    "envs/**/*.py",
    "reward/*.py",
    "agents/baselines/**/*.py",
    "agents/choice.py",
    "agents/evaluation.py",
    "agents/episodes.py",
    "agents/scenario_site.py",
    "agents/trial.py",
    "agents/tuning.py",
    "agents/windows.py",
)
"""Code that what a controller achieves depends on."""


class StudyError(ValueError):
    """A kept study that cannot be read: one line."""


class Reporter(Protocol):
    """Shows what is going on."""

    def start(self, what: str, ticks: int) -> Progress:
        """Begins a piece of work of so many ticks over all gateways."""
        ...


class SilentReporter:
    """Shows nothing: for callers without a terminal."""

    def start(self, what: str, ticks: int) -> Progress:
        """A piece of work of which nobody is told."""
        del what, ticks
        return no_progress


@dataclass(frozen=True)
class TuningTrials:
    """What candidates are put through."""

    train: Trial
    """Where they are searched."""
    validation: Trial
    """Where the best is held against the defaults."""


@dataclass(frozen=True)
class Tuned:
    """What a search has chosen, and what it achieves: mean documented returns."""

    choice: Choice
    trials: int
    """Sets of parameters that were tried."""
    train: float
    """On training windows."""
    train_default: float
    """The upstream defaults on the same windows."""
    validation: float
    """On validation windows; never below the next one."""
    validation_default: float
    """The upstream defaults there."""


def tuning_trials(
    scenario: Scenario, ticks: int, traces_dir: Path | None, threads: int | None = None
) -> TuningTrials:
    """Windows to tune on, as long as the evaluated ones where the ranges allow.

    Windows that no number of replicas keeps are left out, unless none would remain.

    Args:
        scenario: What is run.
        ticks: Length of an evaluated window.
        traces_dir: Where trace files lie.
        threads: As in `Trial`.

    Raises:
        WindowError: A range does not hold a single tick.
        ScenarioError: The traffic cannot be loaded.
    """
    train, validation = (
        load_trial(_tuning_plan(scenario, split, ticks, traces_dir), traces_dir, threads)
        for split in ("train", "validation")
    )
    return TuningTrials(_keepable(train), _keepable(validation))


def _tuning_plan(scenario: Scenario, split: str, ticks: int, traces_dir: Path | None) -> TrialPlan:
    from_s, to_s = scenario.split_range(split)
    fitting = max(int((to_s - from_s) // scenario.control.tick_s), 1)
    return plan_trial(
        scenario,
        split=split,
        ticks=min(ticks, fitting),
        windows=TUNING_WINDOWS,
        seed=TUNING_SEED,
        traces_dir=traces_dir,
    )


def _keepable(trial: Trial) -> Trial:
    keepable = unkeepable(trial) == 0
    return trial.keeping(keepable.tolist()) if keepable.any() else trial


def tune(name: str, trials: TuningTrials, *, studies_dir: Path | None, reporter: Reporter) -> Tuned:
    """Chooses the parameters of a controller.

    Args:
        name: A name of the registry, with or without `@unit`, that `is_tunable`.
        trials: From `tuning_trials`.
        studies_dir: Where studies are kept; `None`: nowhere.
        reporter: Shows progress.
    """
    default = default_choice(name)
    train, validation = trials.train, trials.validation
    study = _study(name, trials, studies_dir)
    played = _complete(study)
    judged: list[float] | None = study.user_attrs.get(_JUDGED)
    left = 0 if len(played) >= TRIALS else TRIALS - _whole_batches(played)
    windows = left * len(train.windows)
    windows += 0 if judged else len(train.windows) + 2 * len(validation.windows)
    progress = reporter.start(f"tuning {name}", windows * train.ticks)
    while len(played) < TRIALS:
        study.add_trials(_next_batch(played, name, train, progress))
        played = _complete(study)
    best = max(played, key=lambda trial: (trial.value or 0.0, -trial.number))
    found = _suggested(name, FixedTrial(best.params), train)
    if judged is None:
        judged = _scores(train, [default], progress) + _scores(
            validation, [default, found], progress
        )
        study.set_user_attr(_JUDGED, judged)
    train_default, *on_validation = judged
    score = best.value or 0.0
    is_better = score >= train_default and on_validation[1] >= on_validation[0]
    return Tuned(
        choice=found if is_better else default,
        trials=len(played),
        train=score if is_better else train_default,
        train_default=train_default,
        validation=on_validation[1 if is_better else 0],
        validation_default=on_validation[0],
    )


def _next_batch(
    played: Sequence[FrozenTrial], name: str, train: Trial, progress: Progress
) -> list[FrozenTrial]:
    """Plays the next sets and returns those that are new.

    The draw hangs on whole batches, so an interrupted study goes on as one that was not: of a batch
    that is kept in part, the same sets are drawn again and the rest is added. Drawing happens in
    memory, where a set is kept whole: each line of a journal is written for good before the next.
    """
    done = _whole_batches(played)
    sampler = TPESampler(seed=TUNING_SEED + done, n_startup_trials=BATCH)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.add_trials(played[:done])
    asked = [study.ask() for _ in range(min(BATCH, TRIALS - done))]
    choices = [_suggested(name, trial, train) for trial in asked]
    for trial, score in zip(asked, _scores(train, choices, progress), strict=True):
        study.tell(trial, score)
    return _complete(study)[len(played) :]


def _whole_batches(played: Sequence[FrozenTrial]) -> int:
    """How many of the sets that are kept belong to whole batches."""
    return len(played) // BATCH * BATCH


def _suggested(name: str, suggest: Suggest, trial: Trial) -> Choice:
    """Parameters out of the controller's space, and a threshold where it matters."""
    params = params_type(name).suggested(suggest, trial.site)
    if not trial.scenario.faults or name.removesuffix(UNIT_SUFFIX) in THRESHOLD_RULES:
        return Choice(name, params)
    steps = suggest.suggest_int(_THRESHOLD, MIN_THRESHOLD_STEPS, MAX_THRESHOLD_STEPS)
    return Choice(name, params, steps)


def is_tunable(name: str, site: Site) -> bool:
    """Whether a controller has parameters that a search may vary."""
    try:
        params_type(name).suggested(FixedTrial({}), site)
    except ValueError:  # it asked, and nothing was there
        return True
    return False


def tunable_names(site: Site) -> tuple[str, ...]:
    """Every controller that has something to tune, then those that scale at steps of one."""
    names = tuple(name for name in controller_names() if is_tunable(name, site))
    scaling = (name for name in names if name not in REPLICA_KEEPERS)
    return (*names, *(f"{name}{UNIT_SUFFIX}" for name in scaling))


def _scores(trial: Trial, choices: Sequence[Choice], progress: Progress) -> list[float]:
    """Mean documented return of each."""
    makers = [partial(_made, choice, trial) for choice in choices]
    played = play_controllers(trial, makers, progress, with_ttft=False)
    return [float(outcomes.returns.mean()) for outcomes in played]


def _made(choice: Choice, trial: Trial, window: Window) -> Controller:
    return choice.make(trial.site, window.seed)


def _study(name: str, trials: TuningTrials, studies_dir: Path | None) -> optuna.Study:
    """The study of a controller under these trials; one that was interrupted goes on.

    Raises:
        StudyError: Its file is damaged.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    key = _key(name, trials)
    if studies_dir is None:
        return optuna.create_study(study_name=key, direction="maximize")
    folder = studies_dir / trials.train.scenario.name
    folder.mkdir(parents=True, exist_ok=True)
    return kept_study(folder / f"{name}.journal", key)


def kept_study(path: Path, key: str, **options: Any) -> optuna.Study:  # noqa: ANN401  # Optuna's
    """A study that is kept in a file; one that was interrupted goes on.

    Args:
        path: Its journal.
        key: Its name: whatever else is in the file is another one's.
        **options: Of `optuna.create_study`.

    Raises:
        StudyError: The file is damaged.
    """
    try:
        return optuna.create_study(
            study_name=key,
            storage=JournalStorage(JournalFileBackend(str(path))),
            direction="maximize",
            load_if_exists=True,
            **options,
        )
    except (KeyError, ValueError) as error:
        raise StudyError(f"{path}: is damaged, remove it ({error})") from error


def _complete(study: optuna.Study) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def _key(name: str, trials: TuningTrials) -> str:
    """A hash of all that the result depends on."""
    digest = hashlib.sha256(code_digest().encode())
    digest.update(repr((name, scenario_digest(trials.train.scenario))).encode())
    for trial in (trials.train, trials.validation):
        digest.update(repr((trial.ticks, trial.windows)).encode())
        for requests in trial.requests:
            for array in (requests.arrival_s, requests.prompt_tokens, requests.output_tokens):
                digest.update(array.tobytes())
    return digest.hexdigest()


def code_digest() -> str:
    """A hash of the sources that decide what a controller achieves."""
    return sources_digest(SOURCES)
