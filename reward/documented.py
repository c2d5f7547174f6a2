"""The source document's reward, exactly: cost + violation + smooth on the state after the step."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..envs.schema.fields import Rows
from . import terms
from .slo import Slo


@dataclass(frozen=True, slots=True)
class DocumentedReward:
    """The reward that every evaluation reports, whatever a policy was trained on.

        cost      = -0.3 * (requested + draining) / 10
        violation = -5.0 if P95 of TTFT > 0.8 s or error rate > 0.02 else 0     (once)
        smooth    = +0.1 if the scaling head chose no change else -0.05

    One replica costs 0.03 a tick, a change 0.15 relative to none, a violation 5: 167 replica-ticks.
    Weights are magnitudes: every one is 0 or more, the signs are the formula's.
    """

    slo: Slo = field(default_factory=Slo)
    """What counts as a violation, missing data included."""
    cost_weight: float = 0.3
    """Cost of `cost_per_replicas` billed replicas for one tick."""
    cost_per_replicas: float = 10.0
    """Replicas that `cost_weight` is the price of."""
    violation_penalty: float = 5.0
    """Price of a tick that ends in violation."""
    hold_bonus: float = 0.1
    """Reward for choosing no change of replicas."""
    change_penalty: float = 0.05
    """Price of choosing a change of replicas."""

    def __post_init__(self) -> None:
        """Refuses weights that would turn the reward around.

        Raises:
            ValueError: A weight is negative or not finite, or `cost_per_replicas` is 0.
        """
        for name in ("cost_weight", "violation_penalty", "hold_bonus", "change_penalty"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                msg = f"{name} is {value}, expected a number of 0 or more"
                raise ValueError(msg)
        if not (math.isfinite(self.cost_per_replicas) and self.cost_per_replicas > 0):
            msg = f"cost_per_replicas is {self.cost_per_replicas}, expected a number above 0"
            raise ValueError(msg)

    @property
    def replica_price(self) -> float:
        """Price of one billed replica for one tick."""
        return self.cost_weight / self.cost_per_replicas

    def __call__(
        self,
        before: Rows,
        scale_choice: NDArray[np.int64],
        after: Rows,
    ) -> dict[str, NDArray[np.float64]]:
        """Rates a tick of n gateways.

        Args:
            before: Not looked at.
            scale_choice: Shape `(n,)`: the replica step the agent chose, clamped or not.
            after: Shape `(n, F)`: the plant's own snapshot after the tick; NaN is missing.

        Returns:
            `cost`, `violation` and `smooth`, each `(n,)`; the reward is their sum.

        Raises:
            ValueError: The replicas after the tick are missing.
        """
        return {
            "cost": terms.cost(after, weight=self.cost_weight, per_replicas=self.cost_per_replicas),
            "violation": terms.violation(after, self.slo, penalty=self.violation_penalty),
            "smooth": terms.smooth(
                scale_choice, hold_bonus=self.hold_bonus, change_penalty=self.change_penalty
            ),
        }

    def violates(self, rows: Rows) -> NDArray[np.bool_]:
        """Where the SLO is broken, `(n, F)` to `(n,)`."""
        return self.slo.violates(rows)


default_reward: Final = DocumentedReward()
"""The documented reward with the document's weights.

A registered environment names it as `"gatepilot.reward.documented:default_reward"`: the string
resolves to the reward itself (a `RewardFn`), not to a factory.
"""
