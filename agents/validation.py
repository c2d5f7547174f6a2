"""How a checkpoint is judged while training runs: fixed windows of the validation split."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..envs.reward_fn import RewardFn
from ..envs.scenario import Scenario
from ..envs.schema.action import DISCRETE_ACTIONS, to_discrete
from ..envs.schema.fields import FIELD_INDEX
from ..envs.schema.observation import ObservationSpec
from ..envs.schema.settings import THRESHOLD_STEP
from .baselines.always_max import AlwaysMaxParams
from .baselines.planner.params import PlannerParams
from .config import ValidationConfig
from .episodes import Outcomes
from .evaluation import play_controllers
from .layouts import wandering_layout
from .policy import Controller, Policy
from .side_by_side import SideBySide
from .trial import Trial, prepare_trial
from .windows import Window, WindowError

VALIDATION_SEED: Final = 20_011
"""Base of the validation windows' seeds: the same for every training, so that runs can be
compared."""
COLLAPSED_NATS: Final = 0.02
"""Entropy of the choices below which a policy has collapsed: one tick in 400 is another action."""
_UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9_. -]")
"""What no figure's name may have in MLflow (and the slash, which parts names)."""
_THRESHOLD_COLUMN: Final = FIELD_INDEX["breaker_threshold"]


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """What a deterministic policy did on the validation windows.

    Means are over the windows of a scenario, then over the scenarios, as in every table of several.
    """

    windows: int
    """How many, over all scenarios."""
    ticks: int
    """Length of each."""
    score: float
    """What checkpoints are chosen by: the mean documented return, whatever is trained on; with
    wandering windows the mean of that and of `wandering_return`."""
    return_mean: float
    """Mean documented return."""
    return_median: float
    """Median documented return of all windows."""
    violation_rate: float
    """Share of ticks that end in violation."""
    replica_hours: float
    """Billed replica-hours of a window."""
    error_rate: float
    """Failed share of finished requests, shed and timed-out ones included."""
    changes: float
    """Ticks of a window at which replicas or threshold were changed."""
    threshold_distance: float
    """Mean distance of the breaker's threshold from the scenario's start, a share."""
    action_entropy: float
    """Entropy of the choices over the nine actions, nats (`has_collapsed`)."""
    wandering_return: float | None = None
    """Mean return of the wandering windows under the reward that is trained on: what a violation
    costs there decides how much reserve is kept. `None`: there are none."""
    wandering_violation_rate: float | None = None
    """Share of their ticks that end in violation."""
    scenario_returns: dict[str, float] = field(default_factory=dict)
    """Mean documented return by scenario, where there are several."""

    @property
    def has_collapsed(self) -> bool:
        """Whether the policy chooses one and the same action nearly everywhere."""
        return self.action_entropy < COLLAPSED_NATS

    def figures(self) -> dict[str, float]:
        """All that is known, by name."""
        content = asdict(self)
        returns = content.pop("scenario_returns")
        named = {f"return/{_UNNAMEABLE.sub('_', name)}": x for name, x in returns.items()}
        return {k: float(v) for k, v in content.items() if v is not None} | named


