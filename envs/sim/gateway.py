"""A request's way through the gateway: admission, routing, failure, retry."""

from __future__ import annotations

import numpy as np

from .accounting import fail, give_up, shed
from .kernel import inlined_kernel, kernel
from .kv_cache import blocks_for
from .replica import enqueue
from .rng import uniform
from .router import bring_all_up, pick
from .state import NONE


@inlined_kernel
def next_row(plant, workload):
    """Moves on to the workload's next row and notes when it arrives; infinite after the last."""
    env = plant.env
    env.row += 1
    if env.row == env.row_high:
        if env.span == 0.0:
            env.next_arrival = np.inf
            return
        env.row = env.row_low
        env.time_shift += env.span
    env.next_arrival = workload.arrival_s[env.row] + env.time_shift


@inlined_kernel
def arrive(plant, workload):
    """Takes the next row of the workload in, or sheds it."""
    p, env, pool = plant.params, plant.env, plant.pool
    row = env.row
    t = env.next_arrival
    next_row(plant, workload)
    env.arrived += 1
    if env.outstanding >= env.max_outstanding or env.outstanding >= pool.shape[0]:
        bring_all_up(plant, t)  # completions not booked yet may make room
        if env.outstanding >= env.max_outstanding or env.outstanding >= pool.shape[0]:
            shed(env, row, t, t, plant.out)
            return
    i = env.free
    if i == NONE:
        i = env.used
        env.used += 1
    else:
        env.free = pool[i].next
    request = pool[i]
    request.arrival = t
    request.deadline = t + p.request_timeout_s
    request.first = -1.0
    request.row = row
    request.prompt = workload.prompt_tokens[row]
    request.output = workload.output_tokens[row]
    request.prompt0 = request.prompt
    request.replica = NONE
    request.retries = 0
    request.restarts = 0
    env.outstanding += 1
    request.blocks = blocks_for(request.prompt, p.block_tokens)
    if request.prompt + request.output + p.block_tokens > p.admission_tokens:
        fail(env, pool, i, t, plant.out)  # no replica can ever hold it
        return
    dispatch(plant, i, t)


@inlined_kernel
def dispatch(plant, i, t):
    """Sends request i to a replica; the replica may answer with an error at once."""
    p, env, pool = plant.params, plant.env, plant.pool
    if env.active == 0:
        fail(env, pool, i, t, plant.out)  # no healthy upstream: 503, not retried
        return
    request = pool[i]
    r = pick(plant, request.replica, t)
    rep = plant.replicas[r]
    share = 1.0 - (1.0 - rep.error_share) * (1.0 - env.outage_share)
    if share > 0.0 and uniform(env) < share:
        request.replica = r
        rep.answers += 1
        rep.failures += 1
        rep.interval_answers += 1
        rep.interval_failures += 1
        retry_or_fail(plant, i, t)
        return
    enqueue(p, rep, r, plant.next_event, plant.keys, pool, plant.eviction_order, i, t)


@kernel
def retry_or_fail(plant, i, t):
    """A 5xx: one more try while the budget lasts.

    Envoy's budget: as many retries as a share of the active requests, rounded down, and at least
    three (`resource_manager_impl.h`). A request's next try first gives its own place back.
    """
    p, env, pool = plant.params, plant.env, plant.pool
    request = pool[i]
    if request.retries < p.max_retries:
        bring_all_up(plant, t)  # the budget counts what is in flight now
        own = 1 if request.retries > 0 else 0
        budget = max(p.retry_budget_min, int(p.retry_budget_share * env.outstanding))
        if env.retrying - own < budget:
            env.retrying += 1 - own
            request.retries += 1
            place = env.retry_tail % pool.shape[0]
            plant.retries[place] = i
            plant.retry_due[place] = t + p.retry_delay_s
            if env.retry_tail == env.retry_head:
                env.next_retry = plant.retry_due[place]
            env.retry_tail += 1
            return
    fail(env, pool, i, t, plant.out)


@kernel
def retry_due(plant):
    """Sends the request whose retry is due to another replica, unless it has timed out."""
    env = plant.env
    t = env.next_retry
    i = plant.retries[env.retry_head % plant.pool.shape[0]]
    env.retry_head += 1
    if env.retry_head == env.retry_tail:
        env.next_retry = np.inf
    else:
        env.next_retry = plant.retry_due[env.retry_head % plant.pool.shape[0]]
    if plant.pool[i].deadline <= t:
        give_up(env, plant.pool, i, plant.out)
        return
    dispatch(plant, i, t)
