"""Envoy's adaptive concurrency: the limit follows the ratio of the least and the present latency.

Formula: for each sampling window, with L the limit (a whole number),

    g = clamp((minRTT + 0.25 minRTT) / sampleRTT, 0.5, 2)
    L = clamp(trunc(L g + sqrt(L g)), 3, 1000)

Regimes:

- measuring minRTT: the limit is 3 and the one before is kept aside, windows do not count; when 50
  requests that began in it have come back, minRTT is their quantile and the limit is put back;
- sampling: the formula once a window; after `interval + U[0, 0.15 interval)` it measures again;
- five windows in a row at which the limit was 3 and stays 3: it measures again at once;
- with a fixed minRTT it never measures.

It starts measuring, at a limit of 3.

Version: envoyproxy/envoy, `source/extensions/filters/http/adaptive_concurrency/controller/
gradient_controller.{cc,h}`, read at commits c35f67fb and 0884a279, and the filter's v3 API at
149521d8 (tree of mid 2026). The API also has a lower bound apart from the measuring concurrency,
new in that tree, which is not offered here.

Constants: buffer 25 %, gradient 0.5-2, measuring concurrency 3, which is the lower bound too, upper
bound 1000, 50 requests, jitter 15 %, five windows. Both intervals must be set upstream; its example
has 60 s and 0.1 s.

Quirks kept: latencies are whole microseconds. Where the bounds cross, the lower one wins. The five
windows count only where the old and the new limit both are 3; a measurement starts the count anew.

How a look stands for a window:

| upstream | here |
|---|---|
| quantile of the window's latencies, P50 by default | P95 of the telemetry window |
| a window of 0.1 s with its own requests | one look |
| 50 requests that began in the measurement | first tokens a second, times its age |
| measurements of a few milliseconds | at least one telemetry window, for its quantile |

With windows of 60 s and ticks of 15 s four looks see mostly the same requests: the limit moves four
times for one cause. A measurement takes a minute or more at a concurrency of 3, so the default
interval is ten times that of upstream's example. It ends only where a latency is shown, and none is
below the telemetry's minimum of samples: with requests of many seconds a concurrency of 3 may never
reach it, and the limit stays at 3. An operator would raise `min_concurrency` or fix minRTT; a
search may too. Where a look says nothing, only time passes. It sets the admission limit alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot
from .limit_bounds import LARGEST_LIMIT
from .request_sample import Latency, latency_s
from .site import Site, Suggest

_LEAST_GRADIENT: Final = 0.5
_LARGEST_GRADIENT: Final = 2.0
_FLOOR_WINDOWS: Final = 5
"""Windows in a row at the lower bound after which minRTT is measured anew."""
_MICROSECONDS: Final = 1_000_000
_MILLISECONDS: Final = 1000
_ROUNDING_S: Final = 1e-6
"""Far above the rounding of a sum of ticks, far below a tick."""


@dataclass(frozen=True, slots=True)
class EnvoyGradientParams:
    """The gradient controller's configuration."""

    max_concurrency_limit: int = 1000
    """Upper bound."""
    min_concurrency: int = 3
    """Limit while minRTT is measured, and lower bound."""
    buffer: float = 0.25
    """Added to minRTT, as a share of it, 0-1."""
    update_interval_s: float = 0.1
    """Length of a sampling window; whole ticks, rounded up. Upstream's example."""
    min_rtt_interval_s: float = 600.0
    """From one measurement's end to the next one's begin, before jitter."""
    jitter: float = 0.15
    """Largest delay of a measurement, as a share of the interval, 0-1."""
    request_count: int = 50
    """Requests of a measurement."""
    fixed_min_rtt_s: float | None = None
    """minRTT where it is not measured; `None`: it is."""
    latency: Latency = "e2e"
    """Which P95 is the round-trip time."""

    def __post_init__(self) -> None:
        """Refuses what upstream's validation refuses.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        for name in ("max_concurrency_limit", "min_concurrency", "request_count"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 1 or more")
        for name in ("buffer", "jitter"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 0-1")
        for name in ("update_interval_s", "min_rtt_interval_s", "fixed_min_rtt_s"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value}, expected a number above 0")

    def make(self, site: Site, *, seed: int) -> EnvoyGradient:
        """A controller for one episode, deterministic in `seed`."""
        rule = GradientRule(self, np.random.default_rng(seed), GradientState(self.min_concurrency))
        return EnvoyGradient(self, rule, site.tick_s, site.window_s)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> EnvoyGradientParams:
        """Bounds, buffer, measured minRTT at some interval or a fixed one, and the latency."""
        del site
        fixed_s = None
        interval_s = suggest.suggest_float("min_rtt_interval_s", 120.0, 7200.0, log=True)
        if suggest.suggest_categorical("is_fixed", [False, True]):
            fixed_s = suggest.suggest_float("fixed_min_rtt_s", 0.05, 60.0, log=True)
        return cls(
            max_concurrency_limit=suggest.suggest_int(
                "max_concurrency_limit", 200, LARGEST_LIMIT, log=True
            ),
            min_concurrency=suggest.suggest_int("min_concurrency", 3, 200, log=True),
            buffer=suggest.suggest_float("buffer", 0.0, 1.0),
            min_rtt_interval_s=interval_s,
            fixed_min_rtt_s=fixed_s,
            latency=suggest.suggest_categorical("latency", ["e2e", "ttft"]),
        )


def gradient_limit(
    params: EnvoyGradientParams, limit: int, min_rtt_us: int, sample_rtt_us: int
) -> int:
    """The limit after one window.

    Args:
        params: The configuration.
        limit: The limit so far.
        min_rtt_us: Least latency, microseconds.
        sample_rtt_us: The window's latency, microseconds, above 0.
    """
    buffered = min_rtt_us + min_rtt_us * params.buffer
    gradient = max(_LEAST_GRADIENT, min(_LARGEST_GRADIENT, buffered / sample_rtt_us))
    scaled = limit * gradient
    wanted = int(scaled + math.sqrt(scaled))
    return max(params.min_concurrency, min(params.max_concurrency_limit, wanted))


@dataclass(slots=True)
class GradientState:
    """What changes from window to window."""

    limit: int
    """The concurrency limit."""
    saved_limit: int | None = None
    """The limit before the measurement that is on; `None`: none is."""
    measuring_since_s: float = 0.0
    """When the last measurement began."""
    min_rtt_us: int = 0
    """Least latency, microseconds."""
    measure_at_s: float | None = None
    """When the next measurement is due; `None`: never, or one is on."""
    floor_windows: int = 0
    """Windows in a row at the lower bound."""


@dataclass(slots=True)
class GradientRule:
    """The rule on upstream's events; times in seconds, on any clock."""

    params: EnvoyGradientParams
    generator: np.random.Generator
    state: GradientState

    def measurement_begins(self, now_s: float) -> None:
        """Sets the limit to the measuring concurrency; nothing, if a measurement is on."""
        state = self.state
        if state.saved_limit is not None:
            return
        state.saved_limit = state.limit
        state.measuring_since_s = now_s
        state.measure_at_s = None
        self._set(self.params.min_concurrency)

    def measurement_ends(self, now_s: float, min_rtt_us: int) -> None:
        """Enough requests came back: their latency is minRTT, and the limit is put back."""
        state = self.state
        if state.saved_limit is None:
            raise ValueError("no measurement is on, so none can end")
        state.min_rtt_us = min_rtt_us
        self._set(state.saved_limit)
        state.saved_limit = None
        state.measure_at_s = now_s + self._interval_s()

    def window_ends(self, now_s: float, sample_rtt_us: int) -> None:
        """Sets the limit by the latency of a sampling window."""
        state = self.state
        if state.saved_limit is not None:
            raise ValueError("a measurement is on, so no window counts")
        self._set(gradient_limit(self.params, state.limit, state.min_rtt_us, sample_rtt_us))
        if self.params.fixed_min_rtt_s is None and state.floor_windows >= _FLOOR_WINDOWS:
            state.measure_at_s = now_s

    def _set(self, limit: int) -> None:
        state, floor = self.state, self.params.min_concurrency
        stays = state.saved_limit is None and state.limit == floor and limit == floor
        state.floor_windows = state.floor_windows + 1 if stays else 0
        state.limit = limit

    def _interval_s(self) -> float:
        """With upstream's whole milliseconds."""
        interval = round(self.params.min_rtt_interval_s * _MILLISECONDS)
        spread = math.ceil(interval * self.params.jitter)
        delay = int(self.generator.integers(spread)) if spread else 0
        return (interval + delay) / _MILLISECONDS


