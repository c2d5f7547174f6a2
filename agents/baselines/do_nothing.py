"""Leaves everything as it is.

Formula: `settings = settings`. One regime, no constants, no limits: not even a size outside the
limits is touched. No upstream; `baselines.md`, 15. It earns +0.1 a tick for smoothness and pays for
whatever happens.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...envs.schema.settings import GatewaySettings, Limits
from ...envs.schema.snapshot import MetricsSnapshot


@dataclass(frozen=True, slots=True)
class DoNothingParams:
    """Nothing to set."""

    def make(self, limits: Limits, *, tick_s: float, seed: int) -> DoNothing:
        """A controller for one episode; nothing plays a part."""
        del limits, tick_s, seed
        return DoNothing()

    @classmethod
    def grid(cls, limits: Limits) -> tuple[DoNothingParams, ...]:
        """Itself: nothing to tune."""
        del limits
        return (cls(),)


@dataclass(frozen=True, slots=True)
class DoNothing:
    """The controller. It has no state."""

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """The settings in force."""
        del snapshot
        return settings
