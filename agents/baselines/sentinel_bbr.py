"""Sentinel's system rule on load: no more requests at once than the best rate times the least time.

Formula: with T the requests in progress, a new one is refused if

    load > highest load  and  T > 1  and  T > maxSuccessQps * minRT / 1000

over the two buckets of half a second that a second has. `maxSuccessQps` is the successes of the
best bucket, at least 1, a second; `minRT` is the least response time of any, in milliseconds, at
least 1; a bucket without successes stands at 5000, and slower responses count as 5000.

Regimes: load at or below its limit, or no limit set: nothing is refused; above: refused beyond the
product, but never the first two.

Version: alibaba/Sentinel, `sentinel-core`, `slots/system/SystemRuleManager.java` (commit 0c41dae3),
`node/StatisticNode.java` (050284f8), `slots/statistic/metric/ArrayMetric.java` (00273361),
`slots/statistic/base/LeapArray.java` (06afc38d), `slots/statistic/StatisticSlot.java`.

Constants: 2 buckets in 1 s; longest response time that is counted 5 s
(`csp.sentinel.statistic.max.rt`). Upstream sets no highest load: without one the rule is off.

Quirks kept: T is counted without the request that asks, so T = 1 still admits one more and a
product of c admits `floor(max(c, 1)) + 1` at once. An idle second leaves 2 * 5 s = 10. A service
whose answers take longer than the cap of 5 s looks faster than it is, so its product comes out too
low. (Upstream's other system rules, on rate, threads, response time and CPU, are thresholds of
their own and no part of this one.)

How a snapshot stands for the buckets. A look is a bucket of one tick:

| upstream | here |
|---|---|
| system load of the last minute | `cpu_utilization`, or `kv_usage` where that is the bottleneck |
| successes of a bucket | `samples` (first tokens of the window) times tick / window |
| least response time of a bucket | P95 of the window: far above the least |
| requests in progress | the gateway's own count, which the admission limit compares with |

The limit is too generous by the ratio of P95 to least response time. A look without load, samples
or latency holds, and its bucket is missing: an idle gateway is not guessed to need 5 s. While load
is at or below its limit, the admission limit is what it was before. Replicas and threshold stay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot
from .request_sample import Latency, latency_s
from .site import Site, Suggest
from .taken_limit import TakenLimit

_LEAST_RT_S: Final = 0.001
_LEAST_SUCCESSES: Final = 1.0
_LEAST_THREADS: Final = 1.0


@dataclass(frozen=True, slots=True)
class SentinelBbrParams:
    """The system rule and the statistics it reads."""

    highest_load: float = 0.8
    """Load above which requests are refused, 0-1. Upstream has none, and is off without."""
    load: Literal["cpu", "kv"] = "cpu"
    """What stands for the system load: busy CPU share, or KV-cache usage."""
    buckets: int = 2
    """Looks whose best rate and least time count (upstream: buckets of its second)."""
    longest_rt_s: float = 5.0
    """Slower responses count as this."""
    latency: Latency = "e2e"
    """Which P95 is the response time."""

    def __post_init__(self) -> None:
        """Refuses what upstream refuses.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        if not 0 <= self.highest_load <= 1:
            raise ValueError(f"highest_load is {self.highest_load}, expected 0-1")
        if self.buckets < 1:
            raise ValueError(f"buckets is {self.buckets}, expected 1 or more")
        if not self.longest_rt_s >= _LEAST_RT_S:
            raise ValueError(f"longest_rt_s is {self.longest_rt_s}, expected 0.001 or more")

    def make(self, site: Site, *, seed: int) -> SentinelBbr:
        """A controller for one episode; the seed plays no part."""
        del seed
        return SentinelBbr(self, site.tick_s, site.window_s)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> SentinelBbrParams:
        """The load, its limit, how far back it looks, and the response time."""
        del site
        return cls(
            highest_load=suggest.suggest_float("highest_load", 0.3, 1.0),
            load=suggest.suggest_categorical("load", ["cpu", "kv"]),
            buckets=suggest.suggest_int("buckets", 1, 40, log=True),
            longest_rt_s=suggest.suggest_float("longest_rt_s", 5.0, 600.0, log=True),
            latency=suggest.suggest_categorical("latency", ["e2e", "ttft"]),
        )


class Bucket(NamedTuple):
    """What came back in one bucket."""

    number: int
    """Counted from the start; buckets without anything are left out."""
    successes: float
    """Requests that succeeded."""
    least_rt_s: float
    """Least response time, seconds."""


def capacity(buckets: Sequence[Bucket], bucket_s: float, longest_rt_s: float) -> float:
    """Best rate times least response time: requests that the service holds without a queue.

    Args:
        buckets: The present bucket and those before it that count.
        bucket_s: Length of one, seconds.
        longest_rt_s: What a slower response, or none, counts as.
    """
    best = max([_LEAST_SUCCESSES, *(bucket.successes for bucket in buckets)])
    least_s = min([longest_rt_s, *(bucket.least_rt_s for bucket in buckets)])
    return best / bucket_s * max(_LEAST_RT_S, least_s)


def most_at_once(product: float) -> int:
    """Requests that are let in at once while load is over its limit."""
    return math.floor(max(product, _LEAST_THREADS)) + 1


@dataclass(slots=True)
class SentinelState:
    """What changes from look to look."""

    looks: int = 0
    """Looks so far: the number of the present bucket."""
    buckets: list[Bucket] = field(default_factory=list)
    """Those that count, the oldest first."""
    limit: TakenLimit = field(default_factory=TakenLimit)
    """The admission limit, while load is over its limit."""


@dataclass(slots=True)
class SentinelBbr:
    """The controller; one instance an episode. Moves the admission limit only."""

    params: SentinelBbrParams
    tick_s: float
    window_s: float
    state: SentinelState = field(default_factory=SentinelState)

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Notes one bucket and limits while load is too high; holds where anything is missing."""
        state, params = self.state, self.params
        number = state.looks
        state.looks += 1
        load = snapshot.cpu_utilization if params.load == "cpu" else snapshot.kv_usage
        rtt_s = latency_s(snapshot, params.latency)
        if load is None or rtt_s is None or snapshot.samples is None:
            return settings
        successes = snapshot.samples * self.tick_s / self.window_s
        state.buckets = [b for b in state.buckets if b.number > number - params.buckets]
        state.buckets.append(Bucket(number, successes, rtt_s))
        if load <= params.highest_load:
            return state.limit.give_back(settings)
        product = capacity(state.buckets, self.tick_s, params.longest_rt_s)
        return state.limit.take(settings, most_at_once(product))

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        state = self.state
        return {
            "looks": state.looks,
            "buckets": [list(bucket) for bucket in state.buckets],
            "limit": state.limit.saved(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        buckets = [Bucket(*bucket) for bucket in saved["buckets"]]
        self.state = SentinelState(saved["looks"], buckets, TakenLimit(**saved["limit"]))