@dataclass(slots=True)
class EnvoyGradient:
    """The controller; one instance an episode. Moves the admission limit only."""

    params: EnvoyGradientParams
    rule: GradientRule
    tick_s: float
    window_s: float
    ticks: int = 0
    """Looks so far."""
    window_at_s: float | None = None
    """When the sampling window ends; `None`: no look has said anything yet."""

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Measures or samples; holds where the snapshot gives no latency."""
        now_s = self.ticks * self.tick_s
        self.ticks += 1
        rtt_s = latency_s(snapshot, self.params.latency)
        if rtt_s is None or snapshot.samples is None:
            return settings
        self._look(now_s, max(1, round(rtt_s * _MICROSECONDS)), snapshot.samples)
        return replace(settings, max_outstanding=self.rule.state.limit)

    def saved(self) -> dict[str, Any]:
        """What it remembers and the generator's state, as JSON content."""
        state = self.rule.state
        return {
            "limit": state.limit,
            "saved_limit": state.saved_limit,
            "measuring_since_s": state.measuring_since_s,
            "min_rtt_us": state.min_rtt_us,
            "measure_at_s": state.measure_at_s,
            "floor_windows": state.floor_windows,
            "ticks": self.ticks,
            "window_at_s": self.window_at_s,
            "generator": dict(self.rule.generator.bit_generator.state),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered, and draws on where it stopped."""
        self.rule.state = GradientState(
            saved["limit"],
            saved["saved_limit"],
            saved["measuring_since_s"],
            saved["min_rtt_us"],
            saved["measure_at_s"],
            saved["floor_windows"],
        )
        self.ticks = saved["ticks"]
        self.window_at_s = saved["window_at_s"]
        self.rule.generator.bit_generator.state = saved["generator"]

    def _look(self, now_s: float, rtt_us: int, samples: float) -> None:
        state = self.rule.state
        if self.window_at_s is None:
            self._begin(now_s)
        elif state.saved_limit is not None:
            age_s = now_s - state.measuring_since_s
            came_back = samples * age_s / self.window_s
            if age_s >= self.window_s - _ROUNDING_S and came_back >= self.params.request_count:
                self.rule.measurement_ends(now_s, rtt_us)
                self.window_at_s = now_s + self.params.update_interval_s
        else:
            if now_s >= self.window_at_s - _ROUNDING_S:
                self.rule.window_ends(now_s, rtt_us)
                self.window_at_s = now_s + self.params.update_interval_s
            due_s = state.measure_at_s
            if due_s is not None and now_s >= due_s - _ROUNDING_S:
                self.rule.measurement_begins(now_s)

    def _begin(self, now_s: float) -> None:
        self.window_at_s = now_s + self.params.update_interval_s
        if self.params.fixed_min_rtt_s is None:
            self.rule.measurement_begins(now_s)
        else:
            self.rule.state.min_rtt_us = round(self.params.fixed_min_rtt_s * _MICROSECONDS)
