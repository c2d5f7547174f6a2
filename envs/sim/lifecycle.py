"""A replica's life: off, starting (cold start), ready, draining, off."""

from __future__ import annotations

from typing import Final

import numpy as np

from .accounting import fail
from .kernel import kernel
from .kv_cache import remove_key
from .quantile import histogram_quantile
from .rng import uniform
from .router import bring_all_up, bring_up
from .state import (
    DRAINING,
    E2E_BOUNDS_S,
    E2E_HIST,
    KEY_MASK,
    NONE,
    OFF,
    READY,
    STARTING,
)
from .waiting import pop_waiting

PANIC_PERCENT: Final = 50
"""Share of ready replicas not ejected below which ejections are disregarded (Envoy's default)."""


@kernel
def refresh_active(plant):
    """Rebuilds the list of replicas that may be routed to, in the order of their places.

    Those that are ready and not ejected; if they are less than half of the ready ones (after a
    scale-in of healthy ones, say), all of these: Envoy's panic threshold, 50 % by default.
    """
    n = 0
    ready = 0
    for r in range(plant.replicas.shape[0]):
        if plant.replicas[r].state == READY:
            ready += 1
            if plant.replicas[r].ejected == 0:
                plant.active[n] = r
                n += 1
    if 100 * n < PANIC_PERCENT * ready:
        n = 0
        for r in range(plant.replicas.shape[0]):
            if plant.replicas[r].state == READY:
                plant.active[n] = r
                n += 1
    plant.env.active = n


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
    """Puts a new replica into place r; it takes requests after `delay_s`."""
    rep = plant.replicas[r]
    incarnation = rep.incarnation + 1
    rep.state = STARTING if delay_s > 0.0 else READY
    rep.incarnation = incarnation
    rep.started_at = t
    rep.ready_at = t + delay_s
    rep.billed_from = t
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
    rep.answers = 0
    rep.failures = 0
    rep.interval_answers = 0
    rep.interval_failures = 0
    rep.ejected = 0
    rep.ejections = 0
    rep.error_share = 0.0
    plant.next_event[r] = np.inf


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
    p99 = histogram_quantile(0.99, E2E_BOUNDS_S, plant.histograms[E2E_HIST], 1)
    rep.state = DRAINING
    rep.drain_deadline = t + max(p.drain_min_s, p99 if p99 == p99 else p.request_timeout_s)


@kernel
def scale_to(plant, requested, t):
    """Makes the starting and ready replicas as many as asked for.

    New ones take the lowest free place; the youngest go first, starting ones before ready ones
    (Kubernetes' order: not ready before ready, then the newest).
    """
    p, env, replicas = plant.params, plant.env, plant.replicas
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
            spread = 1.0 + p.cold_start_spread * (2.0 * uniform(env) - 1.0)
            start_replica(plant, r, t, p.cold_start_s * spread)
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
def lose_requests(plant, r, t):
    """Everything on replica r ends as an error."""
    env, rep, pool = plant.env, plant.replicas[r], plant.pool
    while rep.wait_head != NONE:
        fail(env, pool, pop_waiting(rep, pool), t, plant.out)
    while rep.decoding > 0:
        i = plant.keys[r, rep.decoding - 1] & KEY_MASK
        remove_key(rep, r, plant.keys, pool, rep.decoding - 1)
        fail(env, pool, i, t, plant.out)
    if rep.partial != NONE:
        fail(env, pool, rep.partial, t, plant.out)
        rep.partial = NONE
    i = rep.batch
    while i != NONE:
        following = pool[i].next
        fail(env, pool, i, t, plant.out)
        i = following
    rep.batch = NONE
    rep.outstanding = 0
    plant.next_event[r] = np.inf
