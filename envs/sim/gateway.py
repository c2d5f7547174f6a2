"""A request's way through the gateway: admission, routing, failure, retry."""

from __future__ import annotations

import numpy as np

from .accounting import fail, give_up, holder, note_failure, refuse, shed
from .breaker import eject_suspects
from .kernel import inlined_kernel, kernel
from .kv_cache import blocks_for
from .limits import admits, has_token
from .params import NO_LIMIT
from .records import NONE
from .replica import enqueue
from .rng import uniform
from .router import bring_all_up, pick


@inlined_kernel
def next_row(plant, workload):
    """Moves the reader on whose row was next, and notes who is next and when.

    A reader that takes a share of the rows leaves the others out.
    """
    env, cursors = plant.env, plant.cursors
    cursor = cursors[env.cursor]
    while True:
        cursor.row += 1
        if cursor.row == env.row_high:
            if env.span == 0.0:
                cursor.next = np.inf
                break
            cursor.row = env.row_low
            cursor.time_shift += env.span
        if cursor.share >= 1.0 or uniform(env) < cursor.share:
            cursor.next = workload.arrival_s[cursor.row] + cursor.time_shift
            break
    if cursors.shape[0] == 1:
        env.next_arrival = cursor.next
    else:
        find_next_arrival(env, cursors)


@inlined_kernel
def find_next_arrival(env, cursors):
    """Which of several readers is next; the workload itself where two are."""
    env.next_arrival = np.inf
    env.cursor = 0
    for c in range(cursors.shape[0]):
        if cursors[c].next < env.next_arrival:
            env.next_arrival = cursors[c].next
            env.cursor = c


@inlined_kernel
def take_in(plant, workload, row, tries, copied, t):
    """One request at the gateway: its slot, or `NONE` where it gets 429 or can never be served."""
    p, env, pool = plant.params, plant.env, plant.pool
    env.arrived += 1
    if env.suspect == 1:
        eject_suspects(plant, t)
    if env.outstanding >= env.max_outstanding or env.outstanding >= pool.shape[0]:
        bring_all_up(plant, t)  # completions not booked yet may make room
        if env.outstanding >= env.max_outstanding or env.outstanding >= pool.shape[0]:
            shed(env, row, tries, copied, t, plant.out)
            return NONE
    if p.max_waiting < NO_LIMIT and waiting(plant) >= p.max_waiting:
        bring_all_up(plant, t)
        if waiting(plant) >= p.max_waiting:
            shed(env, row, tries, copied, t, plant.out)
            return NONE
    if not admits(plant, t):
        shed(env, row, tries, copied, t, plant.out)
        return NONE
    i = env.free
    if i == NONE:
        i = env.used
        env.used += 1
    else:
        env.free = pool[i].next
    request = pool[i]
    prompt = workload.prompt_tokens[row]
    timeout_s = p.request_timeout_s
    if p.timeout_step_s > 0.0:
        steps = max(np.int64(prompt) - p.timeout_step_tokens, 0) // p.timeout_step_tokens
        timeout_s += p.timeout_step_s * steps
    request.arrival = t
    request.deadline = t + timeout_s
    request.first = -1.0
    request.row = row
    request.prompt = prompt
    request.prefill = prompt
    request.output = workload.output_tokens[row]
    request.prompt0 = prompt
    request.replica = NONE
    request.retries = 0
    request.restarts = 0
    request.client_tries = tries
    request.copied = copied
    request.cold_s = 0.0
    request.held_s = 0.0
    env.outstanding += 1
    request.blocks = blocks_for(request.prompt, p.block_tokens)
    if request.prompt + request.output + p.block_tokens > p.admission_tokens:
        fail(env, pool, i, t, plant.out)  # no replica can ever hold it
        return NONE
    return i


@kernel
def waiting(plant):
    """Requests that wait for a place in a batch, as far as the replicas have been brought up."""
    total = plant.env.pending
    for r in range(plant.replicas.shape[0]):
        total += plant.replicas[r].waiting
    return total


