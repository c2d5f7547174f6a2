"""Ray Serve's autoscaler, fed from snapshots.

Formula: `desired = outstanding / target`, taken over a look-back; `ceil(N + f (desired - N))` from
the N running replicas, with one factor for growth and one for shrinking; asked for after 30 s of
wishing for more or 600 s of wishing for fewer, without a break. `ray_serve_policy` holds the exact
rule and its regimes.

Version: Ray up to 2.54 and the tree of early 2026 (ray-project/ray, files and commits under
`ray_serve_policy`). Constants: target 2 ongoing requests, factors 1, delays 30 s and 600 s,
look-back 30 s, mean.

Ticks: upstream's loop of 0.1 s becomes one a tick, so a wish must last for more than
`int(delay / tick)` ticks; the look-back holds one sample a tick.

Quirks kept: those of `ray_serve_policy`; a delay shorter than the look-back is not refused, though
the look-back then carries a load that has gone through several decisions (ray#26455).

How a snapshot stands for the deployment. What it does not say is not guessed: hold, and the loop is
not counted, as if it had not been.

| upstream | here |
|---|---|
| requests ongoing at replicas and queued at handles | `running + waiting` |
| running replicas | `replicas_ready` |
| target number of replicas | replicas asked for |

Upstream's replicas push their numbers, so there the last one stays until the replica stops; a
scrape that failed has no counterpart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from ...envs.schema.settings import GatewaySettings, Limits
from ...envs.schema.snapshot import MetricsSnapshot
from .look_back import LookBack, whole_ticks
from .outstanding import outstanding_requests
from .ray_serve_policy import (
    Aggregation,
    DelayCounter,
    Delays,
    Deployment,
    Gains,
    Policy,
    aggregated,
)
from .site import Site, Suggest


@dataclass(frozen=True, slots=True)
class RayServeParams:
    """A deployment's `autoscaling_config`."""

    target_ongoing_requests: float = 2.0
    """Ongoing requests per replica (upstream's default, made for models that answer one by one)."""
    upscaling_factor: float = 1.0
    """Share of a missing number of replicas that is added at once."""
    downscaling_factor: float = 1.0
    """Share of a number too many that is removed at once."""
    upscale_delay_s: float = 30.0
    """Seconds that a wish for more must last."""
    downscale_delay_s: float = 600.0
    """Seconds that a wish for fewer must last."""
    look_back_period_s: float = 30.0
    """Seconds over which ongoing requests are aggregated."""
    aggregation: Aggregation = "mean"
    """How (`aggregation_function`)."""

    def __post_init__(self) -> None:
        """Refuses what upstream refuses.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        for name in (
            "target_ongoing_requests",
            "upscaling_factor",
            "downscaling_factor",
            "look_back_period_s",
        ):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value}, expected a number above 0")
        for name in ("upscale_delay_s", "downscale_delay_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value}, expected 0 or more seconds")
        if self.aggregation not in get_args(Aggregation):
            expected = ", ".join(get_args(Aggregation))
            raise ValueError(f"aggregation {self.aggregation!r}: expected one of {expected}")

    @property
    def policy(self) -> Policy:
        """The policy of these parameters. Scaling to zero, and so its delay, cannot happen here."""
        return Policy(
            self.target_ongoing_requests,
            Gains(self.upscaling_factor, self.downscaling_factor),
            Delays(self.upscale_delay_s, self.downscale_delay_s),
        )

    def make(self, site: Site, *, seed: int) -> RayServe:
        """A controller for one episode; the seed plays no part."""
        del seed
        ticks = whole_ticks(self.look_back_period_s, site.tick_s)
        return RayServe(self, site.limits, site.tick_s, RayServeState(LookBack(ticks)))

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> RayServeParams:
        """All numbers of the configuration."""
        del site
        return cls(
            suggest.suggest_float("target_ongoing_requests", 1.0, 192.0, log=True),
            suggest.suggest_float("upscaling_factor", 0.3, 3.0, log=True),
            suggest.suggest_float("downscaling_factor", 0.1, 1.0, log=True),
            suggest.suggest_float("upscale_delay_s", 0.0, 120.0),
            suggest.suggest_float("downscale_delay_s", 0.0, 900.0),
            suggest.suggest_float("look_back_period_s", 15.0, 300.0, log=True),
        )


@dataclass(slots=True)
class RayServeState:
    """What changes from tick to tick."""

    look_back: LookBack
    """Outstanding requests of the look-back."""
    ticks: int = 0
    """Ticks so far."""
    counter: DelayCounter = field(default_factory=DelayCounter)
    """Loops in a row that wished for the same direction."""


@dataclass(slots=True)
class RayServe:
    """The controller; one instance an episode. Moves replicas only."""

    params: RayServeParams
    limits: Limits
    tick_s: float
    state: RayServeState
    policy: Policy = field(init=False)
    """The parameters' policy."""

    def __post_init__(self) -> None:
        """Makes the policy once."""
        self.policy = self.params.policy

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """One loop."""
        state = self.state
        tick = state.ticks
        state.ticks += 1
        outstanding, ready = outstanding_requests(snapshot), snapshot.replicas_ready
        if outstanding is None:
            return settings
        state.look_back.record(tick, outstanding)
        if ready is None:
            return settings
        size = self.policy.decided(
            aggregated(state.look_back.values(tick), self.params.aggregation),
            Deployment(
                round(ready),
                settings.replicas,
                self.limits.min_replicas,
                self.limits.max_replicas,
            ),
            state.counter,
            self.tick_s,
        )
        return settings if size == settings.replicas else replace(settings, replicas=size)

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        state = self.state
        return {
            "ticks": state.ticks,
            "samples": state.look_back.saved(),
            "count": state.counter.count,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        self.state.ticks = saved["ticks"]
        self.state.look_back.restore(saved["samples"])
        self.state.counter.count = saved["count"]
