"""Leaves everything as it is.

Formula: `settings = settings`. One regime, no constants, no limits: not even a size outside the
limits is touched. No upstream; `baselines.md`, 15. It earns +0.1 a tick for smoothness and pays for
whatever happens.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot
from .site import Site, Suggest


@dataclass(frozen=True, slots=True)
class DoNothingParams:
    """Nothing to set."""

    def make(self, site: Site, *, seed: int) -> DoNothing:
        """A controller for one episode; nothing plays a part."""
        del site, seed
        return DoNothing()

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> DoNothingParams:
        """Itself: nothing to tune."""
        del suggest, site
        return cls()


@dataclass(frozen=True, slots=True)
class DoNothing:
    """The controller. It has no state."""

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """The settings in force."""
        del snapshot
        return settings
