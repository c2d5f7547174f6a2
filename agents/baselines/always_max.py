"""All replicas, always: what quality costs when money does not matter.

Formula: `replicas = max_replicas`; the threshold is left alone. One regime, no constants. No
upstream; `baselines.md`, 15. Windows in which even this violates cannot be kept by any controller.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...envs.schema.settings import GatewaySettings, Limits
from ...envs.schema.snapshot import MetricsSnapshot
from .site import Site, Suggest


@dataclass(frozen=True, slots=True)
class AlwaysMaxParams:
    """Nothing to set."""

    def make(self, site: Site, *, seed: int) -> AlwaysMax:
        """A controller for one episode; the seed plays no part."""
        del seed
        return AlwaysMax(site.limits)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> AlwaysMaxParams:
        """Itself: nothing to tune."""
        del suggest, site
        return cls()


@dataclass(frozen=True, slots=True)
class AlwaysMax:
    """The controller. It has no state."""

    limits: Limits

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """The largest allowed size."""
        del snapshot
        return replace(settings, replicas=self.limits.max_replicas)
