"""A constant number of replicas and a constant threshold.

Formula: `replicas = R`, `threshold_steps = H`, whatever the snapshot says. One regime. With R
chosen in hindsight per trace this is the best constant: what an autoscaler must beat to be worth
its moves. No upstream; `baselines.md`, 15.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...envs.schema.settings import START_THRESHOLD_STEPS, GatewaySettings, Limits
from ...envs.schema.snapshot import MetricsSnapshot


@dataclass(frozen=True, slots=True)
class FixedParams:
    """Where it stands."""

    replicas: int | None = None
    """Replicas; `None`: those it starts with. Outside the limits: the nearest limit."""
    threshold_steps: int = START_THRESHOLD_STEPS
    """Breaker threshold in steps of 0.05."""

    def __post_init__(self) -> None:
        """Refuses settings that no gateway should get.

        Raises:
            ValueError: A value is out of range.
        """
        GatewaySettings(1 if self.replicas is None else self.replicas, self.threshold_steps)

    def make(self, limits: Limits, *, tick_s: float, seed: int) -> Fixed:
        """A controller for one episode; neither tick nor seed plays a part."""
        del tick_s, seed
        return Fixed(self, limits)

    @classmethod
    def grid(cls, limits: Limits) -> tuple[FixedParams, ...]:
        """Every allowed number of replicas at the default threshold."""
        return tuple(cls(n) for n in range(limits.min_replicas, limits.max_replicas + 1))


@dataclass(frozen=True, slots=True)
class Fixed:
    """The controller. It has no state."""

    params: FixedParams
    limits: Limits

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """The constant settings."""
        del snapshot
        wanted = settings.replicas if self.params.replicas is None else self.params.replicas
        return replace(
            settings,
            replicas=self.limits.clip(wanted),
            threshold_steps=self.params.threshold_steps,
        )
