"""A constant number of replicas and a constant threshold.

Formula: `replicas = R`, `threshold_steps = H`, whatever the snapshot says. One regime. With R
chosen in hindsight per trace this is the best constant: what an autoscaler must beat to be worth
its moves. No upstream; `baselines.md`, 15.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...envs.schema.settings import (
    MAX_THRESHOLD_STEPS,
    MIN_THRESHOLD_STEPS,
    START_THRESHOLD_STEPS,
    GatewaySettings,
    Limits,
)
from ...envs.schema.snapshot import MetricsSnapshot
from .site import Site, Suggest


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

    def make(self, site: Site, *, seed: int) -> Fixed:
        """A controller for one episode; the seed plays no part."""
        del seed
        return Fixed(self, site.limits)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> FixedParams:
        """Any allowed number of replicas, and any threshold."""
        replicas = suggest.suggest_int(
            "replicas", site.limits.min_replicas, site.limits.max_replicas
        )
        steps = suggest.suggest_int("threshold_steps", MIN_THRESHOLD_STEPS, MAX_THRESHOLD_STEPS)
        return cls(replicas, steps)


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
