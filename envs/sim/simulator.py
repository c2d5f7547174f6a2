"""The engine's clock: one gateway forward in time, and many of them tick by tick."""

from __future__ import annotations

import numpy as np

from .breaker import breaker_interval
from .faults import fault_event
from .gateway import arrive, retry_due
from .kernel import inlined_kernel, kernel
from .lifecycle import life_event, refresh_active, scale_to, start_replica
from .observe import observe
from .router import bring_all_up
from .scrape import scrape
from .state import NONE, OFF, Plant


@kernel
def run_until(plant, workload, t_end):
    """Runs one gateway up to t_end.

    What happens at t_end is done, what arrives at t_end is not taken in.

    Events at one instant come in this order: retry, life, fault, breaker, scrape, arrival. An
    iteration that ends at that instant has ended, and the next one has begun, before any of them.
    """
    env = plant.env
    while True:
        control = min(env.next_life, env.next_fault, env.next_breaker, env.next_scrape)
        limit = min(control, t_end)
        while env.next_arrival < limit and env.next_arrival < env.next_retry:
            arrive(plant, workload)
        if env.next_retry <= limit:
            retry_due(plant)
        elif control <= t_end:
            if env.next_life == control:
                life_event(plant)
            elif env.next_fault == control:
                fault_event(plant)
            elif env.next_breaker == control:
                breaker_interval(plant)
            else:
                scrape(plant)
        else:
            break
    bring_all_up(plant, t_end)
    env.now = t_end


@kernel
def reset(plant, workload, seed, row_low, row_high, start_s, span_s, replicas, threshold_percent):
    """Puts one gateway at time 0, `start_s` of the workload, with so many ready replicas."""
    p, env = plant.params, plant.env
    env.rng = seed
    env.now = 0.0
    env.row_low = row_low
    env.row_high = row_high
    env.span = span_s
    row, above = row_low, row_high
    while row < above:
        middle = (row + above) >> 1
        if workload.arrival_s[middle] < start_s:
            row = middle + 1
        else:
            above = middle
    env.row = row
    env.time_shift = -start_s
    if row == row_high:
        env.row = row_low
        env.time_shift += span_s
    empty = row_low == row_high or (row == row_high and span_s == 0.0)
    env.next_arrival = np.inf if empty else workload.arrival_s[env.row] + env.time_shift
    env.next_retry = np.inf
    env.next_life = np.inf
    env.next_fault = np.inf
    for k in range(plant.faults.shape[0]):
        env.next_fault = min(env.next_fault, plant.faults[k].start)
    env.next_breaker = p.breaker_interval_s if p.breaker_interval_s > 0.0 else np.inf
    env.next_scrape = 0.0 if p.scrape_interval_s > 0.0 else np.inf
    env.turn = 0
    env.outstanding = 0
    env.retrying = 0
    env.max_outstanding = p.max_outstanding
    env.requested = replicas
    env.threshold_percent = threshold_percent
    env.ejected = 0
    env.free = NONE
    env.used = 0
    env.retry_head = 0
    env.retry_tail = 0
    env.outage_share = 0.0
    env.arrived = 0
    env.first_tokens = 0
    env.ok = 0
    env.error = 0
    env.timeout = 0
    env.shed = 0
    env.billed_s = 0.0
    env.scrapes = 0
    env.samples = 0
    plant.histograms[:] = 0
    for r in range(plant.replicas.shape[0]):
        plant.replicas[r].state = OFF
        plant.replicas[r].incarnation = 0
        plant.next_event[r] = np.inf
    for r in range(replicas):
        start_replica(plant, r, 0.0, 0.0)
    refresh_active(plant)


@kernel
def bill(plant, t):
    """Books the time of every replica that is not off up to t."""
    for r in range(plant.replicas.shape[0]):
        rep = plant.replicas[r]
        if rep.state != OFF:
            plant.env.billed_s += t - rep.billed_from
            rep.billed_from = t


@kernel
def tick(plant, workload, tick_s, replicas, threshold_percent, max_outstanding, seen, truth):
    """One control interval under new settings, and what is measured at its end."""
    env = plant.env
    t = env.now
    env.threshold_percent = threshold_percent
    env.max_outstanding = min(max_outstanding, plant.params.max_outstanding)
    scale_to(plant, replicas, t)
    run_until(plant, workload, t + tick_s)
    bill(plant, t + tick_s)
    observe(plant, seen, truth)


@inlined_kernel
def plant_of(params, state, out, e):
    """Gateway e's part of the state."""
    return Plant(
        params[e],
        state.env[e],
        state.replicas[e],
        state.next_event[e],
        state.keys[e],
        state.pool[e],
        state.active[e],
        state.retries[e],
        state.retry_due[e],
        state.faults[e],
        state.histograms[e],
        state.scrapes[e],
        state.replica_scrapes[e],
        state.samples[e],
        state.values[e],
        state.eviction_order[e],
        out,
    )


@kernel
def run_to_end(params, state, workload, out, replicas, seed):
    """Runs the whole workload on gateway 0, without ticks, until the last request is done."""
    plant = plant_of(params, state, out, 0)
    reset(plant, workload, seed, 0, workload.arrival_s.shape[0], 0.0, 0.0, replicas, 100)
    run_until(plant, workload, 1e300)


@kernel
def tick_many(
    params, state, workload, out, low, high, tick_s, replicas, thresholds, limits, seen, truth
):
    """One control interval of gateways `low` to `high`."""
    for e in range(low, high):
        plant = plant_of(params, state, out, e)
        tick(plant, workload, tick_s, replicas[e], thresholds[e], limits[e], seen[e], truth[e])


@kernel
def reset_many(
    params,
    state,
    workload,
    out,
    which,
    seeds,
    rows,
    start_s,
    spans,
    warmup_s,
    replicas,
    thresholds,
    seen,
    truth,
):
    """Starts the gateways in `which` anew and runs them to the end of the warm-up.

    `rows` is `(k, 2)`, the rows of the workload that gateway k of `which` draws from, `start_s`
    where in them the warm-up begins.
    """
    for k in range(which.shape[0]):
        e = which[k]
        plant = plant_of(params, state, out, e)
        reset(
            plant,
            workload,
            seeds[k],
            rows[k, 0],
            rows[k, 1],
            start_s[k],
            spans[k],
            replicas[e],
            thresholds[e],
        )
        run_until(plant, workload, warmup_s)
        bill(plant, warmup_s)
        observe(plant, seen[e], truth[e])
