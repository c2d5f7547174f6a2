"""A replica's life: off, starting (cold start), ready, draining, off."""

from __future__ import annotations

import numpy as np

from .accounting import fail
from .gateway import retry_or_fail
from .kernel import kernel
from .kv_cache import remove_key
from .quantile import histogram_quantile
from .records import DRAINING, KEY_MASK, NONE, OFF, READY, STARTING
from .rng import uniform
from .router import bring_all_up, bring_up, refresh_active
from .series import E2E_BOUNDS_S, E2E_HIST
from .waiting import pop_waiting
from .weights import start_weighing


@kernel
def refresh_next_life(plant):
    """Finds when the next replica becomes ready or runs out of draining time."""
    earliest = np.inf
    for r in range(plant.replicas.shape[0]):
        rep = plant.replicas[r]
        if rep.state == STARTING:
            earliest = min(earliest, rep.ready_at)
        elif rep.state == DRAINING:
            earliest = min(earliest, rep.drain_deadline)
    plant.env.next_life = earliest


@kernel
def start_replica(plant, r, t, delay_s):
    """Puts a new replica into place r; it takes requests after `delay_s`, and is loaded then."""
    rep = plant.replicas[r]
    incarnation = rep.incarnation + 1
    rep.state = STARTING if delay_s > 0.0 else READY
    rep.incarnation = incarnation
    rep.started_at = t
    rep.ready_at = t + delay_s
    rep.billed_from = t
    rep.loaded_at = 0.0
    rep.paused_until = 0.0
    rep.drain_deadline = np.inf
    rep.min_deadline = np.inf
    rep.partial = NONE
    rep.batch = NONE
    rep.wait_head = NONE
    rep.wait_tail = NONE
    rep.waiting = 0
    rep.outstanding = 0
    rep.decoding = 0
    rep.held = 0
    rep.context = 0
    rep.count = 0
    rep.steps = 0
    rep.chunk_step = 0
    rep.batch_tokens = 0
    rep.partial_left = 0
    rep.prefill_blocks = 0
    rep.tokens = 0
    rep.prompt_tokens = 0
    rep.output_tokens = 0
    rep.answers = 0
    rep.failures = 0
    rep.interval_answers = 0
    rep.interval_failures = 0
    rep.ejected = 0
    rep.ejections = 0
    rep.ejection_jitter_s = 0.0
    rep.consecutive_failures = 0
    rep.error_share = 0.0
    rep.slow = 1.0
    rep.fault_slow = 1.0
    rep.bucket = plant.params.replica_bucket_size
    rep.bucket_at = t
    start_weighing(plant, r)
    plant.next_event[r] = np.inf


@kernel
def order_replica(plant, r, t):
    """Orders a replica for place r: a cold start lies ahead, and first the end of a failed start.

    With a lazy start it takes requests soon and loads with the first.
    """
    p, env = plant.params, plant.env
    spread = 1.0 + p.cold_start_spread * (2.0 * uniform(env) - 1.0)
    blocked_s = max(env.starts_blocked_until - t, 0.0)
    start_replica(plant, r, t, blocked_s + p.cold_start_s * spread)
    if p.lazy_load_s > 0.0:
        plant.replicas[r].loaded_at = np.inf


@kernel
def stop_replica(plant, r, t):
    """Takes replica r out: a starting or idle one is gone at once, a busy one drains.

    The deadline is the P99 of the end-to-end times so far, at least `drain_min_s`: long answers
    finish.
    """
    p, env, rep = plant.params, plant.env, plant.replicas[r]
    if rep.ejected == 1:
        rep.ejected = 0
        env.ejected -= 1
    if rep.state == STARTING or rep.outstanding == 0:
        rep.state = OFF
        env.billed_s += t - rep.billed_from
        return
    p99 = histogram_quantile(0.99, E2E_BOUNDS_S, plant.env.histograms[E2E_HIST], 1)
    rep.state = DRAINING
    rep.drain_deadline = t + max(p.drain_min_s, p99 if p99 == p99 else p.request_timeout_s)