class Validation:
    """Windows that neither training nor test sees, with fixed traffic and seeds."""

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        config: ValidationConfig,
        *,
        load_scales: tuple[float, ...],
        reward_fn: RewardFn,
        observation: ObservationSpec,
        advisors: Sequence[PlannerParams] | None,
        traces_dir: Path | None,
    ) -> None:
        """Plans the windows and draws their traffic.

        Args:
            scenarios: What is validated on.
            config: How many windows of each, how long.
            load_scales: Factors on the rate, between which it wanders.
            reward_fn: What is trained on.
            observation: What the policy sees.
            advisors: Of the planner whose advice it sees, one a scenario; `None`: it sees none.
            traces_dir: Folder of the traces.

        Raises:
            WindowError: A validation range does not hold one window.
            ScenarioError: The traffic cannot be loaded.
        """
        trials = [
            _trial(scenario, config.ticks, config.windows, traces_dir) for scenario in scenarios
        ]
        self._windows = SideBySide(trials, observation, advisors)
        self._wandering: SideBySide | None = None
        if config.wandering_windows:
            wandering = [
                _wandering_trial(scenario, config, load_scales, traces_dir)
                for scenario in scenarios
            ]
            self._wandering = SideBySide(wandering, observation, advisors, reward_fn)

    def run(self, policy: Policy) -> ValidationResult:
        """Runs a policy through every window.

        Args:
            policy: Acts deterministically.

        Returns:
            Its figures.
        """
        counting = _CountingPolicy(policy)
        trials = self._windows.trials
        played = self._windows.play(counting)
        score = return_mean = _mean([outcomes.returns for outcomes in played])
        wandering_return = wandering_violation_rate = None
        if self._wandering is not None:
            others = self._wandering.play(policy)
            wandering_return = _mean([outcomes.returns for outcomes in others])
            wandering_violation_rate = _mean([outcomes.violation_rate for outcomes in others])
            score = (return_mean + wandering_return) / 2
        shares = counting.counts[counting.counts > 0] / counting.counts.sum()
        returns = {
            trial.scenario.name: float(outcomes.returns.mean())
            for trial, outcomes in zip(trials, played, strict=True)
        }
        return ValidationResult(
            windows=sum(len(trial.windows) for trial in trials),
            ticks=trials[0].ticks,
            score=score,
            return_mean=return_mean,
            return_median=float(np.median(np.concatenate([one.returns for one in played]))),
            violation_rate=_mean([outcomes.violation_rate for outcomes in played]),
            replica_hours=_mean([outcomes.replica_hours for outcomes in played]),
            error_rate=_mean([outcomes.error_rate for outcomes in played]),
            changes=_mean([outcomes.changes for outcomes in played]),
            threshold_distance=_mean(
                [_distances(trial, one) for trial, one in zip(trials, played, strict=True)]
            ),
            action_entropy=abs(float((shares * np.log(shares)).sum())),
            wandering_return=wandering_return,
            wandering_violation_rate=wandering_violation_rate,
            scenario_returns=returns if len(returns) > 1 else {},
        )


def _mean(of_scenarios: Sequence[NDArray[np.floating[Any] | np.integer[Any]]]) -> float:
    """Mean over the scenarios of the mean of each."""
    return float(np.mean([values.mean() for values in of_scenarios]))


def _distances(trial: Trial, outcomes: Outcomes) -> NDArray[np.float64]:
    """How far the threshold was from the scenario's start at every tick of every window."""
    start = trial.scenario.gateway.threshold_steps * THRESHOLD_STEP
    distances: NDArray[np.float64] = np.abs(outcomes.rows[..., _THRESHOLD_COLUMN] - start)
    return distances


def _trial(scenario: Scenario, ticks: int, windows: int, traces_dir: Path | None) -> Trial:
    """Windows of the validation range."""
    try:
        return prepare_trial(
            scenario,
            split="validation",
            ticks=ticks,
            windows=windows,
            seed=VALIDATION_SEED,
            traces_dir=traces_dir,
        )
    except WindowError as error:
        raise WindowError(f"validation.ticks: {scenario.name}: {error}") from error


def _wandering_trial(
    scenario: Scenario,
    config: ValidationConfig,
    load_scales: tuple[float, ...],
    traces_dir: Path | None,
) -> Trial:
    """Windows of the validation range whose rate wanders.

    Out are those that break even if the maximum is asked for from the first tick on: many begin at
    a load for which the first replicas are too few, and would tell nothing but that.
    """
    trial = _trial(scenario, config.ticks, config.wandering_windows, traces_dir)
    layouts = tuple(
        wandering_layout(scenario, "validation", load_scales, seed=seed, traces_dir=traces_dir)
        for seed in trial.plan.request_seeds
    )
    trial = replace(trial, requests=layouts)
    kept = _at_most(trial).violation_rate == 0
    return trial.keeping(kept.tolist()) if kept.any() else trial


def _at_most(trial: Trial) -> Outcomes:
    def make(window: Window) -> Controller:
        return AlwaysMaxParams().make(trial.site, seed=window.seed)

    return play_controllers(trial, [make])[0]


class _CountingPolicy:
    """A policy whose choices are counted."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.counts = np.zeros(DISCRETE_ACTIONS, np.int64)

    def act(self, observation: NDArray[np.float32]) -> NDArray[np.int64]:
        actions = self._policy.act(observation)
        self.counts += np.bincount(to_discrete(actions), minlength=DISCRETE_ACTIONS)
        return actions
