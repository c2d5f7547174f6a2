"""How a checkpoint is judged while training runs: fixed windows of the validation split."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

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
from .evaluation import play_controllers, play_policy
from .layouts import wandering_layout
from .policy import Controller, Policy
from .trial import Trial, prepare_trial
from .windows import Window, WindowError

VALIDATION_SEED: Final = 20_011
"""Base of the validation windows' seeds: the same for every training, so that runs can be
compared."""
_THRESHOLD_COLUMN: Final = FIELD_INDEX["breaker_threshold"]


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """What a deterministic policy did on the validation windows; means are over windows."""

    windows: int
    """How many."""
    ticks: int
    """Length of each."""
    score: float
    """What checkpoints are chosen by: the mean documented return, whatever is trained on; with
    wandering windows the mean of that and of `wandering_return`."""
    return_mean: float
    """Mean documented return."""
    return_median: float
    """Median documented return."""
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
    """Entropy of the choices over the nine actions, nats: 0 is a policy that has collapsed to
    one."""
    wandering_return: float | None = None
    """Mean return of the wandering windows under the reward that is trained on: what a violation
    costs there decides how much reserve is kept. `None`: there are none."""
    wandering_violation_rate: float | None = None
    """Share of their ticks that end in violation."""


class Validation:
    """Windows that neither training nor test sees, with fixed traffic and seeds."""

    def __init__(
        self,
        scenario: Scenario,
        config: ValidationConfig,
        *,
        load_scales: tuple[float, ...],
        reward_fn: RewardFn,
        observation: ObservationSpec,
        advisor: PlannerParams | None,
        traces_dir: Path | None,
    ) -> None:
        """Plans the windows and draws their traffic.

        Args:
            scenario: What is validated on.
            config: How many windows, how long.
            load_scales: Factors on the rate, between which it wanders.
            reward_fn: What is trained on.
            observation: What the policy sees.
            advisor: Of the planner whose advice it sees; `None`: it sees none.
            traces_dir: Folder of the traces.

        Raises:
            WindowError: The validation range does not hold one window.
            ScenarioError: The traffic cannot be loaded.
        """
        try:
            self._trial = prepare_trial(
                scenario,
                split="validation",
                ticks=config.ticks,
                windows=config.windows,
                seed=VALIDATION_SEED,
                traces_dir=traces_dir,
            )
        except WindowError as error:
            raise WindowError(f"validation.ticks: {error}") from error
        self._observation = observation
        self._advisor = advisor
        self._reward_fn = reward_fn
        self._wandering: Trial | None = None
        if config.wandering_windows:
            self._wandering = _wandering_trial(scenario, config, load_scales, traces_dir)

    def run(self, policy: Policy) -> ValidationResult:
        """Runs a policy through every window.

        Args:
            policy: Acts deterministically.

        Returns:
            Its figures.
        """
        counting = _CountingPolicy(policy)
        outcomes = play_policy(self._trial, counting, self._observation, advisor=self._advisor)
        score = return_mean = float(outcomes.returns.mean())
        wandering_return = wandering_violation_rate = None
        if self._wandering is not None:
            others = play_policy(
                self._wandering,
                policy,
                self._observation,
                advisor=self._advisor,
                reward_fn=self._reward_fn,
            )
            wandering_return = float(others.returns.mean())
            wandering_violation_rate = float(others.violation_rate.mean())
            score = (return_mean + wandering_return) / 2
        shares = counting.counts[counting.counts > 0] / counting.counts.sum()
        start = self._trial.scenario.gateway.threshold_steps * THRESHOLD_STEP
        distance = np.abs(outcomes.rows[..., _THRESHOLD_COLUMN] - start)
        return ValidationResult(
            windows=len(self._trial.windows),
            ticks=self._trial.ticks,
            score=score,
            return_mean=return_mean,
            return_median=float(np.median(outcomes.returns)),
            violation_rate=float(outcomes.violation_rate.mean()),
            replica_hours=float(outcomes.replica_hours.mean()),
            error_rate=float(outcomes.error_rate.mean()),
            changes=float(outcomes.changes.mean()),
            threshold_distance=float(distance.mean()),
            action_entropy=abs(float((shares * np.log(shares)).sum())),
            wandering_return=wandering_return,
            wandering_violation_rate=wandering_violation_rate,
        )


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
    trial = prepare_trial(
        scenario,
        split="validation",
        ticks=config.ticks,
        windows=config.wandering_windows,
        seed=VALIDATION_SEED,
        traces_dir=traces_dir,
    )
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
