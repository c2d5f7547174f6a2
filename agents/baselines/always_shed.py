"""Turns every request away, on as few replicas as allowed. It must lose.

Formula: `max_outstanding = 0`, `replicas = min_replicas`; the threshold is left alone. One regime.
No upstream; `reward.md`: a policy that sheds must score worst of all, because shed requests count
as errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...envs.schema.settings import GatewaySettings, Limits
from ...envs.schema.snapshot import MetricsSnapshot
from .site import Site, Suggest


@dataclass(frozen=True, slots=True)
class AlwaysShedParams:
    """Nothing to set."""

    def make(self, site: Site, *, seed: int) -> AlwaysShed:
        """A controller for one episode; the seed plays no part."""
        del seed
        return AlwaysShed(site.limits)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> AlwaysShedParams:
        """Itself: nothing to tune."""
        del suggest, site
        return cls()


@dataclass(frozen=True, slots=True)
class AlwaysShed:
    """The controller. It has no state."""

    limits: Limits

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Shed all, run the fewest replicas."""
        del snapshot
        return replace(settings, replicas=self.limits.min_replicas, max_outstanding=0)
