"""Netflix's Vegas limit: keeps the estimated queue between three and six times log10 of the limit.

Formula: for each sample, with L the limit (a real number; callers see it truncated), `rtt0` the
latency without load and `l = max(1, int(log10 L))`,

1. every `30 L j` samples, `j` drawn anew from [0.5, 1): `rtt0 = rtt` (a probe), L stays;
2. no `rtt0` yet, or `rtt < rtt0`: `rtt0 = rtt`, L stays;
3. else, with `q = ceil(L (1 - rtt0 / rtt))`:
   - dropped: `L - l`;
   - in flight * 2 < L: L stays;
   - q <= l: `L + 6 l`; q < 3 l: `L + l`; q > 6 l: `L - l`; else L stays;

   then into [1, 1000] and smoothed, if it moved. These are the regimes.

Version: Netflix/concurrency-limits, `concurrency-limits-core`, `limit/VegasLimit.java` and
`limit/functions/Log10RootIntFunction.java`, read at commits 7989055a and 108594a1. Earlier releases
took a square root in place of the logarithm from a limit of 1000 on.

Constants: start 20, upper bound 1000, lower bound 1, smoothing 1 (none), alpha 3, beta 6, probe
multiplier 30.

Quirks kept: a probe and a new minimum leave the limit alone even if the sample was dropped, and a
probe takes a loaded latency for one without load. (The comment upstream speaks of 10 % and 20 % of
the limit; the code takes logarithms.) The middle regime, q from 3 l to 6 l, changes nothing.

How a look stands for a sample: `request_sample`. The minimum of windows' P95 is above the latency
of an unloaded replica, so the queue is underestimated. Probes count samples: at a limit of 20 and
one look a tick of 15 s they are 75 to 150 minutes apart, where upstream's are seconds. The draws
come from the seed. It sets the admission limit alone; replicas and threshold stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot
from .limit_bounds import LARGEST_LIMIT
from .request_sample import DropWatch, Latency, RequestSample, request_sample
from .site import Site, Suggest

_LEAST_JITTER: Final = 0.5


@dataclass(frozen=True, slots=True)
class NetflixVegasParams:
    """The builder's settings."""

    initial_limit: int = 20
    """Requests in flight at the start."""
    max_limit: int = 1000
    """Upper bound; the lower one is 1."""
    smoothing: float = 1.0
    """Weight of the new limit, 0-1."""
    alpha: int = 3
    """Queue below which the limit grows, in units of log10 of the limit."""
    beta: int = 6
    """Queue above which it shrinks, and what it grows by without a queue, in the same units."""
    probe_multiplier: int = 30
    """A probe comes after so many samples times the limit, times 0.5-1."""
    latency: Latency = "e2e"
    """Which P95 is the round-trip time."""
    counts_errors: bool = True
    """Whether a rise of the failed share is a drop."""

    def __post_init__(self) -> None:
        """Refuses values that no limit can have.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        if not 0 <= self.smoothing <= 1:
            raise ValueError(f"smoothing is {self.smoothing}, expected 0-1")
        for name in ("initial_limit", "max_limit", "alpha", "beta", "probe_multiplier"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 1 or more")

    def make(self, site: Site, *, seed: int) -> NetflixVegas:
        """A controller for one episode, deterministic in `seed`; the site plays no part."""
        del site
        generator = np.random.default_rng(seed)
        state = VegasState(float(self.initial_limit), _jitter(generator))
        return NetflixVegas(self, generator, state)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> NetflixVegasParams:
        """Start, bound, smoothing, probes and what is sampled."""
        del site
        return cls(
            initial_limit=suggest.suggest_int("initial_limit", 10, 200, log=True),
            max_limit=suggest.suggest_int("max_limit", 200, LARGEST_LIMIT, log=True),
            smoothing=suggest.suggest_float("smoothing", 0.05, 1.0),
            probe_multiplier=suggest.suggest_int("probe_multiplier", 1, 30, log=True),
            latency=suggest.suggest_categorical("latency", ["e2e", "ttft"]),
            counts_errors=suggest.suggest_categorical("counts_errors", [True, False]),
        )


def log_unit(limit: int) -> int:
    """Logarithm to base 10, truncated, at least 1: the unit in which queues are measured."""
    return max(1, int(math.log10(limit)))


def vegas_limit(
    params: NetflixVegasParams, limit: float, unloaded_s: float, sample: RequestSample
) -> float:
    """The limit after one sample that is neither a probe nor a new minimum.

    Args:
        params: The builder's settings.
        limit: The limit so far, not truncated.
        unloaded_s: Latency without load, seconds.
        sample: The sample.
    """
    queue = math.ceil(limit * (1 - unloaded_s / sample.rtt_s))
    unit = log_unit(int(limit))
    if sample.is_drop:
        wanted = limit - unit
    elif sample.in_flight * 2 < limit:
        return limit
    elif queue <= unit:
        wanted = limit + params.beta * unit
    elif queue < params.alpha * unit:
        wanted = limit + unit
    elif queue > params.beta * unit:
        wanted = limit - unit
    else:
        return limit
    bounded = max(1, min(params.max_limit, wanted))
    return (1 - params.smoothing) * limit + params.smoothing * bounded


@dataclass(slots=True)
class VegasState:
    """What changes from sample to sample."""

    limit: float
    """Requests in flight, not truncated."""
    jitter: float
    """Of the next probe, 0.5-1."""
    samples: int = 0
    """Since the last probe."""
    unloaded_s: float | None = None
    """Latency without load, seconds; `None`: no sample yet."""
    drops: DropWatch = field(default_factory=DropWatch)
    """The failed share seen last."""


@dataclass(slots=True)
class NetflixVegas:
    """The controller; one instance an episode. Moves the admission limit only."""

    params: NetflixVegasParams
    generator: np.random.Generator
    state: VegasState

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Takes one sample; holds where the snapshot gives none."""
        drops = self.state.drops if self.params.counts_errors else None
        sample = request_sample(snapshot, self.params.latency, drops)
        if sample is None:
            return settings
        return replace(settings, max_outstanding=self.sampled(sample))

    def sampled(self, sample: RequestSample) -> int:
        """The limit after one sample, as upstream's callers see it."""
        state = self.state
        state.samples += 1
        if state.jitter * self.params.probe_multiplier * state.limit <= state.samples:
            state.jitter = _jitter(self.generator)
            state.samples = 0
            state.unloaded_s = sample.rtt_s
        elif state.unloaded_s is None or sample.rtt_s < state.unloaded_s:
            state.unloaded_s = sample.rtt_s
        else:
            state.limit = vegas_limit(self.params, state.limit, state.unloaded_s, sample)
        return int(state.limit)

    def saved(self) -> dict[str, Any]:
        """What it remembers and the generator's state, as JSON content."""
        state = self.state
        return {
            "limit": state.limit,
            "jitter": state.jitter,
            "samples": state.samples,
            "unloaded_s": state.unloaded_s,
            "error_rate": state.drops.error_rate,
            "generator": dict(self.generator.bit_generator.state),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered, and draws on where it stopped."""
        drops = DropWatch(saved["error_rate"])
        self.state = VegasState(
            saved["limit"], saved["jitter"], saved["samples"], saved["unloaded_s"], drops
        )
        self.generator.bit_generator.state = saved["generator"]


def _jitter(generator: np.random.Generator) -> float:
    return _LEAST_JITTER + (1 - _LEAST_JITTER) * float(generator.random())
