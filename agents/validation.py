"""How a checkpoint is judged while training runs: fixed windows of the validation split."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..envs.scenario import Scenario
from ..envs.schema.action import DISCRETE_ACTIONS, to_discrete
from ..envs.schema.fields import FIELD_INDEX
from ..envs.schema.observation import ObservationSpec
from ..envs.schema.settings import THRESHOLD_STEP
from .config import ValidationConfig
from .evaluation import play_policy
from .policy import Policy
from .trial import prepare_trial
from .windows import WindowError

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
    return_mean: float
    """Mean documented return: what checkpoints are chosen by, whatever is trained on."""
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


class Validation:
    """Windows that neither training nor test sees, with fixed traffic and seeds."""

    def __init__(
        self,
        scenario: Scenario,
        config: ValidationConfig,
        *,
        observation: ObservationSpec,
        traces_dir: Path | None,
    ) -> None:
        """Plans the windows and draws their traffic.

        Args:
            scenario: What is validated on.
            config: How many windows, how long.
            observation: What the policy sees.
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

    def run(self, policy: Policy) -> ValidationResult:
        """Runs a policy through every window.

        Args:
            policy: Acts deterministically.

        Returns:
            Its figures.
        """
        counting = _CountingPolicy(policy)
        outcomes = play_policy(self._trial, counting, self._observation)
        shares = counting.counts[counting.counts > 0] / counting.counts.sum()
        start = self._trial.scenario.gateway.threshold_steps * THRESHOLD_STEP
        distance = np.abs(outcomes.rows[..., _THRESHOLD_COLUMN] - start)
        return ValidationResult(
            windows=len(self._trial.windows),
            ticks=self._trial.ticks,
            return_mean=float(outcomes.returns.mean()),
            return_median=float(np.median(outcomes.returns)),
            violation_rate=float(outcomes.violation_rate.mean()),
            replica_hours=float(outcomes.replica_hours.mean()),
            error_rate=float(outcomes.error_rate.mean()),
            changes=float(outcomes.changes.mean()),
            threshold_distance=float(distance.mean()),
            action_entropy=abs(float((shares * np.log(shares)).sum())),
        )


class _CountingPolicy:
    """A policy whose choices are counted."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.counts = np.zeros(DISCRETE_ACTIONS, np.int64)

    def act(self, observation: NDArray[np.float32]) -> NDArray[np.int64]:
        actions = self._policy.act(observation)
        self.counts += np.bincount(to_discrete(actions), minlength=DISCRETE_ACTIONS)
        return actions
