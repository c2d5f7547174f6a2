"""The token breaker of the source documents: latency far above its base, hardly a token out.

Formula: with the base of either quantity as it usually is (`source-systems.md`, B13),

    trip if  mean latency of 5 s > 3 base latency  and  token rate < 10 % of its base

then 429 with Retry-After 100 ms, and back in stages: 10 %, 50 %, 100 %.

Regimes: closed; open; 10 %; 50 %; closed again.

Version: no upstream; the article that the project grows out of. Printed is "the 5 s mean > 3x base
and tokens < 10 % of it", without saying of what; latency and token rate are our reading, for a
stalled model is slow *and* silent. (The other reading, a token rate three times its base while less
than a tenth of a quota is left, needs a quota, which the contract does not have.) Printed are
neither the length of a stage, nor what the base is, nor what the percentages are of.

Quirk kept: the stages go on by time alone, whatever the answers look like.

How a snapshot stands for its inputs:

| printed | here |
|---|---|
| 5 s mean of the latency | P95 of the telemetry window, to the first token or end-to-end |
| tokens | prompt and output tokens a second, over all replicas |
| base | mean of the known looks while closed, exponential from `base_s` on |
| 100 ms | one tick, the least there is |
| 10 %, 50 % | of the base of the requests in flight, at least one |

It trips only once it has learned a base from one telemetry window. Shedding itself silences the
gateway, so a look whose window reaches back into it is neither judged nor learned from. Without
latency, tokens or requests in flight it holds while closed. Replicas and threshold stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot
from .request_sample import Latency, in_flight, latency_s
from .site import Site, Suggest
from .taken_limit import TakenLimit
from .token_rate import token_rate_tps

STAGES: Final = (0.1, 0.5)
"""Shares of the usual requests in flight on the way back to all."""
_ROUNDING_S: Final = 1e-6


@dataclass(frozen=True, slots=True)
class TokenBreakerParams:
    """What trips it, and the way back."""

    slow_ratio: float = 3.0
    """Latency above so many times its base is slow."""
    silent_share: float = 0.1
    """Token rate below this share of its base is silence, 0-1."""
    open_s: float = 0.1
    """How long it stays open: the Retry-After; whole ticks, rounded up."""
    stage_s: float = 60.0
    """Length of a stage; not printed, a telemetry window by default."""
    base_s: float = 600.0
    """Over how long the base is taken; not printed."""
    latency: Latency = "ttft"
    """Which P95 is the latency."""

    def __post_init__(self) -> None:
        """Refuses what means nothing.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        if not 0 <= self.silent_share <= 1:
            raise ValueError(f"silent_share is {self.silent_share}, expected 0-1")
        for name in ("slow_ratio", "open_s", "stage_s", "base_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value}, expected a number above 0")

    def make(self, site: Site, *, seed: int) -> TokenBreaker:
        """A controller for one episode; the seed plays no part."""
        del seed
        return TokenBreaker(self, site.tick_s, site.window_s)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> TokenBreakerParams:
        """All of them."""
        del site
        return cls(
            slow_ratio=suggest.suggest_float("slow_ratio", 1.5, 20.0, log=True),
            silent_share=suggest.suggest_float("silent_share", 0.05, 0.9),
            open_s=suggest.suggest_float("open_s", 0.1, 120.0, log=True),
            stage_s=suggest.suggest_float("stage_s", 5.0, 120.0, log=True),
            base_s=suggest.suggest_float("base_s", 120.0, 3600.0, log=True),
            latency=suggest.suggest_categorical("latency", ["ttft", "e2e"]),
        )


@dataclass(slots=True)
class Base:
    """What is usual; means over the looks while closed."""

    latency_s: float = 0.0
    tokens_tps: float = 0.0
    in_flight: float = 0.0
    looks: int = 0
    """Looks it was learned from."""

    def learn(self, latency_s: float, tokens_tps: float, flying: float, span: int) -> None:
        """Adds a look: a plain mean of the first `span`, exponential afterwards."""
        self.looks += 1
        weight = 1 / self.looks if self.looks <= span else 2 / (span + 1)
        self.latency_s += weight * (latency_s - self.latency_s)
        self.tokens_tps += weight * (tokens_tps - self.tokens_tps)
        self.in_flight += weight * (flying - self.in_flight)


def trips(params: TokenBreakerParams, base: Base, latency_s: float, tokens_tps: float) -> bool:
    """Whether it is slow and silent, both strictly."""
    is_slow = latency_s > params.slow_ratio * base.latency_s
    return is_slow and tokens_tps < params.silent_share * base.tokens_tps


def admitted_share(params: TokenBreakerParams, passed_s: float) -> float | None:
    """Share of the usual requests that is let in so long after it tripped; `None`: all."""
    if passed_s < params.open_s - _ROUNDING_S:
        return 0.0
    stage = int((passed_s - params.open_s + _ROUNDING_S) / params.stage_s)
    return STAGES[stage] if stage < len(STAGES) else None


@dataclass(slots=True)
class TokenBreakerState:
    """What changes from look to look."""

    looks: int = 0
    """Looks so far."""
    tripped_at_s: float = 0.0
    """When it tripped last."""
    clear_from_s: float = 0.0
    """From when on a window holds no shedding of its own."""
    base: Base = field(default_factory=Base)
    """What is usual."""
    limit: TakenLimit = field(default_factory=TakenLimit)
    """The admission limit, until all are let in again."""


@dataclass(slots=True)
class TokenBreaker:
    """The controller; one instance an episode. Moves the admission limit only."""

    params: TokenBreakerParams
    tick_s: float
    window_s: float
    state: TokenBreakerState = field(default_factory=TokenBreakerState)

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Learns and judges while closed, goes through the stages while not."""
        state = self.state
        now_s = state.looks * self.tick_s
        state.looks += 1
        if state.limit.is_taken:
            share = admitted_share(self.params, now_s - state.tripped_at_s)
            if share is not None:
                return state.limit.take(settings, self._limit(share))
            state.clear_from_s = now_s + self.window_s
            return state.limit.give_back(settings)
        if now_s >= state.clear_from_s - _ROUNDING_S and self._has_tripped(snapshot):
            state.tripped_at_s = now_s
            return state.limit.take(settings, 0)
        return settings

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        state, base = self.state, self.state.base
        return {
            "looks": state.looks,
            "tripped_at_s": state.tripped_at_s,
            "clear_from_s": state.clear_from_s,
            "base": [base.latency_s, base.tokens_tps, base.in_flight, base.looks],
            "limit": state.limit.saved(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        self.state = TokenBreakerState(
            saved["looks"],
            saved["tripped_at_s"],
            saved["clear_from_s"],
            Base(*saved["base"]),
            TakenLimit(**saved["limit"]),
        )

    def _limit(self, share: float) -> int:
        return max(1, math.ceil(share * self.state.base.in_flight)) if share else 0

    def _has_tripped(self, snapshot: MetricsSnapshot) -> bool:
        seconds = latency_s(snapshot, self.params.latency)
        tokens, flying = token_rate_tps(snapshot), in_flight(snapshot)
        if seconds is None or tokens is None or flying is None:
            return False
        base = self.state.base
        is_armed = base.looks * self.tick_s >= self.window_s
        if is_armed and trips(self.params, base, seconds, tokens):
            return True
        base.learn(seconds, tokens, flying, max(1, round(self.params.base_s / self.tick_s)))
        return False