@inlined_kernel
def dispatch(plant, i, t):
    """Sends request i to a replica; the replica may answer with an error at once."""
    p, env, pool = plant.params, plant.env, plant.pool
    if env.active == 0:
        if env.pending < p.max_pending:
            hold(plant, i, t)
        else:
            fail(env, pool, i, t, plant.out)  # no healthy upstream: 503, not retried
        return
    request = pool[i]
    r = pick(plant, request.replica, t)
    rep = plant.replicas[r]
    if p.replica_bucket_rps < np.inf and not has_token(
        rep, p.replica_bucket_rps, p.replica_bucket_size, t
    ):
        refuse(env, pool, i, t, plant.out)
        return
    share = 1.0 - (1.0 - rep.error_share) * (1.0 - env.outage_share)
    if share > 0.0 and uniform(env) < share:
        request.replica = r
        note_failure(env, rep, p.consecutive_5xx)
        if env.suspect == 1:
            eject_suspects(plant, t)
        retry_or_fail(plant, i, t)
        return
    if plant.prefix_parent.shape[0] > 0:
        use_prefix(plant, rep, r, request)
    enqueue(p, rep, r, plant.next_event, plant.keys, pool, i, t)


@inlined_kernel
def use_prefix(plant, rep, r, request):
    """What of the prompt replica r holds already: what it computed for the request's parent.

    The last token is computed always. That the cache forgets is not modelled.
    """
    parent = plant.prefix_parent[request.row]
    request.prefill = request.prompt
    if parent != NONE and plant.out.served[parent] == holder(r, rep.incarnation):
        hit = plant.prefix_hit_tokens[request.row]
        request.prefill = max(request.prompt - hit, 1)


@inlined_kernel
def hold(plant, i, t):
    """Keeps request i at the gateway until a replica is ready."""
    env, pool = plant.env, plant.pool
    pool[i].next = NONE
    pool[i].dispatched_s = t - pool[i].arrival
    if env.pending == 0:
        env.pending_head = i
    else:
        pool[env.pending_tail].next = i
    env.pending_tail = i
    env.pending += 1


@inlined_kernel
def next_pending(plant, t):
    """The first of those held, whose wait is over at t; `NONE` where it has timed out."""
    env, pool = plant.env, plant.pool
    i = env.pending_head
    env.pending_head = pool[i].next
    env.pending -= 1
    if pool[i].deadline <= t:
        give_up(env, pool, i, t, plant.out)
        return NONE
    pool[i].held_s += t - pool[i].arrival - pool[i].dispatched_s
    return i


@kernel
def expire_pending(plant, t):
    """Those held whose deadline has passed get 504."""
    env, pool = plant.env, plant.pool
    before = NONE
    i = env.pending_head
    for _ in range(env.pending):
        following = pool[i].next
        if pool[i].deadline <= t:
            if before == NONE:
                env.pending_head = following
            else:
                pool[before].next = following
            if i == env.pending_tail:
                env.pending_tail = before
            env.pending -= 1
            give_up(env, pool, i, t, plant.out)
        else:
            before = i
        i = following


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


@inlined_kernel
def next_retry(plant):
    """The request whose retry is due; `NONE` where it has timed out."""
    env = plant.env
    t = env.next_retry
    i = plant.retries[env.retry_head % plant.pool.shape[0]]
    env.retry_head += 1
    if env.retry_head == env.retry_tail:
        env.next_retry = np.inf
        env.retry_head = 0  # from the front again: the ring's far end takes no memory
        env.retry_tail = 0
    else:
        env.next_retry = plant.retry_due[env.retry_head % plant.pool.shape[0]]
    if plant.pool[i].deadline <= t:
        give_up(env, plant.pool, i, t, plant.out)
        return NONE
    return i


@inlined_kernel
def drop_comeback(env, ring):
    """Takes the client away whose next try is due."""
    env.comeback_head += 1
    if env.comeback_head < env.comeback_tail:
        env.next_comeback = ring[env.comeback_head % ring.shape[0]].due
    else:
        env.next_comeback = np.inf
        env.comeback_head = 0
        env.comeback_tail = 0
