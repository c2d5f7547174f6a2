"""Settings laid down for every tick of an episode beforehand, and the controller that sets them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot


@dataclass(frozen=True, eq=False)
class Plan:
    """What is set at each tick of one episode, arrays `(ticks,)`."""

    replicas: NDArray[np.int64]
    """Replicas asked for."""
    threshold_steps: NDArray[np.int64]
    """Breaker threshold in steps of 0.05."""

    def make(self) -> PlanFollower:
        """A controller for one episode."""
        return PlanFollower(self)


@dataclass(slots=True)
class PlanFollower:
    """Sets what the plan says, whatever the snapshot shows; after its end, the last settings."""

    plan: Plan
    tick: int = 0
    """The next one to be decided."""

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """The plan's settings for this tick."""
        del snapshot
        place = min(self.tick, len(self.plan.replicas) - 1)
        self.tick += 1
        return GatewaySettings(
            int(self.plan.replicas[place]),
            int(self.plan.threshold_steps[place]),
            settings.max_outstanding,
        )
