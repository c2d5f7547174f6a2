"""The analytical planner for n gateways at once: from scraped rows to the replicas they will need.

Formula, every tick:

    work      = arrivals/s * b + waiting * b / catch-up time        (b: `capacity`)
    coming    = the higher of `work` now and one cold start ahead, z errors above its forecast
    target    = max(coming, peak share * remembered peak of work)
    need      = ceil(target / (headroom * busiest share) + reserve) + ejected + lost replicas
    replicas  = need at once on the way up; on the way down the largest need of the last ticks

Lost are those that were asked for and have not come for two cold starts.

The busiest share is that at which the P95 of time to first token is expected to stay at its limit,
for the prompts that come just now. What was expected is compared with what is measured at every
tick, and the limit is lowered by as much as the measurements have lain above (`bias`).

Regimes: what a snapshot does not say is not guessed. Without an arrival rate, or with arrivals
whose lengths were never seen, the replicas are left as they are. Without waiting requests, or
without the number of ejected replicas, nothing shrinks; nor before there are as many needs as are
looked back on: whoever has just begun does not know what was needed a minute ago.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ....envs.schema.fields import FIELD_INDEX, Rows
from ..site import Site
from .capacity import Capacity, Floats, Mix
from .forecast import ForecastParams, ForecastState, highest, see

_BIAS_STEP: Final = 0.7
"""Largest error of the expected latency that counts at once, natural logarithm of a factor."""
_MOST_BIAS: Final = 1.0
"""Largest bias either way: a factor of 2.7."""
_PATIENCE: Final = 2.0
"""Cold starts after which a replica that has not come is taken for lost."""
_LEAST_SHARE: Final = 0.05
"""Least busy share that a replica is taken to bear, however long its prompts are."""

_MIX_FIELDS: Final = ("prompt_tokens_p50", "prompt_tokens_p95")
P50, P95, PROMPT, OUTPUT = range(4)
"""Columns of `PlannerState.mix`."""


@dataclass(frozen=True, slots=True)
class PlannerParams:
    """How careful it is."""

    forecast: ForecastParams = ForecastParams()  # noqa: RUF009  # frozen
    """How the load is forecast."""
    errors: float = 1.0
    """z: root mean square errors of the forecast to be safe from."""
    reserve: float = 0.2
    """Replicas in hand for what no trend announces, such as a tenant that jumps."""
    peak_share: float = 0.5
    """Share of the remembered peak that stays covered."""
    peak_kept: float = 0.99
    """What is left of the remembered peak after a tick."""
    headroom: float = 0.9
    """Factor on the busiest share; below 1: more careful than the formula."""
    arrival_scv: float = 1.0
    """ca2: squared coefficient of variation of the arrivals within a minute."""
    bias_weight: float = 0.2
    """Weight of the newest error of the expected latency; where it was too high, half of it."""
    mix_weight: float = 0.5
    """Weight of the newest lengths."""
    catch_up_s: float = 60.0
    """Time in which waiting requests are to be worked off, seconds."""
    hold_ticks: int = 15
    """Ticks for which a need is kept up."""

    def __post_init__(self) -> None:
        """Refuses what would not plan.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        for name in ("peak_share", "peak_kept", "bias_weight", "mix_weight"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 0-1")
        for name in ("headroom", "arrival_scv", "catch_up_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a number above 0")
        for name in ("errors", "reserve", "hold_ticks"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 0 or more")


@dataclass(slots=True)
class PlannerState:
    """What is remembered of n gateways: arrays of plain numbers, the first axis is the gateway."""

    forecast: ForecastState
    mix: Floats
    """`(n, 4)`: median and P95 of prompts, mean prompt, mean output, tokens; 0 until known."""
    bias: Floats
    """`(n,)`: log of measured over expected latency."""
    peak: Floats
    """`(n,)`: remembered peak of work."""
    needs: NDArray[np.int64]
    """`(n, hold + 1)`: ring of the last needs."""
    absent: NDArray[np.int64]
    """`(n, patience)`: ring of the replicas that were asked for and not ready, -1: not known."""
    ticks: NDArray[np.int64]
    """`(n,)`: ticks seen."""

    @classmethod
    def start(
        cls, params: PlannerParams, n: int, ahead_ticks: int, patience_ticks: int
    ) -> PlannerState:
        """Gateways of which nothing has been seen."""
        return cls(
            forecast=ForecastState.start(params.forecast, n, ahead_ticks),
            mix=np.zeros((n, 4)),
            bias=np.zeros(n),
            peak=np.zeros(n),
            needs=np.zeros((n, params.hold_ticks + 1), np.int64),
            absent=np.full((n, patience_ticks), -1),
            ticks=np.zeros(n, np.int64),
        )

    def forget(self, which: NDArray[np.int64], fresh: PlannerState) -> None:
        """Starts some gateways anew, as the first one of `fresh`."""
        for name, array in self.arrays():
            array[which] = dict(fresh.arrays())[name][0]

    def arrays(self) -> list[tuple[str, NDArray[Any]]]:
        """Every array by name."""
        inner = [(f.name, getattr(self.forecast, f.name)) for f in fields(self.forecast)]
        outer = [(f.name, getattr(self, f.name)) for f in fields(self) if f.name != "forecast"]
        return [(f"forecast_{name}", array) for name, array in inner] + outer


@dataclass(frozen=True, slots=True)
class Plan:
    """What the planner says of n gateways at a tick, `(n,)` each."""

    replicas: NDArray[np.int64]
    """What it would ask for."""
    need: NDArray[np.int64]
    """What it needs at once, whatever was needed before."""
    prefill_work: Floats
    """Arriving prompt work, replicas kept busy; NaN where it is not known."""
    decode_work: Floats
    """Arriving output work, likewise."""
    peak: Floats
    """Remembered peak of work."""
    level: Floats
    """Smoothed work."""


class Planner:
    """Plans for n gateways of one site."""

    def __init__(self, site: Site, params: PlannerParams, n: int = 1) -> None:
        """Starts with nothing seen.

        Args:
            site: Of all gateways.
            params: How careful it is.
            n: Gateways.

        Raises:
            SiteError: What a replica can do is not known.
        """
        replica = site.known_replica("planner")
        self.site, self.params = site, params
        self.capacity = Capacity(replica, site.slo.latency_limit_s, params.arrival_scv)
        # What is seen lies half a window back.
        ahead_s = replica.cold_start_s + site.window_s / 2
        self._ahead_ticks = max(math.ceil(ahead_s / site.tick_s), 1)
        self._patience_ticks = math.ceil(_PATIENCE * replica.cold_start_s / site.tick_s) + 1
        self.state = self._start(n)

    def reset(self, which: NDArray[np.int64]) -> None:
        """Forgets what was seen of some gateways."""
        self.state.forget(which, self._start(1))

    def _start(self, n: int) -> PlannerState:
        return PlannerState.start(self.params, n, self._ahead_ticks, self._patience_ticks)

    def see(self, rows: Rows) -> Plan:
        """Takes in the newest snapshots and says what to ask for.

        Args:
            rows: Scraped rows `(n, F)`; NaN: missing.
        """
        state, params = self.state, self.params
        rate, waiting = _column(rows, "request_rate_rps"), _column(rows, "waiting")
        self._see_mix(rows)
        prompt, output = state.mix[:, PROMPT], state.mix[:, OUTPUT]
        prefill_s = prompt * self.capacity.prefill_token_s
        decode_s = output * self.capacity.output_token_s(prompt, output)
        busy_s = prefill_s + decode_s
        has_mix = prompt > 0
        rate = np.where(has_mix | (rate == 0), rate, np.nan)
        backlog = np.where(np.isnan(waiting), 0.0, waiting) * busy_s / params.catch_up_s
        work = rate * busy_s
        see(state.forecast, work + backlog, params.forecast)
        state.peak[:] = np.fmax(state.peak * params.peak_kept, work)
        coming = highest(state.forecast, params.forecast, params.errors)
        target = np.maximum(coming, params.peak_share * state.peak)
        self._see_latency(rows, work, busy_s)
        is_known = ~np.isnan(work)
        need = self._needs(rows, target, busy_s, is_known)
        return Plan(
            replicas=self._held(rows, need, is_known),
            need=need,
            prefill_work=rate * prefill_s,
            decode_work=rate * decode_s,
            peak=state.peak.copy(),
            level=np.exp(state.forecast.level),
        )

    def _see_mix(self, rows: Rows) -> None:
        """Takes in prompt and output lengths where the window shows enough requests for all."""
        mix, samples = self.state.mix, _column(rows, "samples")
        first_tokens_per_s = np.where(samples > 0, samples, np.nan) / self.site.window_s
        newest = np.stack(
            [
                *(_column(rows, name) for name in _MIX_FIELDS),
                _column(rows, "prompt_token_rate_tps") / first_tokens_per_s,
                _column(rows, "output_token_rate_tps") / first_tokens_per_s,
            ],
            axis=-1,
        )
        is_known: NDArray[np.bool_] = np.all(newest > 0, axis=1)  # NaN is not above 0
        weight = np.where(mix[:, PROMPT] > 0, self.params.mix_weight, 1.0)[:, None]
        mix[:] = np.where(is_known[:, None], mix + weight * (newest - mix), mix)

    def _see_latency(self, rows: Rows, work: Floats, busy_s: Floats) -> None:
        """Compares the measured P95 with what the busy share lets expect."""
        latency_s = _column(rows, "ttft_p95_s")
        serving = _column(rows, "replicas_ready") - _column(rows, "replicas_ejected")
        can_compare = (latency_s > 0) & (serving > 0) & (work > 0)
        bias = self.state.bias
        for i in np.flatnonzero(can_compare).tolist():
            expected = self.capacity.log_latency(self._mix(i, busy_s[i]), work[i] / serving[i])
            error = math.log(latency_s[i] / self.site.slo.latency_limit_s) - expected - bias[i]
            weight = self.params.bias_weight * (1.0 if error > 0 else 0.5)
            moved = bias[i] + weight * min(max(error, -_BIAS_STEP), _BIAS_STEP)
            bias[i] = min(max(moved, -_MOST_BIAS), _MOST_BIAS)

    def _needs(
        self, rows: Rows, target: Floats, busy_s: Floats, is_known: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """`(n,)`: replicas that bear the target; those asked for where the load is not known."""
        requested, ejected = _column(rows, "replicas_requested"), _column(rows, "replicas_ejected")
        needs = np.round(requested).astype(np.int64)
        limits, lost = self.site.limits, self._lost(rows)
        for i in np.flatnonzero(is_known).tolist():
            if busy_s[i] == 0:  # never a request
                needs[i] = limits.min_replicas
                continue
            share = self.capacity.busiest_share(self._mix(i, busy_s[i]), -self.state.bias[i])
            share = max(share, _LEAST_SHARE) * self.params.headroom
            out = 0 if math.isnan(ejected[i]) else round(ejected[i])
            bearing = math.ceil(target[i] / share + self.params.reserve)
            needs[i] = limits.clip(bearing + out + int(lost[i]))
        return needs

    def _lost(self, rows: Rows) -> NDArray[np.int64]:
        """`(n,)`: replicas that were absent at every tick for as long as one is waited for."""
        state = self.state
        absent = _column(rows, "replicas_requested") - _column(rows, "replicas_ready")
        newest = np.where(np.isnan(absent), -1.0, np.maximum(absent, 0.0)).astype(np.int64)
        state.absent[np.arange(len(rows)), state.ticks % state.absent.shape[1]] = newest
        lost: NDArray[np.int64] = np.maximum(state.absent.min(axis=1), 0)
        return lost

    def _held(
        self, rows: Rows, need: NDArray[np.int64], is_known: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """The largest of the last needs on the way down; no way down where load may be unseen.

        What is not known leaves the last need standing: the size that is kept meanwhile is none.
        """
        state, gateways, ring = self.state, np.arange(len(need)), self.state.needs.shape[1]
        last = state.needs[gateways, (state.ticks - 1) % ring]
        state.needs[gateways, state.ticks % ring] = np.where(is_known, need, last)
        state.ticks += 1
        requested = np.round(_column(rows, "replicas_requested")).astype(np.int64)
        is_blind = np.isnan(_column(rows, "waiting")) | np.isnan(_column(rows, "replicas_ejected"))
        is_blind |= ~is_known | (state.ticks < ring)
        floor = np.where(is_blind, requested, state.needs.max(axis=1))
        return np.where(need >= requested, need, np.minimum(requested, floor))

    def _mix(self, i: int, busy_s: float) -> Mix:
        return Mix(float(self.state.mix[i, P50]), float(self.state.mix[i, P95]), float(busy_s))


def _column(rows: Rows, name: str) -> Floats:
    return rows[:, FIELD_INDEX[name]]
