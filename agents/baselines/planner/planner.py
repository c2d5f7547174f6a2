"""The analytical planner for n gateways at once: from scraped rows to the replicas they will need.

Formula, every tick:

    work      = arrivals/s * b                                         (b: `capacity`)
    load      = work + waiting * b / catch-up time, at most a quarter more than the work
    loads     = the load now, that one cold start ahead, a share of the remembered peak of work
    need      = the cheapest size from the floor on for these loads (`sizing`), a replica bearing
                headroom * busiest share, + reserve * min(load, 1) + ejected + lost replicas
    replicas  = need at once on the way up; on the way down the largest need of the last ticks
    threshold = low while one replica fails alone (`breaker`)

Lost are those that were asked for and have not come for two cold starts. How far the load now and
the peak may be off is the error of the capacity; one cold start ahead it is that and the error of
the forecast together.

The busiest share is that at which the P95 of time to first token is expected to stay at its limit,
for the prompts that come just now. What was expected is compared with what is measured, and the
limit is lowered by as much as the measurements have lain above (`bias`). Not so while replicas are
still to come, nor while waiting requests are being worked off: that latency is a debt, and to take
it for a slow cluster would order more and more while the first of them start.

Regimes: what a snapshot does not say is not guessed. Without an arrival rate, or with arrivals
whose lengths were never seen, the replicas are left as they are; likewise if nothing arrives and
yet requests run: then counters stand still. Without waiting requests, or
without the number of ejected replicas, nothing shrinks; nor before there are as many needs as are
looked back on: whoever has just begun does not know what was needed a minute ago. Numbers that no
plant shows are not known either. A row that does not even say how many replicas are asked for
repeats the last need.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ....envs.schema.fields import FIELD_INDEX, Rows
from ..look_back import whole_ticks
from ..site import Site
from .breaker import threshold_steps
from .capacity import Capacity, Curves, Floats
from .forecast import LEAST_LOAD, expected, see
from .params import PlannerParams
from .sizing import Load, cheapest_sizes
from .state import OUTPUT, P50, P95, PEAK_TICKS, PROMPT, UNKNOWN, Counts, PlannerState

MEAN_S: Final = 1800.0
"""Time constant of the mean work that a plan names, seconds: what an hour is like."""

_BIAS_STEP: Final = 0.7
"""Largest error of the expected latency that counts at once, natural logarithm of a factor."""
_MOST_BIAS: Final = 1.0
"""Largest bias either way: a factor of 2.7."""
_PATIENCE: Final = 2.0
"""Cold starts after which a replica that has not come is taken for lost."""
_LEAST_SHARE: Final = 0.05
"""Least busy share that a replica is taken to bear, however long its prompts are."""
_MOST_SEEN: Final = 1e12
"""Largest number that is believed of a gateway, whatever it counts."""
_MOST_TOKENS: Final = 1e9
"""Longest prompt or output that is believed."""

_MIX_FIELDS: Final = ("prompt_tokens_p50", "prompt_tokens_p95")


@dataclass(frozen=True, slots=True)
class Plan:
    """What the planner says of n gateways at a tick, `(n,)` each."""

    replicas: Counts
    """What it would ask for."""
    need: Counts
    """What it needs at once, whatever was needed before."""
    prefill_work: Floats
    """Arriving prompt work, replicas kept busy; NaN where it is not known."""
    decode_work: Floats
    """Arriving output work, likewise."""
    work_peak: Floats
    """Highest work of the last `PEAK_TICKS`; NaN where none of it is known."""
    work_mean: Floats
    """Mean work of about `MEAN_S`; NaN where none was ever known."""
    threshold_steps: Floats
    """Breaker threshold that it would set, in steps; NaN where it asks for none."""


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
        limits = site.limits
        self._sizes = np.arange(limits.clip(params.floor_replicas), limits.max_replicas + 1)
        # What is seen lies half a window back.
        ahead_s = replica.cold_start_s + site.window_s / 2
        self._window_ticks = whole_ticks(site.window_s, site.tick_s)
        patience_ticks = whole_ticks(_PATIENCE * replica.cold_start_s, site.tick_s) + 1
        self.state = PlannerState.start(
            params.forecast,
            n,
            hold_ticks=params.hold_ticks,
            ahead_ticks=whole_ticks(ahead_s, site.tick_s),
            window_ticks=self._window_ticks,
            patience_ticks=max(patience_ticks, self._window_ticks),
        )

    def see(self, rows: Rows) -> Plan:
        """Takes in the newest snapshots and says what to ask for.

        Args:
            rows: Scraped rows `(n, F)`; NaN: missing.
        """
        state, params = self.state, self.params
        rows = np.where(rows <= _MOST_SEEN, rows, np.nan)
        rate, waiting = _column(rows, "request_rate_rps"), _column(rows, "waiting")
        self._see_mix(rows)
        prompt, output = state.mix[:, PROMPT], state.mix[:, OUTPUT]
        prefill_s = prompt * self.capacity.prefill_token_s
        decode_s = output * self.capacity.output_token_s(prompt, output)
        busy_s = prefill_s + decode_s
        is_idle = (rate == 0) & ~(_column(rows, "running") > 0)
        rate = np.where(((prompt > 0) & (rate > 0)) | is_idle, rate, np.nan)
        work = rate * busy_s
        backlog = np.where(np.isnan(waiting), 0.0, waiting) * busy_s
        catch_up = np.minimum(backlog / params.catch_up_s, params.catch_up_share * work)
        see(state.forecast, work + catch_up, params.forecast)
        state.peak[:] = np.fmax(state.peak * params.peak_kept, work)
        curves = self._curves(busy_s)
        requested = self._requested(rows)
        lost = self._lost(rows, requested)
        self._see_latency(rows, work, curves, self._is_settled(rows, backlog, lost))
        need = self._needs(rows, requested, lost, work, curves)
        replicas = self._held(rows, requested, need, work)
        self._remember(work)
        state.ticks += 1
        return Plan(
            replicas=replicas,
            need=need,
            prefill_work=rate * prefill_s,
            decode_work=rate * decode_s,
            work_peak=np.fmax.reduce(state.recent, axis=1),
            work_mean=np.where(state.forecast.ticks > 0, state.mean, np.nan),
            threshold_steps=threshold_steps(rows, params.breaker),
        )

    def copy_rows(self, sources: Counts, targets: Counts, origin: Planner | None = None) -> None:
        """Makes gateway `targets[k]` what gateway `sources[k]` is, `(k,)` each.

        Args:
            sources: Which gateways are copied.
            targets: Over which they are laid.
            origin: Whose gateways the sources are, of the same site and parameters; `None`: these.
        """
        self.state.copy_rows(sources, targets, self.state if origin is None else origin.state)

    def _see_mix(self, rows: Rows) -> None:
        """Takes in prompt and output lengths where the window shows enough requests for all."""
        mix, samples = self.state.mix, _column(rows, "samples")
        first_tokens_per_s = np.where(samples > 0, samples, np.nan) / self.site.window_s
        with np.errstate(over="ignore"):  # next to no sample
            newest = np.stack(
                [
                    *(_column(rows, name) for name in _MIX_FIELDS),
                    _column(rows, "prompt_token_rate_tps") / first_tokens_per_s,
                    _column(rows, "output_token_rate_tps") / first_tokens_per_s,
                ],
                axis=-1,
            )
        newest = np.where(newest <= _MOST_TOKENS, newest, np.nan)
        is_known = np.all(newest > 0, axis=1)  # NaN is not above 0
        weight = np.where(mix[:, PROMPT] > 0, self.params.mix_weight, 1.0)[:, None]
        mix[:] = np.where(is_known[:, None], mix + weight * (newest - mix), mix)

    def _curves(self, busy_s: Floats) -> dict[int, Curves]:
        """By gateway, of those that ever had a request."""
        rows = np.flatnonzero(busy_s > 0)
        mix = self.state.mix[rows]
        of = self.capacity.curves(mix[:, P50], mix[:, P95], busy_s[rows])
        return dict(zip(rows.tolist(), of, strict=True))

    def _lost(self, rows: Rows, requested: Counts) -> Counts:
        """`(n,)`: replicas that were absent at every tick for as long as one is waited for."""
        state = self.state
        absent = requested - _column(rows, "replicas_ready")
        newest = np.where(np.isnan(absent), UNKNOWN, np.maximum(absent, 0.0)).astype(np.int64)
        state.absent[np.arange(len(rows)), state.ticks % state.absent.shape[1]] = newest
        lost: Counts = np.maximum(state.absent.min(axis=1), 0)
        return lost

    def _is_settled(self, rows: Rows, backlog: Floats, lost: Counts) -> NDArray[np.bool_]:
        """Where for a whole window nobody was still to come and no debt was being worked off.

        A backlog that grows with all replicas there is no debt: they are slower than expected.
        """
        state, gateways = self.state, np.arange(len(rows))
        is_behind = backlog > _serving(rows) * self.site.slo.latency_limit_s
        state.behind[gateways, state.ticks % self._window_ticks] = is_behind
        places = state.ticks[:, None] - np.arange(self._window_ticks)
        absent = state.absent[gateways[:, None], places % state.absent.shape[1]]
        grows = backlog > state.backlog
        state.backlog[:] = backlog
        is_complete = np.all(absent == lost[:, None], axis=1)
        is_settled: NDArray[np.bool_] = is_complete & (grows | ~np.any(state.behind, axis=1))
        return is_settled

    def _see_latency(
        self,
        rows: Rows,
        work: Floats,
        curves: Mapping[int, Curves],
        is_settled: NDArray[np.bool_],
    ) -> None:
        """Compares the measured P95 with what the busy share lets expect."""
        latency_s, serving = _column(rows, "ttft_p95_s"), _serving(rows)
        which = np.flatnonzero((latency_s > 0) & (serving > 0) & (work > 0) & is_settled)
        if not len(which):
            return
        late = latency_s[which] / self.site.slo.latency_limit_s
        seen = zip(*(a.tolist() for a in (which, late, work[which], serving[which])), strict=True)
        found = [math.log(x) - curves[i].log_latency(w / n) for i, x, w, n in seen]
        before = self.state.bias[which]
        error = np.array(found) - before
        weight = self.params.bias_weight * np.where(error > 0, 1.0, 0.5)
        moved = before + weight * np.minimum(np.maximum(error, -_BIAS_STEP), _BIAS_STEP)
        self.state.bias[which] = np.minimum(np.maximum(moved, -_MOST_BIAS), _MOST_BIAS)

    def _needs(
        self,
        rows: Rows,
        requested: Counts,
        lost: Counts,
        work: Floats,
        curves: Mapping[int, Curves],
    ) -> Counts:
        """`(n,)`: replicas that bear the loads; those asked for where the load is not known."""
        params = self.params
        borne = np.full(len(rows), np.inf)  # by who never had a request: anything
        bias = self.state.bias.tolist()
        for i, of in curves.items():
            borne[i] = max(of.busiest_share(-bias[i]), _LEAST_SHARE) * params.headroom
        loads = self._loads()
        need = cheapest_sizes(loads, borne, self._sizes, params.violation_weight)
        need += np.rint(params.reserve * np.minimum(np.exp(loads[0].log), 1.0)).astype(np.int64)
        ejected = np.round(_column(rows, "replicas_ejected"))
        need += np.where(np.isfinite(borne) & ~np.isnan(ejected), ejected, 0.0).astype(np.int64)
        need += lost
        return np.where(np.isnan(work), requested, np.minimum(need, self._sizes[-1]))

    def _loads(self) -> list[Load]:
        """What is to be borne, the load now first."""
        state, params = self.state, self.params
        now, later = expected(state.forecast, params.forecast)
        peak = np.log(np.maximum(params.peak_share * state.peak, LEAST_LOAD))
        error = params.capacity_error
        return [
            Load(now, error),
            Load(later, np.hypot(error, params.errors * np.sqrt(state.forecast.error_sq))),
            Load(peak, error),
        ]

    def _held(self, rows: Rows, requested: Counts, need: Counts, work: Floats) -> Counts:
        """The largest of the last needs on the way down; no way down where load may be unseen.

        What is not known leaves the last need standing: the size that is kept meanwhile is none.
        """
        state, gateways, ring = self.state, np.arange(len(need)), self.state.needs.shape[1]
        last = state.needs[gateways, (state.ticks - 1) % ring]
        state.needs[gateways, state.ticks % ring] = np.where(np.isnan(work), last, need)
        is_blind = np.isnan(_column(rows, "waiting")) | np.isnan(_column(rows, "replicas_ejected"))
        is_blind |= np.isnan(work) | (state.ticks + 1 < ring)
        floor = np.where(is_blind, requested, state.needs.max(axis=1))
        return np.where(need >= requested, need, np.minimum(requested, floor))

    def _requested(self, rows: Rows) -> Counts:
        """`(n,)`: replicas asked for; the last need where the row does not say."""
        state, requested = self.state, np.round(_column(rows, "replicas_requested"))
        last = state.needs[np.arange(len(rows)), (state.ticks - 1) % state.needs.shape[1]]
        return np.where(np.isnan(requested), last, requested).astype(np.int64)

    def _remember(self, work: Floats) -> None:
        """Takes in the newest work for the peak and the mean that a plan names."""
        state, is_known = self.state, ~np.isnan(work)
        state.recent[np.arange(len(work)), state.ticks % PEAK_TICKS] = work
        share = -math.expm1(-self.site.tick_s / MEAN_S)
        weight = np.maximum(share, 1 / np.maximum(state.forecast.ticks, 1))  # at first a plain mean
        state.mean[:] = np.where(is_known, state.mean + weight * (work - state.mean), state.mean)


def _serving(rows: Rows) -> Floats:
    """`(n,)`: replicas that take requests."""
    return _column(rows, "replicas_ready") - _column(rows, "replicas_ejected")


def _column(rows: Rows, name: str) -> Floats:
    return rows[:, FIELD_INDEX[name]]
