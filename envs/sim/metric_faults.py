"""Faults of the telemetry: scrapes that fail, come late or show old values, counters that restart.

They change what Prometheus stores of a scrape and when it can be asked for, never the plant: the
row `truth` comes from the scrapes themselves (`observe`), the row `seen` from what is stored here
(`stored_row`). Nothing is stored while no fault is in sight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .kernel import kernel
from .kv_cache import blocks_in_use
from .records import DRAINING, METRIC_FAULT, OFF, READY, STARTING
from .series import (
    REP_ANSWERS,
    REP_FAILURES,
    REP_ITERATIONS,
    REP_OUTPUT_TOKENS,
    REP_PROMPT_TOKENS,
    REP_TOKENS,
    SCRAPE_ARRIVED,
    SCRAPE_TIME,
)
from .state import EngineState

METRIC_FAULT_KINDS: Final = ("metrics_gap", "metrics_late", "metrics_stale", "counter_reset")
METRICS_GAP, METRICS_LATE, METRICS_STALE, COUNTER_RESET = range(4)


@dataclass(frozen=True, slots=True)
class MetricFault:
    """One fault of the telemetry of an episode, at all targets alike."""

    kind: str
    """One of `METRIC_FAULT_KINDS`."""
    start_s: float
    """Onset, from the episode's beginning."""
    end_s: float = math.inf
    """Its end; without meaning for `counter_reset`, which is an instant."""
    delay_s: float = 0.0
    """Of `metrics_late` alone: from a scrape until its samples can be asked for."""

    def __post_init__(self) -> None:
        """Refuses a fault that would do nothing.

        Raises:
            ValueError: It names the key, its value and what would be right.
        """
        if self.kind not in METRIC_FAULT_KINDS:
            msg = f"kind {self.kind!r}: expected one of {', '.join(METRIC_FAULT_KINDS)}"
            raise ValueError(msg)
        if self.kind != "counter_reset" and not self.end_s > self.start_s:
            msg = f"end_s is {self.end_s}, expected more than start_s {self.start_s}"
            raise ValueError(msg)
        if (self.kind == "metrics_late") != (self.delay_s > 0):
            wanted = "more than 0" if self.kind == "metrics_late" else "0"
            msg = f"delay_s is {self.delay_s}, expected {wanted} for {self.kind}"
            raise ValueError(msg)


def packed_metric_faults(faults: Sequence[MetricFault], room: int, offset_s: float) -> NDArray[Any]:
    """The faults as `(room,)` records whose times count from `offset_s` before the episode.

    Raises:
        ValueError: More faults than room.
    """
    if len(faults) > room:
        msg = f"{len(faults)} metric faults in one episode, room for {room}"
        raise ValueError(msg)
    records = np.zeros(room, METRIC_FAULT)
    records["start"] = np.inf
    records["end"] = np.inf
    for record, fault in zip(records, faults, strict=False):
        record["kind"] = METRIC_FAULT_KINDS.index(fault.kind)
        record["start"] = fault.start_s + offset_s
        record["end"] = fault.start_s if fault.kind == "counter_reset" else fault.end_s
        record["end"] += offset_s
        record["delay"] = fault.delay_s
    return records


def set_metric_faults(
    state: EngineState,
    which: NDArray[np.int64],
    faults: Sequence[Sequence[MetricFault]],
    offset_s: float,
) -> None:
    """Gives the gateways in `which` their metric faults; nothing is stored yet of their scrapes.

    Raises:
        ValueError: More faults than room.
    """
    room = state.metric_faults.shape[1]
    for e, listed in zip(which, faults, strict=True):
        state.metric_faults[e] = packed_metric_faults(listed, room, offset_s)
    if room > 0:
        state.env["metrics_touched"][which] = -np.inf
        state.stored_scrapes["number"][which] = -1
        state.stored_counters[which, -1] = 0.0
        state.stored_replicas["incarnation"][which, -1] = 0