@kernel
def scale_to(plant, requested, t):
    """Makes the starting and ready replicas as many as asked for.

    New ones take the lowest free place; the youngest go first, starting ones before ready ones
    (Kubernetes' order: not ready before ready, then the newest).
    """
    env, replicas = plant.env, plant.replicas
    bring_all_up(plant, t)
    env.requested = requested
    alive = 0
    for r in range(replicas.shape[0]):
        if replicas[r].state == STARTING or replicas[r].state == READY:
            alive += 1
    for r in range(replicas.shape[0]):
        if alive >= requested:
            break
        if replicas[r].state == OFF:
            order_replica(plant, r, t)
            alive += 1
    while alive > requested:
        victim = NONE
        for r in range(replicas.shape[0]):
            rep = replicas[r]
            if rep.state != STARTING and rep.state != READY:
                continue
            if victim == NONE:
                victim = r
                continue
            best = replicas[victim]
            younger = rep.started_at > best.started_at or (
                rep.started_at == best.started_at and r > victim
            )
            if rep.state == best.state:
                if younger:
                    victim = r
            elif rep.state == STARTING:
                victim = r
        stop_replica(plant, victim, t)
        alive -= 1
    refresh_active(plant)
    refresh_next_life(plant)


@kernel
def life_event(plant):
    """A cold start or a draining time is over."""
    env = plant.env
    t = env.next_life
    for r in range(plant.replicas.shape[0]):
        rep = plant.replicas[r]
        if rep.state == STARTING and rep.ready_at <= t:
            rep.state = READY
        elif rep.state == DRAINING and rep.drain_deadline <= t:
            bring_up(plant, r, t)
            if rep.state == DRAINING:
                lose_requests(plant, r, t)
                rep.state = OFF
                env.billed_s += t - rep.billed_from
    refresh_active(plant)
    refresh_next_life(plant)


@kernel
def crash_replica(plant, r, t):
    """Replica r dies with everything on it, and is started again in its place.

    A request without a first token is a 5xx to the gateway, which may retry it.
    """
    env, rep = plant.env, plant.replicas[r]
    bring_up(plant, r, t)
    plant.next_event[r] = np.inf
    if rep.ejected == 1:
        rep.ejected = 0
        env.ejected -= 1
    rep.state = STARTING  # out of the gateway's sight before its requests look for another
    refresh_active(plant)
    _lose_all(plant, r, 1, t)
    billed_from = rep.billed_from
    order_replica(plant, r, t)
    rep.billed_from = billed_from
    refresh_active(plant)
    refresh_next_life(plant)


@kernel
def lose_requests(plant, r, t):
    """Everything on replica r, whose time to drain is over, ends as an error."""
    _lose_all(plant, r, 0, t)
    plant.replicas[r].outstanding = 0
    plant.next_event[r] = np.inf


@kernel
def _lose_all(plant, r, retried, t):
    """Whatever is on replica r, waiting, decoding or prefilling; `retried`: 1 if it may be."""
    rep, pool = plant.replicas[r], plant.pool
    while rep.wait_head != NONE:
        _lose(plant, np.int64(pop_waiting(rep, pool)), retried, t)
    while rep.decoding > 0:
        i = plant.keys[r, rep.decoding - 1] & KEY_MASK
        remove_key(rep, r, plant.keys, pool, rep.decoding - 1)
        _lose(plant, np.int64(i), retried, t)
    if rep.partial != NONE:
        i = rep.partial
        rep.partial = NONE
        _lose(plant, np.int64(i), retried, t)
    i = rep.batch
    rep.batch = NONE
    while i != NONE:
        following = pool[i].next
        _lose(plant, np.int64(i), retried, t)
        i = following


@kernel
def _lose(plant, i, retried, t):
    """One request whose replica is gone; a stream that has begun cannot be retried."""
    if retried == 1 and plant.pool[i].first < 0.0:
        retry_or_fail(plant, i, t)
    else:
        fail(plant.env, plant.pool, i, t, plant.out)
