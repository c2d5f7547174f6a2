"""The analytical planner for n gateways at once: from scraped rows to the replicas they will need.

The gateways may stand at different sites (`places`); each is planned for as if it were alone.

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
still to come, nor while waiting requests are being worked off (`pending`): that latency is a debt,
and to take it for a slow cluster would order more and more while the first of them start.

Regimes: what a snapshot does not say is not guessed. Without an arrival rate, or with arrivals
whose lengths were never seen, the replicas are left as they are; likewise if nothing arrives and
yet requests run: then counters stand still. Without waiting requests, or
without the number of ejected replicas, nothing shrinks; nor before there are as many needs as are
looked back on: whoever has just begun does not know what was needed a minute ago. Numbers that no
plant shows are not known either. A row that does not even say how many replicas are asked for
repeats the last need.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ....envs.schema.fields import FIELD_INDEX, Rows
from ..look_back import whole_ticks
from ..site import Site
from .bias import moved
from .breaker import threshold_steps
from .capacity import Capacity, Floats
from .forecast import LEAST_LOAD, expected, see
from .mix import see_mix
from .params import PlannerParams
from .pending import count_lost, is_settled
from .places import Places, check_alike, known
from .sizing import Load, cheapest_sizes
from .state import OUTPUT, P50, P95, PEAK_TICKS, PROMPT, Counts, PlannerState
from .table import Table

MEAN_S: Final = 1800.0
"""Time constant of the mean work that a plan names, seconds: what an hour is like."""

_LEAST_SHARE: Final = 0.05
"""Least busy share that a replica is taken to bear, however long its prompts are."""
_MOST_SEEN: Final = 1e12
"""Largest number that is believed of a gateway, whatever it counts."""


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
    """Plans for n gateways.

    `places`, `(n,)`: where each stands, as an index of the sites; all at the first at first.
    """

    def __init__(
        self, sites: Sequence[Site], params: PlannerParams | Sequence[PlannerParams], n: int = 1
    ) -> None:
        """Starts with nothing seen.

        Args:
            sites: Where gateways stand: one or more, of one rhythm and one promise.
            params: How careful it is: at each site, or everywhere.
            n: Gateways.

        Raises:
            ValueError: No site, two that differ in what must be alike, or not as many parameters
                as sites.
            SiteError: What a replica can do is not known.
        """
        check_alike(sites)
        each = [params] * len(sites) if isinstance(params, PlannerParams) else params
        self.sites, self.params = tuple(sites), tuple(each)
        if len(self.params) != len(self.sites):
            msg = f"{len(self.params)} parameters of a planner for {len(self.sites)} sites"
            raise ValueError(msg)
        self._by_site = Places.of(self.sites, self.params)
        replicas = [site.known_replica("planner") for site in sites]
        self.slo, self._window_s, tick_s = sites[0].slo, sites[0].window_s, sites[0].tick_s
        self.capacity = Capacity(
            replicas, self.slo.latency_limit_s, [one.arrival_scv for one in self.params]
        )
        self._window_ticks = whole_ticks(self._window_s, tick_s)
        self._mean_share = -math.expm1(-tick_s / MEAN_S)
        self._begin(np.zeros(n, np.int64))

    def see(self, rows: Rows) -> Plan:
        """Takes in the newest snapshots and says what to ask for.

        Args:
            rows: Scraped rows `(n, F)`; NaN: missing.
        """
        state, here = self.state, self._by_site.at(self.places)
        params = here.params
        rows = np.where(rows <= _MOST_SEEN, rows, np.nan)
        rate, waiting = _column(rows, "request_rate_rps"), _column(rows, "waiting")
        see_mix(state.mix, rows, self._window_s, params["mix_weight"])
        prompt, output = state.mix[:, PROMPT], state.mix[:, OUTPUT]
        prefill_s = prompt * self.capacity.prefill_token_s(self.places)
        decode_s = output * self.capacity.output_token_s(self.places, prompt, output)
        busy_s = prefill_s + decode_s
        is_idle = (rate == 0) & ~(_column(rows, "running") > 0)
        rate = np.where(((prompt > 0) & (rate > 0)) | is_idle, rate, np.nan)
        work = rate * busy_s
        backlog = np.where(np.isnan(waiting), 0.0, waiting) * busy_s
        catch_up = np.minimum(backlog / params["catch_up_s"], params["catch_up_share"] * work)
        see(state.forecast, work + catch_up, params["forecast"], here.horizon)
        state.peak[:] = np.fmax(state.peak * params["peak_kept"], work)
        requested, ready = self._requested(rows), _column(rows, "replicas_ready")
        serving = ready - _column(rows, "replicas_ejected")
        lost = count_lost(state, requested - ready, here.patience_ticks)
        is_behind = backlog > serving * self.slo.latency_limit_s
        settled = is_settled(state, backlog, is_behind, lost, here.patience_ticks)
        latency_s = np.where(settled, _column(rows, "ttft_p95_s"), np.nan)
        borne = self._borne(busy_s, work, serving, latency_s, params)
        need = np.where(np.isnan(work), requested, self._needs(rows, borne, lost, here))
        replicas = self._held(rows, requested, need, work, params["hold_ticks"] + 1)
        self._remember(work)
        state.ticks += 1
        return Plan(
            replicas=replicas,
            need=need,
            prefill_work=rate * prefill_s,
            decode_work=rate * decode_s,
            work_peak=np.fmax.reduce(state.recent, axis=1),
            work_mean=np.where(state.forecast.ticks > 0, state.mean, np.nan),
            threshold_steps=threshold_steps(rows, params["breaker"]),
        )

    def fresh(self, places: Counts) -> Planner:
        """A planner of the same sites and parameters, that has seen nothing.

        Args:
            places: Where its gateways stand, `(k,)`.

        Raises:
            ValueError: A place is none of the sites: it names it.
        """
        other = copy.copy(self)
        other._begin(known(places, self.sites))
        return other

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content; where there is a choice, with who stands where."""
        saved = self.state.saved()
        return saved | {"places": self.places.tolist()} if len(self.sites) > 1 else saved

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one of as many gateways and of the same sites remembered.

        Raises:
            ValueError: A place is none of the sites.
        """
        if len(self.sites) > 1:
            self.places[:] = known(np.array(saved["places"], np.int64), self.sites)
        self.state.restore(saved)

    def copy_rows(self, sources: Counts, targets: Counts, origin: Planner | None = None) -> None:
        """Makes gateway `targets[k]` what gateway `sources[k]` is, place and all, `(k,)` each.

        Args:
            sources: Which gateways are copied.
            targets: Over which they are laid.
            origin: Whose gateways the sources are, of the same sites and parameters; `None`: these.
        """
        there = self if origin is None else origin
        self.places[targets] = there.places[sources]
        self.state.copy_rows(sources, targets, there.state)

    def _begin(self, places: Counts) -> None:
        """Forgets all, of gateways at `places`."""
        self.places, by_site = places.copy(), self._by_site
        self.state = PlannerState.start(
            error_priors=by_site.params["forecast"]["error_prior"][places],
            longest_hold_ticks=int(by_site.params["hold_ticks"].max()),
            window_ticks=self._window_ticks,
            longest_ahead_ticks=int(by_site.horizon.ticks.max()),
            longest_patience_ticks=int(by_site.patience_ticks.max()),
            patience_ticks=by_site.patience_ticks[places],
        )

    def _borne(
        self,
        busy_s: Floats,
        work: Floats,
        serving: Floats,
        latency_s: Floats,
        params: Table,
    ) -> Floats:
        """Compares the measured P95 with what the busy share lets expect, and says what follows.

        Args:
            busy_s: b, `(n,)`; 0 of who never had a request.
            work: Arriving work, `(n,)`.
            serving: Replicas that take requests, `(n,)`.
            latency_s: Measured P95, `(n,)`; NaN where it says nothing.
            params: Of the gateways, `(n,)`.

        Returns:
            Work that a replica bears, `(n,)`; infinite for who never had a request.
        """
        bias, met = self.state.bias, np.flatnonzero(busy_s > 0)
        mix = self.state.mix[met]
        curves = self.capacity.curves(self.places[met], mix[:, P50], mix[:, P95], busy_s[met])
        told = np.flatnonzero(((latency_s > 0) & (serving > 0) & (work > 0))[met])
        if len(told):
            which, share = met[told], np.zeros(len(met))
            with np.errstate(over="ignore"):  # next to no replica
                share[told] = work[which] / serving[which]
            late = latency_s[which] / self.slo.latency_limit_s
            # One by one: numpy's logarithm may end in another bit.
            measured = np.array([math.log(x) for x in late.tolist()])
            expects = curves.log_latency(share)[told]
            bias[which] = moved(bias[which], measured, expects, params["bias_weight"][which])
        borne = np.full(len(work), np.inf)
        shares = np.maximum(curves.busiest_share(-bias[met]), _LEAST_SHARE)
        borne[met] = shares * params["headroom"][met]
        return borne

    def _needs(self, rows: Rows, borne: Floats, lost: Counts, here: Places) -> Counts:
        """`(n,)`: replicas that bear the loads.

        Args:
            rows: Scraped rows `(n, F)`.
            borne: Work that a replica bears, `(n,)`.
            lost: Replicas that will not come, `(n,)`.
            here: Where the gateways stand.
        """
        params, loads = here.params, self._loads(here)
        need = cheapest_sizes(loads, borne, here.least, here.most, params["violation_weight"])
        need += np.rint(params["reserve"] * np.minimum(np.exp(loads[0].log), 1.0)).astype(np.int64)
        ejected = np.round(_column(rows, "replicas_ejected"))
        need += np.where(np.isfinite(borne) & ~np.isnan(ejected), ejected, 0.0).astype(np.int64)
        most: Counts = np.minimum(need + lost, here.most)
        return most

    def _loads(self, here: Places) -> list[Load]:
        """What is to be borne, the load now first."""
        state, params = self.state, here.params
        now, later = expected(state.forecast, here.horizon)
        peak = np.log(np.maximum(params["peak_share"] * state.peak, LEAST_LOAD))
        error = params["capacity_error"]
        return [
            Load(now, error),
            Load(later, np.hypot(error, params["errors"] * np.sqrt(state.forecast.error_sq))),
            Load(peak, error),
        ]

    def _held(
        self, rows: Rows, requested: Counts, need: Counts, work: Floats, ring: Counts
    ) -> Counts:
        """The largest of the last needs on the way down; no way down where load may be unseen.

        What is not known leaves the last need standing: the size that is kept meanwhile is none.
        """
        state, gateways = self.state, np.arange(len(need))
        last = state.needs[gateways, (state.ticks - 1) % ring]
        state.needs[gateways, state.ticks % ring] = np.where(np.isnan(work), last, need)
        is_blind = np.isnan(_column(rows, "waiting")) | np.isnan(_column(rows, "replicas_ejected"))
        is_blind |= np.isnan(work) | (state.ticks + 1 < ring)
        floor = np.where(is_blind, requested, state.needs.max(axis=1))
        return np.where(need >= requested, need, np.minimum(requested, floor))

    def _requested(self, rows: Rows) -> Counts:
        """`(n,)`: replicas asked for; the last need where the row does not say."""
        state, requested = self.state, np.round(_column(rows, "replicas_requested"))
        ring = self._by_site.params["hold_ticks"][self.places] + 1
        last = state.needs[np.arange(len(rows)), (state.ticks - 1) % ring]
        return np.where(np.isnan(requested), last, requested).astype(np.int64)

    def _remember(self, work: Floats) -> None:
        """Takes in the newest work for the peak and the mean that a plan names."""
        state, is_known = self.state, ~np.isnan(work)
        state.recent[np.arange(len(work)), state.ticks % PEAK_TICKS] = work
        plain = 1 / np.maximum(state.forecast.ticks, 1)  # at first, of all that was seen
        weight = np.maximum(self._mean_share, plain)
        state.mean[:] = np.where(is_known, state.mean + weight * (work - state.mean), state.mean)


def _column(rows: Rows, name: str) -> Floats:
    return rows[:, FIELD_INDEX[name]]
