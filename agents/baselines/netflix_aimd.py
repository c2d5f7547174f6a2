"""Netflix's AIMD limit: up by one while it is used, down by a tenth at a failure.

Formula: for each sample, with L the limit,

- dropped, or slower than the time-out: `L = int(0.9 L)`;
- else, if in flight * 2 >= L: `L = L + 1`;
- else L stays;

then always into [20, 200]. These are the regimes.

Version: Netflix/concurrency-limits, `concurrency-limits-core`, `limit/AIMDLimit.java`, read at
commit 784c960d (release 0.3 and later); the releases before it started at 10 and had no bounds.

Constants: start 20, bounds 20 and 200, back-off 0.9 (upstream takes 0.5 to below 1), time-out 5 s.

Quirks kept: the bounds hold even where nothing else changes the limit, so a start outside of them
is moved in by the first sample. At the lower bound a drop changes nothing. In flight is compared
doubled, so half the limit is enough to grow.

How a look stands for a sample: `request_sample`. One look a tick moves the limit by one a tick at
the most on the way up, where upstream adds one for every answer. The P95 against the time-out says
that one answer in twenty is too slow; upstream cuts for each of them. It sets the admission limit
alone; replicas and threshold stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot
from .limit_bounds import LARGEST_LIMIT, check_limits
from .request_sample import DropWatch, Latency, RequestSample, request_sample
from .site import Site, Suggest

_LEAST_BACKOFF: Final = 0.5
"""Upstream refuses ratios below it."""
_TIMEOUTS_S: Final = (0.2, 120.0)
"""Time-outs that a search may try."""


@dataclass(frozen=True, slots=True)
class NetflixAimdParams:
    """The builder's settings."""

    initial_limit: int = 20
    """Requests in flight at the start."""
    min_limit: int = 20
    """Lower bound."""
    max_limit: int = 200
    """Upper bound."""
    backoff_ratio: float = 0.9
    """What a drop leaves of the limit."""
    timeout_s: float = 5.0
    """A slower sample is a drop."""
    latency: Latency = "e2e"
    """Which P95 is the round-trip time."""
    counts_errors: bool = True
    """Whether a rise of the failed share is a drop."""

    def __post_init__(self) -> None:
        """Refuses what upstream's builder refuses, and bounds that cross.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        if not _LEAST_BACKOFF <= self.backoff_ratio < 1:
            msg = f"backoff_ratio is {self.backoff_ratio}, expected 0.5 to below 1"
            raise ValueError(msg)
        if not self.timeout_s > 0:
            raise ValueError(f"timeout_s is {self.timeout_s}, expected a number above 0")
        check_limits(self.initial_limit, self.min_limit, self.max_limit)

    def make(self, site: Site, *, seed: int) -> NetflixAimd:
        """A controller for one episode; site and seed play no part."""
        del site, seed
        return NetflixAimd(self, NetflixAimdState(self.initial_limit))

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> NetflixAimdParams:
        """Bounds, back-off, time-out and what is sampled; it starts at the lower bound."""
        del site
        least = suggest.suggest_int("min_limit", 1, 200, log=True)
        return cls(
            initial_limit=least,
            min_limit=least,
            max_limit=suggest.suggest_int("max_limit", 200, LARGEST_LIMIT, log=True),
            backoff_ratio=suggest.suggest_float("backoff_ratio", _LEAST_BACKOFF, 0.99),
            timeout_s=suggest.suggest_float("timeout_s", *_TIMEOUTS_S, log=True),
            latency=suggest.suggest_categorical("latency", ["e2e", "ttft"]),
            counts_errors=suggest.suggest_categorical("counts_errors", [True, False]),
        )


def aimd_limit(params: NetflixAimdParams, limit: int, sample: RequestSample) -> int:
    """The limit after one sample."""
    if sample.is_drop or sample.rtt_s > params.timeout_s:
        limit = int(limit * params.backoff_ratio)
    elif sample.in_flight * 2 >= limit:
        limit += 1
    return min(params.max_limit, max(params.min_limit, limit))


@dataclass(slots=True)
class NetflixAimdState:
    """What changes from sample to sample."""

    limit: int
    """Requests in flight."""
    drops: DropWatch = field(default_factory=DropWatch)
    """The failed share seen last."""


@dataclass(slots=True)
class NetflixAimd:
    """The controller; one instance an episode. Moves the admission limit only."""

    params: NetflixAimdParams
    state: NetflixAimdState

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Takes one sample; holds where the snapshot gives none."""
        drops = self.state.drops if self.params.counts_errors else None
        sample = request_sample(snapshot, self.params.latency, drops)
        if sample is None:
            return settings
        self.state.limit = aimd_limit(self.params, self.state.limit, sample)
        return replace(settings, max_outstanding=self.state.limit)

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        return {"limit": self.state.limit, "error_rate": self.state.drops.error_rate}

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        self.state = NetflixAimdState(saved["limit"], DropWatch(saved["error_rate"]))