@kernel
def store_scrape(plant):
    """Stores the scrape that has just been made, as the faults of that instant let it.

    A scrape that failed repeats the values before it and is marked: so no sum over the window has
    to leave it out. Stale values are those of the scrape before under a new time.
    """
    p, env = plant.params, plant.env
    ring = plant.scrapes.shape[0]
    number = env.scrapes - 1
    place, prior, base = number % ring, (number - 1) % ring, ring
    t = plant.scrapes[place, SCRAPE_TIME]
    before = plant.scrapes[prior, SCRAPE_TIME] if number > 0 else -np.inf
    # stored long enough ahead of a fault, and after it, to fill a window
    margin_s = p.window_s + 2.0 * p.scrape_interval_s
    good = fresh = True
    in_sight = restarted = False
    for k in range(plant.metric_faults.shape[0]):
        fault = plant.metric_faults[k]
        if fault.start - margin_s <= t <= fault.end + margin_s:
            in_sight = True
        if fault.kind == COUNTER_RESET:
            restarted = restarted or before < fault.start <= t
        elif fault.start <= t < fault.end:
            if fault.kind == METRICS_GAP:
                good = False
            elif fault.kind == METRICS_STALE:
                fresh = False
    if not in_sight:
        return
    fresh = fresh and good
    if restarted or not fresh:
        env.metrics_touched = t
    scrape = plant.stored_scrapes[number % plant.stored_scrapes.shape[0]]
    last = plant.stored_scrapes[(number - 1) % plant.stored_scrapes.shape[0]]
    follows = last.number == number - 1 and number > 0
    scrape.number = number
    scrape.time = t
    scrape.has_values = 1 if fresh else (last.has_values if follows else 0)
    scrape.good = 1 if good and scrape.has_values == 1 else 0
    counters = plant.stored_counters
    if restarted:
        for column in range(SCRAPE_ARRIVED, counters.shape[1]):
            counters[base, column] = plant.scrapes[place, column]
    counters[place, SCRAPE_TIME] = t
    for column in range(SCRAPE_ARRIVED, counters.shape[1]):
        if fresh:
            counters[place, column] = plant.scrapes[place, column] - counters[base, column]
        else:
            counters[place, column] = counters[prior, column]
    if fresh:
        states = plant.values
        states[: DRAINING + 1] = 0.0
        for r in range(plant.replicas.shape[0]):
            states[plant.replicas[r].state] += 1.0
        scrape.ready = states[READY]
        scrape.starting = states[STARTING]
        scrape.draining = states[DRAINING]
        scrape.ejected = env.ejected
    else:
        scrape.ready = last.ready
        scrape.starting = last.starting
        scrape.draining = last.draining
        scrape.ejected = last.ejected
    store_replicas(plant, scrape, fresh, restarted, before if follows else np.inf)


@kernel
def store_replicas(plant, scrape, fresh, restarted, before):
    """Stores the series of single replicas, and their gauges' sums and mean (NaN without any).

    Counters count from the replica's start, or from their last restart. Those of a replica that
    was there at the scrape before, at `before`, and could not be seen then count from now:
    Prometheus takes no increase from the first sample of a series. Where old values are shown,
    they are of those replicas alone that are still there: who is gone is no target any more.
    """
    p, stored = plant.params, plant.stored_replicas
    base = stored.shape[0] - 1
    place, prior = scrape.number % base, (scrape.number - 1) % base
    running = waiting = kv_usage = 0.0
    ready = 0
    for r in range(plant.replicas.shape[0]):
        rep, taken = plant.replicas[r], plant.replica_scrapes[place, r]
        series, last, origin = stored[place, r], stored[prior, r], stored[base, r]
        is_new = last.incarnation != rep.incarnation
        if not fresh and not is_new and rep.state != OFF:
            stored[place, r] = last
        else:
            series.incarnation = 0
            series.state = OFF
        if rep.state == OFF:
            continue
        iterations, tokens = taken[REP_ITERATIONS], taken[REP_TOKENS]
        starting_s = max(0.0, min(rep.ready_at, scrape.time) - rep.started_at)
        busy_s = p.cpu_startup * starting_s
        busy_s += p.cpu_idle * (scrape.time - rep.started_at - starting_s)
        busy_s += p.cpu_per_iteration_s * iterations + p.cpu_per_token_s * tokens
        if restarted or (is_new and rep.started_at < before < np.inf):
            origin.incarnation = rep.incarnation
            origin.answers = taken[REP_ANSWERS]
            origin.failures = taken[REP_FAILURES]
            origin.prompt_tokens = taken[REP_PROMPT_TOKENS]
            origin.output_tokens = taken[REP_OUTPUT_TOKENS]
            origin.cpu_s = busy_s
        if fresh:
            series.incarnation = rep.incarnation
            series.state = rep.state
            series.started_at = rep.started_at
            series.answers = taken[REP_ANSWERS]
            series.failures = taken[REP_FAILURES]
            series.prompt_tokens = taken[REP_PROMPT_TOKENS]
            series.output_tokens = taken[REP_OUTPUT_TOKENS]
            series.cpu_s = busy_s
            series.running = rep.held
            series.waiting = rep.waiting
            series.kv_usage = 0.0
            if rep.state == READY:
                used = blocks_in_use(p, rep, r, plant.keys, plant.pool, iterations)
                series.kv_usage = used / p.kv_blocks
            if origin.incarnation == rep.incarnation:
                series.answers -= origin.answers
                series.failures -= origin.failures
                series.prompt_tokens -= origin.prompt_tokens
                series.output_tokens -= origin.output_tokens
                series.cpu_s -= origin.cpu_s
        if series.state == READY or series.state == DRAINING:
            running += series.running
            waiting += series.waiting
        if series.state == READY:
            kv_usage += series.kv_usage
            ready += 1
    scrape.running = running
    scrape.waiting = waiting
    scrape.kv_usage = min(kv_usage / ready, 1.0) if ready > 0 else np.nan
