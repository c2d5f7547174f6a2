"""LiteLLM's cool-down rule, as far as this gateway's breaker can follow it: a constant threshold.

Formula: `litellm_cooldown` has the exact rule and its version. Here, with the threshold H in steps
of 0.05:

- more than one replica ready: `H = 0.5`, as near as steps come to LiteLLM's failed share;
- one ready: `H = 0.95`, the largest there is, for LiteLLM cools the only deployment down when *all*
  of 1,000 requests failed.

These are the regimes; without `replicas_ready` it holds. So this is the constant threshold 0.5,
which is also where scenarios start, wherever a second replica is ready. It is named after LiteLLM
so that nobody has to guess which threshold LiteLLM would be.

Version: see `litellm_cooldown`; upstream acts on deployments, one by one. Here a deployment is a
replica, and what takes it out is the gateway's outlier detection, whose failed share is the
threshold. The rest of the rule is the gateway's own and differs:

| LiteLLM | this gateway's outlier detection |
|---|---|
| more than the share | at or above it |
| of 5 requests of the clock minute | of its request volume, an interval at a time |
| out for 5 s | out for its base time, times the ejections |
| all may cool down at once | a cap on the share of replicas that are out |
| 429 and statuses that are not retried cool down at once | replicas answer neither |

Replicas and the admission limit stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...envs.schema.settings import (
    MAX_THRESHOLD_STEPS,
    MIN_THRESHOLD_STEPS,
    THRESHOLD_STEP,
    GatewaySettings,
)
from ...envs.schema.snapshot import MetricsSnapshot
from .litellm_cooldown import CooldownParams
from .site import Site, Suggest


@dataclass(frozen=True, slots=True)
class LitellmParams:
    """What of the rule has a counterpart here."""

    failure_fraction: float = CooldownParams().failure_fraction
    """Failed share above which a replica is taken out, 0-1."""

    def __post_init__(self) -> None:
        """Refuses what is no share.

        Raises:
            ValueError: It is out of range.
        """
        if not 0 <= self.failure_fraction <= 1:
            raise ValueError(f"failure_fraction is {self.failure_fraction}, expected 0-1")

    def make(self, site: Site, *, seed: int) -> Litellm:
        """A controller for one episode; site and seed play no part."""
        del site, seed
        steps = round(self.failure_fraction / THRESHOLD_STEP)
        return Litellm(min(max(steps, MIN_THRESHOLD_STEPS), MAX_THRESHOLD_STEPS))

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> LitellmParams:
        """The failed share."""
        del site
        return cls(suggest.suggest_float("failure_fraction", 0.05, 0.95))


@dataclass(frozen=True, slots=True)
class Litellm:
    """The controller. It has no state."""

    threshold_steps: int
    """Breaker threshold beside a second replica, in steps of 0.05."""

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """The threshold; holds where it is not known how many replicas are ready."""
        if snapshot.replicas_ready is None:
            return settings
        is_single = snapshot.replicas_ready <= 1
        steps = MAX_THRESHOLD_STEPS if is_single else self.threshold_steps
        return replace(settings, threshold_steps=steps)
