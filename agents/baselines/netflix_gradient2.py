"""Netflix's Gradient2 limit: the limit follows the ratio of a long-term and the present latency.

Formula: for each sample, with L the limit (a real number; callers see it truncated),

- `long`: mean of the first 10 round-trip times, then their exponential average with factor
  2 / (600 + 1); the present sample included;
- if long / rtt > 2, the *stored* average falls by a twentieth; this sample still uses the old one;
- if in flight < L / 2: L stays;
- else `g = clamp(1.5 long / rtt, 0.5, 1)` and `L = 0.8 L + 0.2 (L g + 4)`, into [20, 200].

These are the regimes.

Version: Netflix/concurrency-limits, `concurrency-limits-core`, `limit/Gradient2Limit.java`, read at
commit f2528def, and `limit/measurement/ExpAvgMeasurement.java` as it was then (two arguments, a sum
during the warm-up). Older ones had no tolerance and decayed by a tenth.

Constants: start 20, bounds 20 and 200, smoothing 0.2, queue size 4, long window 600 samples,
warm-up 10 samples, tolerance 1.5, decay 0.95, ratio 2.

Quirks kept: drops play no part. The decay also happens where the limit stays for want of load. In
the warm-up it is lost, for the mean is taken anew from the sum. In equilibrium the limit creeps up
by 0.2 * 4 a sample, so a used limit grows to its bound unless latency rises by half.

How a look stands for a sample: `request_sample`; times are seconds, upstream's nanoseconds. The
long window counts samples, so one look a tick of 15 s makes it 2.5 hours, where upstream's is
seconds to minutes. It sets the admission limit alone; replicas and threshold stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot
from .limit_bounds import LARGEST_LIMIT, check_limits
from .request_sample import Latency, RequestSample, request_sample
from .site import Site, Suggest

WARM_UP_SAMPLES: Final = 10
"""Over so many samples the long-term latency is their mean (second argument upstream)."""
_DRIFT_RATIO: Final = 2.0
"""The long-term latency decays where it is more than this many times the present one."""
_DECAY: Final = 0.95
_LEAST_GRADIENT: Final = 0.5


@dataclass(frozen=True, slots=True)
class NetflixGradient2Params:
    """The builder's settings."""

    initial_limit: int = 20
    """Requests in flight at the start."""
    min_limit: int = 20
    """Lower bound."""
    max_limit: int = 200
    """Upper bound."""
    smoothing: float = 0.2
    """Weight of the new limit, 0-1."""
    queue_size: int = 4
    """How much the limit may grow at once while latency stays low."""
    long_window_samples: int = 600
    """Samples of the long-term latency."""
    tolerance: float = 1.5
    """How many times the long-term latency a sample may be; upstream takes 1 or more."""
    latency: Latency = "e2e"
    """Which P95 is the round-trip time."""

    def __post_init__(self) -> None:
        """Refuses what upstream's builder refuses, and values that no limit can have.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        if not self.tolerance >= 1:
            raise ValueError(f"tolerance is {self.tolerance}, expected 1 or more")
        if not 0 <= self.smoothing <= 1:
            raise ValueError(f"smoothing is {self.smoothing}, expected 0-1")
        if self.queue_size < 0 or self.long_window_samples < 1:
            msg = (
                f"queue_size {self.queue_size}, long_window_samples {self.long_window_samples}: "
                "expected 0 or more, and 1 or more"
            )
            raise ValueError(msg)
        check_limits(self.initial_limit, self.min_limit, self.max_limit)

    def make(self, site: Site, *, seed: int) -> NetflixGradient2:
        """A controller for one episode; site and seed play no part."""
        del site, seed
        return NetflixGradient2(self, Gradient2State(float(self.initial_limit)))

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> NetflixGradient2Params:
        """Bounds, long window, smoothing, tolerance and latency; it starts at the lower bound."""
        del site
        least = suggest.suggest_int("min_limit", 1, 200, log=True)
        return cls(
            initial_limit=least,
            min_limit=least,
            max_limit=suggest.suggest_int("max_limit", 200, LARGEST_LIMIT, log=True),
            smoothing=suggest.suggest_float("smoothing", 0.05, 1.0),
            long_window_samples=suggest.suggest_int("long_window_samples", 10, 600, log=True),
            tolerance=suggest.suggest_float("tolerance", 1.0, 3.0),
            latency=suggest.suggest_categorical("latency", ["e2e", "ttft"]),
        )


@dataclass(slots=True)
class LongRtt:
    """The long-term latency, seconds."""

    value_s: float = 0.0
    """The average."""
    sum_s: float = 0.0
    """Of the warm-up's samples."""
    count: int = 0
    """Samples of the warm-up so far."""

    def add(self, rtt_s: float, window_samples: int) -> float:
        """Adds a sample and gives the average."""
        if self.count < WARM_UP_SAMPLES:
            self.count += 1
            self.sum_s += rtt_s
            self.value_s = self.sum_s / self.count
        else:
            factor = 2.0 / (window_samples + 1)
            self.value_s = self.value_s * (1 - factor) + rtt_s * factor
        return self.value_s


def gradient2_limit(
    params: NetflixGradient2Params, limit: float, long_s: float, sample: RequestSample
) -> float:
    """The limit after one sample.

    Args:
        params: The builder's settings.
        limit: The limit so far, not truncated.
        long_s: The long-term latency, the present sample included, seconds.
        sample: The sample.
    """
    if sample.in_flight < limit / 2:
        return limit
    gradient = max(_LEAST_GRADIENT, min(1.0, params.tolerance * long_s / sample.rtt_s))
    wanted = limit * gradient + params.queue_size
    smoothed = limit * (1 - params.smoothing) + wanted * params.smoothing
    return float(max(params.min_limit, min(params.max_limit, smoothed)))


@dataclass(slots=True)
class Gradient2State:
    """What changes from sample to sample."""

    limit: float
    """Requests in flight, not truncated."""
    long: LongRtt = field(default_factory=LongRtt)
    """The long-term latency."""


@dataclass(slots=True)
class NetflixGradient2:
    """The controller; one instance an episode. Moves the admission limit only."""

    params: NetflixGradient2Params
    state: Gradient2State

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Takes one sample; holds where the snapshot gives none."""
        sample = request_sample(snapshot, self.params.latency, None)
        if sample is None:
            return settings
        return replace(settings, max_outstanding=self.sampled(sample))

    def sampled(self, sample: RequestSample) -> int:
        """The limit after one sample, as upstream's callers see it."""
        state = self.state
        long_s = state.long.add(sample.rtt_s, self.params.long_window_samples)
        if long_s / sample.rtt_s > _DRIFT_RATIO:
            state.long.value_s *= _DECAY
        state.limit = gradient2_limit(self.params, state.limit, long_s, sample)
        return int(state.limit)

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        long = self.state.long
        return {
            "limit": self.state.limit,
            "long_s": long.value_s,
            "sum_s": long.sum_s,
            "count": long.count,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        long = LongRtt(saved["long_s"], saved["sum_s"], saved["count"])
        self.state = Gradient2State(saved["limit"], long)
