"""What a controller sets on a gateway, and the limits it must keep."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

THRESHOLD_STEP: Final = 0.05
"""Size of one threshold step, a share of failed requests (source documents; `reward.md`)."""
THRESHOLD_STEP_PERCENT: Final = 5
"""The same in Envoy's unit: `failure_percentage_threshold` is a whole percentage."""
MIN_THRESHOLD_STEPS: Final = 1
"""0.05. A threshold of 0 makes Envoy eject hosts without a single error: it compares with >=."""
MAX_THRESHOLD_STEPS: Final = 19
"""0.95."""
START_THRESHOLD_STEPS: Final = 10
"""0.50, the default of every scenario."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many replicas a cluster may have."""

    min_replicas: int
    max_replicas: int

    def __post_init__(self) -> None:
        """Refuses an empty range.

        Raises:
            ValueError: `min_replicas` is below 1 or above `max_replicas`.
        """
        if not 1 <= self.min_replicas <= self.max_replicas:
            given = f"{self.min_replicas}-{self.max_replicas}"
            msg = f"replica limits {given}: expected 1 <= min <= max"
            raise ValueError(msg)

    def clip(self, replicas: int) -> int:
        """The allowed number nearest to `replicas`."""
        return min(max(replicas, self.min_replicas), self.max_replicas)


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The settings in force from one tick to the next."""

    replicas: int
    """Replicas asked for."""
    threshold_steps: int = START_THRESHOLD_STEPS
    """The breaker's failure share in steps of 0.05: an integer, so that replay is exact."""
    max_outstanding: int | None = None
    """Requests in flight above which new ones are shed with 429. `None`: no limit; 0: shed all."""

    def __post_init__(self) -> None:
        """Refuses settings that no gateway should get.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        if self.replicas < 0:
            msg = f"replicas is {self.replicas}, expected 0 or more"
            raise ValueError(msg)
        if not MIN_THRESHOLD_STEPS <= self.threshold_steps <= MAX_THRESHOLD_STEPS:
            msg = (
                f"threshold_steps is {self.threshold_steps}, "
                f"expected {MIN_THRESHOLD_STEPS}-{MAX_THRESHOLD_STEPS}"
            )
            raise ValueError(msg)
        if self.max_outstanding is not None and self.max_outstanding < 0:
            msg = f"max_outstanding is {self.max_outstanding}, expected None or 0 or more"
            raise ValueError(msg)

    @property
    def threshold(self) -> float:
        """The breaker's threshold as a share, 0.05-0.95."""
        return round(self.threshold_steps * THRESHOLD_STEP, 2)

    def stepped(self, scale: int, threshold: int, limits: Limits) -> GatewaySettings:
        """The settings after one action, bounded; a step beyond a bound changes nothing."""
        steps = min(max(self.threshold_steps + threshold, MIN_THRESHOLD_STEPS), MAX_THRESHOLD_STEPS)
        return replace(self, replicas=limits.clip(self.replicas + scale), threshold_steps=steps)
