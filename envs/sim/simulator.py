"""The engine's clock: one gateway forward in time, and many of them tick by tick."""

from __future__ import annotations

import numpy as np

from .attribution import attribute
from .breaker import breaker_interval
from .faults import fault_event, place_cursor
from .gateway import (
    dispatch,
    drop_comeback,
    expire_pending,
    find_next_arrival,
    next_pending,
    next_retry,
    next_row,
    take_in,
)
from .kernel import inlined_kernel, kernel
from .lifecycle import life_event, scale_to, start_replica
from .limits import adapt_limits
from .metric_faults import store_scrape
from .observe import observe
from .records import NONE, OFF
from .router import DYNAMIC_WEIGHT, bring_all_up, refresh_active
from .scrape import scrape
from .weights import WEIGHT_INTERVAL_S, weigh


@kernel
def run_until(plant, workload, t_end):
    """Runs one gateway up to t_end.

    What happens at t_end is done, what arrives at t_end is not taken in.

    Events at one instant come in this order: retry, life, fault, breaker, weights, limits, scrape,
    arrival, a client's next try. An iteration that ends at that instant has ended, and the next one
    has begun, before any of them.
    """
    env = plant.env
    control = next_control(env)
    limit = min(control, t_end)
    while True:
        i = NONE
        row = NONE
        tries = np.int64(0)
        copied = np.int64(0)
        if env.pending > 0 and env.active > 0:  # a control event has made a replica ready
            t = env.now
            i = next_pending(plant, t)
        elif (
            env.next_arrival < limit
            and env.next_arrival < env.next_retry
            and env.next_arrival <= env.next_comeback
        ):
            t = env.next_arrival
            copied = np.int64(min(env.cursor, 1))
            row = plant.cursors[env.cursor].row
            next_row(plant, workload)
        elif env.next_retry <= limit and env.next_retry <= env.next_comeback:
            t = env.next_retry
            i = next_retry(plant)
        elif env.next_comeback < limit:
            t = env.next_comeback
            comeback = plant.out.comebacks[env.comeback_head % plant.out.comebacks.shape[0]]
            row = comeback.row
            tries = np.int64(comeback.tries)
            copied = np.int64(comeback.copied)
            drop_comeback(env, plant.out.comebacks)
        elif control <= t_end:
            env.now = control
            control_event(plant, workload, control)
            control = next_control(env)
            limit = min(control, t_end)
            continue
        else:
            break
        if row != NONE:
            i = take_in(plant, workload, row, tries, copied, t)
        if i != NONE:
            dispatch(plant, i, t)
    bring_all_up(plant, t_end)
    expire_pending(plant, t_end)
    env.now = t_end


@inlined_kernel
def next_control(env):
    """When the next event is due that is neither an arrival nor a try."""
    return min(
        env.next_life,
        env.next_fault,
        env.next_breaker,
        env.next_scrape,
        env.next_weights,
        env.next_limits,
        env.next_sync,
    )


@inlined_kernel
def control_event(plant, workload, t):
    """Does what is due at t, one of them."""
    env = plant.env
    if env.next_life == t:
        life_event(plant)
    elif env.next_fault == t:
        fault_event(plant, workload)
    elif env.next_breaker == t:
        breaker_interval(plant)
    elif env.next_weights == t:
        weigh(plant)
    elif env.next_limits == t:
        adapt_limits(plant)
    elif env.next_sync == t:
        # ends are noted in time for the clients that try again after them
        env.next_sync = t + 0.5 * env.client_retry_delay_s
        bring_all_up(plant, t)
        expire_pending(plant, t)
    else:
        expire_pending(plant, t)
        scrape(plant)
        if plant.metric_faults.shape[0] > 0:
            store_scrape(plant)


@kernel
def reset(plant, workload, seed, row_low, row_high, start_s, span_s, replicas, threshold_percent):
    """Puts one gateway at time 0, `start_s` of the workload, with so many ready replicas."""
    p, env = plant.params, plant.env
    env.rng = seed
    env.now = 0.0
    env.row_low = row_low
    env.row_high = row_high
    env.span = span_s
    for c in range(plant.cursors.shape[0]):
        plant.cursors[c].next = np.inf
        plant.cursors[c].share = 1.0
        plant.cursors[c].fault = NONE
    place_cursor(env, plant.cursors[0], workload, -start_s, 0.0)
    find_next_arrival(env, plant.cursors)
    env.next_retry = np.inf
    env.next_comeback = np.inf
    env.next_life = np.inf
    env.next_fault = np.inf
    for k in range(plant.faults.shape[0]):
        env.next_fault = min(env.next_fault, plant.faults[k].start)
    env.next_breaker = p.breaker_interval_s if p.breaker_interval_s > 0.0 else np.inf
    env.next_scrape = 0.0 if p.scrape_interval_s > 0.0 else np.inf
    env.next_weights = WEIGHT_INTERVAL_S if p.router == DYNAMIC_WEIGHT else np.inf
    env.next_limits = np.inf
    if p.kv_limit_rps < np.inf or p.error_limit == 1:
        env.next_limits = p.limit_interval_s
    env.next_sync = 0.5 * p.client_retry_delay_s if p.client_retries > 0 else np.inf
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
    env.comeback_head = 0
    env.comeback_tail = 0
    env.client_retries = p.client_retries
    env.client_retry_delay_s = p.client_retry_delay_s
    env.deadlines_vary = 1 if p.timeout_step_s > 0.0 or p.max_pending > 0 else 0
    env.pending = 0
    env.consecutive_5xx = p.consecutive_5xx
    env.suspect = 0
    env.bucket = p.bucket_size
    env.bucket_at = 0.0
    env.bucket_rps = p.bucket_rps
    env.judged_failed = 0
    env.judged_answers = 0
    env.outage_share = 0.0
    env.starts_blocked_until = 0.0
    env.arrived = 0
    env.first_tokens = 0
    env.ok = 0
    env.error = 0
    env.timeout = 0
    env.shed = 0
    env.billed_s = 0.0
    env.prompt_tokens = 0
    env.prefix_hit_tokens = 0
    env.cool = 0
    env.warm = 0
    env.hot = 0
    env.burning = 0
    env.lost = 0
    env.lost_s = 0.0
    env.scrapes = 0
    env.samples = 0
    env.samples_from = 0
    env.fresh_from = 0
    env.ttft_floor_s = 0.0
    env.histograms[:] = 0
    plant.out.served[:] = 0
    for r in range(plant.replicas.shape[0]):
        plant.replicas[r].state = OFF
        plant.replicas[r].incarnation = 0
        plant.next_event[r] = np.inf
    for r in range(replicas):
        start_replica(plant, r, 0.0, 0.0)
    refresh_active(plant)


@inlined_kernel
def bill(plant, t):
    """Books the time of every replica that is not off up to t."""
    for r in range(plant.replicas.shape[0]):
        rep = plant.replicas[r]
        if rep.state != OFF:
            plant.env.billed_s += t - rep.billed_from
            rep.billed_from = t


@inlined_kernel
def tick(
    plant,
    workload,
    tick_s,
    replicas,
    threshold_percent,
    max_outstanding,
    attribution,
    seen,
    truth,
):
    """One control interval under new settings, and what is measured at its end."""
    env = plant.env
    t = env.now
    env.threshold_percent = threshold_percent
    env.max_outstanding = min(max_outstanding, plant.params.max_outstanding)
    scale_to(plant, replicas, t)
    run_until(plant, workload, t + tick_s)
    bill(plant, t + tick_s)
    attribute(plant, attribution)
    observe(plant, seen, truth)
