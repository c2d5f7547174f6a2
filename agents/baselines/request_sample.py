"""What a snapshot says in place of the requests that a concurrency limiter samples one by one.

A limiter upstream sees each request: its round-trip time, how many were in flight when it started,
whether it was dropped. A snapshot gives one sample a look, over all requests of its window:

| upstream | here | what is lost |
|---|---|---|
| round-trip time | P95 of the window: end-to-end, or to the first token | mean, minimum, order |
| in flight | `running + waiting` at the look | the peak between looks |
| dropped | the failed share rose since the last known look | which request; how many |

End-to-end is the default, for that is what upstream times: from the request's start to the end of
its answer. An LLM answer's end-to-end time depends first of all on its length, so the time to the
first token shows a queue more clearly; an operator may choose it.

The failed share counts the rejections of the limit itself, which upstream leaves out of its
samples; a snapshot does not tell them apart. Only a *rise* is a drop, so that rejections that stay
level do not cut the limit again and again; while they rise they do. `counts_errors = False` leaves
errors out, as upstream's adapters may.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ...envs.schema.snapshot import MetricsSnapshot
from .outstanding import outstanding_requests

Latency: TypeAlias = Literal["e2e", "ttft"]
"""Which P95 stands for the round-trip time: to the last token, or to the first."""


@dataclass(frozen=True, slots=True)
class RequestSample:
    """One sample."""

    rtt_s: float
    """Round-trip time, seconds, above 0."""
    in_flight: int
    """Requests in flight."""
    is_drop: bool = False
    """Whether it failed."""


@dataclass(slots=True)
class DropWatch:
    """Remembers the failed share to see whether it rose."""

    error_rate: float = 0.0
    """At the last known look. A gateway that is just taken over has failed in nothing yet."""

    def rose(self, error_rate: float) -> bool:
        """Whether it is higher than at the last call."""
        before, self.error_rate = self.error_rate, error_rate
        return error_rate > before


def latency_s(snapshot: MetricsSnapshot, latency: Latency) -> float | None:
    """The chosen P95, seconds; `None` if it is not known or 0, which no answer takes."""
    found = snapshot.e2e_p95_s if latency == "e2e" else snapshot.ttft_p95_s
    return found or None


def in_flight(snapshot: MetricsSnapshot) -> int | None:
    """Requests running and waiting, over all replicas; `None` if either is not known."""
    outstanding = outstanding_requests(snapshot)
    return None if outstanding is None else round(outstanding)


def request_sample(
    snapshot: MetricsSnapshot, latency: Latency, drops: DropWatch | None
) -> RequestSample | None:
    """One look as one sample; `None` if any part of it is not known.

    Args:
        snapshot: What a scrape shows.
        latency: Which P95 to take.
        drops: Where the failed share is remembered; `None`: errors are no drops.
    """
    rtt_s, flying = latency_s(snapshot, latency), in_flight(snapshot)
    if rtt_s is None or flying is None:
        return None
    if drops is None:
        return RequestSample(rtt_s, flying)
    if snapshot.error_rate is None:
        return None
    return RequestSample(rtt_s, flying, drops.rose(snapshot.error_rate))
