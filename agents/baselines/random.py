"""Uniformly random steps: what an untrained policy does.

Formula: each tick one of the nine actions, each with probability 1/9; bounds clamp. One regime, no
constants. No upstream; `baselines.md`, 15.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...envs.schema.action import STEPS
from ...envs.schema.settings import GatewaySettings, Limits
from ...envs.schema.snapshot import MetricsSnapshot
from .site import Site, Suggest


@dataclass(frozen=True, slots=True)
class RandomParams:
    """Nothing to set."""

    def make(self, site: Site, *, seed: int) -> Random:
        """A controller for one episode, deterministic in `seed`."""
        return Random(site.limits, np.random.default_rng(seed))

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> RandomParams:
        """Itself: nothing to tune."""
        del suggest, site
        return cls()


@dataclass(frozen=True, slots=True)
class Random:
    """The controller; its state is the generator's."""

    limits: Limits
    generator: np.random.Generator

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """One random step of either head."""
        del snapshot
        scale, threshold = self.generator.choice(STEPS, size=2)
        return settings.stepped(int(scale), int(threshold), self.limits)

    def saved(self) -> dict[str, Any]:
        """The generator's state, as JSON content."""
        return dict(self.generator.bit_generator.state)

    def restore(self, saved: dict[str, Any]) -> None:
        """Draws on where another one stopped."""
        self.generator.bit_generator.state = saved
