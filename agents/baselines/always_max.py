"""All replicas, always: what quality costs when money does not matter.

Formula: `replicas = max_replicas`; the threshold is left alone. One regime, no constants. No
upstream; `baselines.md`, 15. Windows in which even this violates cannot be kept by any controller.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...envs.schema.settings import GatewaySettings, Limits
from ...envs.schema.snapshot import MetricsSnapshot


@dataclass(frozen=True, slots=True)
class AlwaysMaxParams:
    """Nothing to set."""

    def make(self, limits: Limits, *, tick_s: float, seed: int) -> AlwaysMax:
        """A controller for one episode; neither tick nor seed plays a part."""
        del tick_s, seed
        return AlwaysMax(limits)

    @classmethod
    def grid(cls, limits: Limits) -> tuple[AlwaysMaxParams, ...]:
        """Itself: nothing to tune."""
        del limits
        return (cls(),)


@dataclass(frozen=True, slots=True)
class AlwaysMax:
    """The controller. It has no state."""

    limits: Limits

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """The largest allowed size."""
        del snapshot
        return replace(settings, replicas=self.limits.max_replicas)
