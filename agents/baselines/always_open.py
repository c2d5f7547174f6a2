"""The breaker as sensitive as it can be, so that it opens at the first errors. It must lose.

Formula: `threshold_steps = 1` (0.05); replicas stay at the start value. One regime. No upstream;
`baselines.md`, 15 ("always-open breaker"). A reward under which this wins would teach a policy to
turn users away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...envs.schema.settings import MIN_THRESHOLD_STEPS, GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot
from .site import Site, Suggest


@dataclass(frozen=True, slots=True)
class AlwaysOpenParams:
    """Nothing to set."""

    def make(self, site: Site, *, seed: int) -> AlwaysOpen:
        """A controller for one episode; nothing plays a part."""
        del site, seed
        return AlwaysOpen()

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> AlwaysOpenParams:
        """Itself: nothing to tune."""
        del suggest, site
        return cls()


@dataclass(frozen=True, slots=True)
class AlwaysOpen:
    """The controller. It has no state."""

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """The lowest threshold, the same replicas."""
        del snapshot
        return replace(settings, threshold_steps=MIN_THRESHOLD_STEPS)
