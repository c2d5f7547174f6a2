"""resilience4j's circuit breaker before the whole gateway: open sheds all, half-open lets a few in.

Formula: `circuit_breaker` has the rule, its regimes, its constants, its version and its quirks.
Closed: the admission limit is what it was. Open: `max_outstanding = 0`. Half-open:
`max_outstanding` = the calls that half-open permits.

Version: see `circuit_breaker`; upstream has one breaker a backend, so one that guards the whole
gateway stands for all replicas alike. It cannot take out a single one.

How a look stands for calls:

| upstream | here |
|---|---|
| a call | an arrival: `request_rate_rps` times the tick, the rest carried over |
| its result | failed with the share `error_rate`, spread evenly over the calls |
| longer than 60 s | one call in twenty where `e2e_p95_s` is: all that a P95 says |
| a call while open | any arrival since the last look |
| the permitted calls' results | as many succeeded as first tokens came; the others failed |

The failed share is over the telemetry window and counts the breaker's own rejections, which
upstream leaves out. So a look whose window reaches back into shedding is not recorded: after it
closes, the breaker is blind for one window. For the same reason half-open is judged once, when a
whole window has passed in it, and by first tokens alone: `min(permitted, samples)` successes, the
rest of the permitted calls failed, if as many arrived. The limit holds *at once*, not in all, so
more calls than permitted pass in a window; what failed among those is not seen, and a breaker that
closed too early opens again a window later.

Without a rate or a share nothing is recorded, without a rate or samples half-open is not judged: it
holds, and only time passes. Replicas and threshold stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot
from .circuit_breaker import CircuitBreaker, CircuitBreakerConfig
from .site import Site, Suggest
from .taken_limit import TakenLimit

_SLOW_BEYOND_P95: Final = 0.05
"""Share of the calls that a P95 above the limit shows to be slow."""
_ROUNDING: Final = 1e-9
"""Far above the rounding of a sum of shares, far below a call."""


@dataclass(frozen=True, slots=True)
class Resilience4jParams:
    """The breaker's configuration."""

    breaker: CircuitBreakerConfig = CircuitBreakerConfig()  # noqa: RUF009  # frozen
    """Upstream's defaults."""

    def make(self, site: Site, *, seed: int) -> Resilience4j:
        """A controller for one episode; the seed plays no part."""
        del seed
        return Resilience4j(self, site.tick_s, site.window_s, CircuitBreaker(self.breaker))

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> Resilience4jParams:
        """Share, volume, time open and calls let through; the minimum is the window's size."""
        del site
        calls = suggest.suggest_int("window_calls", 10, 1000, log=True)
        breaker = CircuitBreakerConfig(
            failure_fraction=suggest.suggest_float("failure_fraction", 0.05, 1.0),
            slow_fraction=suggest.suggest_categorical("slow_fraction", [_SLOW_BEYOND_P95, 1.0]),
            slow_s=suggest.suggest_float("slow_s", 5.0, 300.0, log=True),
            window_calls=calls,
            minimum_calls=calls,
            permitted_calls=suggest.suggest_int("permitted_calls", 1, 100, log=True),
            open_s=suggest.suggest_float("open_s", 5.0, 300.0, log=True),
        )
        return cls(breaker)


@dataclass(slots=True)
class Resilience4jState:
    """What changes from look to look, besides the breaker."""

    looks: int = 0
    """Looks so far."""
    calls: float = 0.0
    """Part of a call that is carried over."""
    failed: float = 0.0
    """Part of a failed call that is carried over."""
    slow: float = 0.0
    """Part of a slow call that is carried over."""
    limit: TakenLimit = field(default_factory=TakenLimit)
    """The admission limit, while the breaker is not closed."""


@dataclass(slots=True)
class Resilience4j:
    """The controller; one instance an episode. Moves the admission limit only."""

    params: Resilience4jParams
    tick_s: float
    window_s: float
    breaker: CircuitBreaker
    state: Resilience4jState = field(default_factory=Resilience4jState)

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Feeds the breaker with one look and sheds as it says."""
        now_s = self.state.looks * self.tick_s
        self.state.looks += 1
        breaker = self.breaker
        breaker.time_passes(now_s)
        if breaker.state == "closed":
            self._record(snapshot, now_s)
        elif breaker.state == "open":
            if snapshot.request_rate_rps:
                breaker.permits_call(now_s)
        elif self._is_clear(now_s):
            self._judge(snapshot, now_s)
        if breaker.state == "closed":
            return self.state.limit.give_back(settings)
        is_open = breaker.state == "open"
        permitted = 0 if is_open else self.params.breaker.permitted_calls
        return self.state.limit.take(settings, permitted)

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        state, breaker = self.state, self.breaker
        return {
            "looks": state.looks,
            "calls": state.calls,
            "failed": state.failed,
            "slow": state.slow,
            "limit": state.limit.saved(),
            "state": breaker.state,
            "since_s": breaker.since_s,
            "outcomes": [list(outcome) for outcome in breaker.outcomes],
            "permits": breaker.permits,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        self.state = Resilience4jState(
            saved["looks"],
            saved["calls"],
            saved["failed"],
            saved["slow"],
            TakenLimit(**saved["limit"]),
        )
        outcomes = [(failed, slow) for failed, slow in saved["outcomes"]]
        self.breaker = CircuitBreaker(
            self.params.breaker,
            saved["state"],
            saved["since_s"],
            outcomes,
            sum(failed for failed, _ in outcomes),
            sum(slow for _, slow in outcomes),
            saved["permits"],
        )

    def _is_clear(self, now_s: float) -> bool:
        """Whether the telemetry window lies within the present state."""
        since_s = self.breaker.since_s
        return since_s is None or now_s - since_s >= self.window_s - _ROUNDING

    def _record(self, snapshot: MetricsSnapshot, now_s: float) -> None:
        rate, share = snapshot.request_rate_rps, snapshot.error_rate
        if rate is None or share is None or not self._is_clear(now_s):
            return
        state = self.state
        due = state.calls + rate * self.tick_s
        calls = int(due)
        state.calls = due - calls
        slow_s = self.params.breaker.slow_s
        is_slow = snapshot.e2e_p95_s is not None and snapshot.e2e_p95_s > slow_s
        calls = min(calls, self.params.breaker.window_calls)
        failed, state.failed = spread(calls, share, state.failed)
        slow, state.slow = spread(calls, _SLOW_BEYOND_P95 if is_slow else 0.0, state.slow)
        self.breaker.record_calls(now_s, list(zip(failed, slow, strict=True)))

    def _judge(self, snapshot: MetricsSnapshot, now_s: float) -> None:
        rate, samples = snapshot.request_rate_rps, snapshot.samples
        permitted = self.params.breaker.permitted_calls
        if rate is None or samples is None or rate * self.window_s < permitted:
            return
        succeeded = min(round(samples), permitted)
        failed, _ = spread(permitted, 1 - succeeded / permitted, 0.0)
        self.breaker.record_calls(now_s, [(one, False) for one in failed])


def spread(calls: int, share: float, carried: float) -> tuple[list[bool], float]:
    """Which of so many calls are of a share, spread evenly.

    Args:
        calls: How many.
        share: 0-1.
        carried: Part of a call of the share that is left from before, 0 to below 1.

    Returns:
        A flag for each call, and the part that is carried over.
    """
    flags = [False] * calls
    total = carried + calls * share
    count = int(total + _ROUNDING)
    for i in range(1, count + 1):
        flags[min(calls, math.ceil((i - carried) / share - _ROUNDING)) - 1] = True
    return flags, total - count
