"""Requests instead of moments: each one within its SLO counts, each failed or late one costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..envs.schema.fields import FIELD_INDEX, Rows
from . import terms
from .slo import Slo


@dataclass(frozen=True, slots=True)
class GoodputReward:
    """Goodput, priced by the request, so that 801 ms and 80 s do not weigh the same.

        late      = max(0, 1 - latency limit / P95)
        failed    = error rate
        goodput   = value * rate / per_rps * (1 - failed) * (1 - late)
        violation = -price * max(rate, least) / per_rps * (late + max(0, failed - error limit))
        cost, smooth: as documented

    A row holds the P95 and not the share of late requests. `late` is that share beyond the 5 % that
    a limit on the P95 allows, if latencies were spread evenly from 0 to the P95. `violation` begins
    at 0 where the limits are broken and grows from there: no cliff, and the same ticks. Where the
    SLO counts a missing value as broken, all requests are late.
    """

    slo: Slo = field(default_factory=Slo)
    """What a good request is, missing data included."""
    value: float = 0.3
    """Worth of `per_rps` good requests a second for one tick: as much as ten replicas cost."""
    price: float = 3.0
    """Price of as many failed or late ones: ten good ones make up for one."""
    per_rps: float = 10.0
    """Requests a second that `value` and `price` are stated for."""
    least_rps: float = 1.0
    """A violation is priced as at least so much traffic: who hangs while nobody comes counts."""
    cost_weight: float = 0.3
    """Cost of `cost_per_replicas` billed replicas for one tick, as documented."""
    cost_per_replicas: float = 10.0
    """Replicas that `cost_weight` is the price of."""
    hold_bonus: float = 0.1
    """Reward for choosing no change of replicas."""
    change_penalty: float = 0.05
    """Price of choosing a change of replicas."""

    def __post_init__(self) -> None:
        """Refuses weights that would turn the reward around.

        Raises:
            ValueError: A weight is negative or not finite, or a divisor is 0.
        """
        for name in ("value", "price", "cost_weight", "hold_bonus", "change_penalty"):
            number = getattr(self, name)
            if not (math.isfinite(number) and number >= 0):
                msg = f"{name} is {number}, expected a number of 0 or more"
                raise ValueError(msg)
        for name in ("per_rps", "least_rps", "cost_per_replicas"):
            number = getattr(self, name)
            if not (math.isfinite(number) and number > 0):
                msg = f"{name} is {number}, expected a number above 0"
                raise ValueError(msg)

    def __call__(
        self, before: Rows, scale_choice: NDArray[np.int64], after: Rows
    ) -> dict[str, NDArray[np.float64]]:
        """Rates a tick of n gateways.

        Args:
            before: Not looked at.
            scale_choice: Shape `(n,)`: the replica step the agent chose, clamped or not.
            after: Shape `(n, F)`: the plant's own snapshot after the tick; NaN is missing.

        Returns:
            `goodput`, `violation`, `cost` and `smooth`, each `(n,)`; the reward is their sum.

        Raises:
            ValueError: The replicas after the tick are missing.
        """
        late, failed = self._shares(after)
        rate = np.nan_to_num(after[:, FIELD_INDEX["request_rate_rps"]]) / self.per_rps
        beyond = late + np.maximum(failed - self.slo.error_rate_limit, 0.0)
        at_stake = np.maximum(rate, self.least_rps / self.per_rps)
        return {
            "goodput": self.value * rate * (1 - failed) * (1 - late),
            "violation": np.where(self.violates(after), -self.price * at_stake * beyond, 0.0),
            "cost": terms.cost(after, weight=self.cost_weight, per_replicas=self.cost_per_replicas),
            "smooth": terms.smooth(
                scale_choice, hold_bonus=self.hold_bonus, change_penalty=self.change_penalty
            ),
        }

    def violates(self, rows: Rows) -> NDArray[np.bool_]:
        """Where the SLO is broken, `(n, F)` to `(n,)`."""
        return self.slo.violates(rows)

    def _shares(self, rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Late and failed shares; all are late where the SLO counts a missing value as broken."""
        latency_s = rows[:, FIELD_INDEX[self.slo.latency]]
        known = np.where(np.isnan(latency_s), 0.0, latency_s)
        over = np.maximum(known, self.slo.latency_limit_s)
        late = np.where(self.slo.unanswered(rows), 1.0, 1 - self.slo.latency_limit_s / over)
        return late, np.nan_to_num(rows[:, FIELD_INDEX["error_rate"]])
