"""What happens to a request in the end, counted in one place."""

from __future__ import annotations

import numpy as np

from .kernel import inlined_kernel, kernel
from .outcomes import ERROR, HEAT_BOUNDS_S, OK, SHED, TIMEOUT
from .quantile import bucket
from .records import DRAINING, NONE, OFF
from .series import E2E_BOUNDS_S, E2E_HIST, PROMPT_BOUNDS, PROMPT_HIST, TTFT_BOUNDS_S, TTFT_HIST

COOL_S, WARM_S, HOT_S = HEAT_BOUNDS_S


@inlined_kernel
def release(env, pool, i):
    """Gives a request's slot back; it is no longer outstanding."""
    if pool[i].retries > 0 and pool[i].first < 0.0:
        env.retrying -= 1
    env.outstanding -= 1
    pool[i].next = env.free
    env.free = i


@inlined_kernel
def leave(env, rep, t):
    """A request leaves its replica; a draining replica is gone with its last one."""
    rep.outstanding -= 1
    if rep.state == DRAINING and rep.outstanding == 0:
        rep.state = OFF
        env.billed_s += t - rep.billed_from


@inlined_kernel
def note_failure(env, rep, p_consecutive):
    """Counts one failed answer of a replica."""
    rep.answers += 1
    rep.failures += 1
    rep.interval_answers += 1
    rep.interval_failures += 1
    rep.consecutive_failures += 1
    if rep.consecutive_failures == p_consecutive:
        env.suspect = 1


@kernel
def come_back(env, row, tries, copied, t, out):
    """The client of a failed request tries again after its delay, unless it has tried enough.

    The ring is kept in order of time: replicas are not brought up in step, so an end may be noted
    after a later one. Without room the client gives up.
    """
    ring = out.comebacks
    if tries >= env.client_retries or env.comeback_tail - env.comeback_head >= ring.shape[0]:
        return
    due = t + env.client_retry_delay_s
    k = env.comeback_tail
    while k > env.comeback_head and ring[(k - 1) % ring.shape[0]].due > due:
        before, here = ring[(k - 1) % ring.shape[0]], ring[k % ring.shape[0]]
        here.due = before.due
        here.row = before.row
        here.tries = before.tries
        here.copied = before.copied
        k -= 1
    place = ring[k % ring.shape[0]]
    place.due = due
    place.row = row
    place.tries = tries + 1
    place.copied = copied
    env.comeback_tail += 1
    env.next_comeback = ring[env.comeback_head % ring.shape[0]].due


@inlined_kernel
def write_outcome(request, status, t, out):
    """Notes one request's result where results are kept (`simulate`), in the order of the input."""
    if out.outcomes.shape[0] > 0 and request.copied == 0:
        outcome = out.outcomes[request.row]
        outcome.status = status
        outcome.replica = request.replica
        outcome.restarts = request.restarts
        outcome.e2e_s = t - request.arrival
        if request.first >= 0.0:
            outcome.ttft_s = request.first - request.arrival
        else:
            forget_latency(outcome)


@inlined_kernel
def forget_latency(outcome):
    """No first token came of this try."""
    outcome.ttft_s = np.nan
    outcome.queue_s = np.nan
    outcome.prefill_s = np.nan
    outcome.cold_start_s = np.nan
    outcome.retry_s = np.nan


@inlined_kernel
def write_parts(request, ttft, parts):
    """What a time to first token consists of: the four add up to it."""
    lazy = request.cold_s - request.held_s
    parts.cold_start_s = request.cold_s
    parts.retry_s = request.dispatched_s - request.held_s
    parts.queue_s = request.admitted_s - request.dispatched_s - lazy
    parts.prefill_s = ttft - request.admitted_s


@inlined_kernel
def first_token(env, rep, request, t, samples, out):
    """The first output token: the headers are out, so gateway and breaker count a success."""
    request.first = t
    if request.retries > 0:
        env.retrying -= 1  # Envoy counts a retry until its headers come (`retry_state_impl.cc`)
    env.first_tokens += 1
    env.prompt_tokens += request.prompt
    rep.prompt_tokens += request.prompt
    env.prefix_hit_tokens += request.prompt - request.prefill
    rep.answers += 1
    rep.interval_answers += 1
    rep.consecutive_failures = 0
    ttft = t - request.arrival
    if samples.shape[0] > 0:
        place = bucket(TTFT_BOUNDS_S, ttft)
        env.histograms[TTFT_HIST, place] += 1
        rep.ttft_counts[place] += 1
        sample = samples[env.samples]
        sample.at = t
        sample.ttft_s = ttft
        write_parts(request, ttft, sample)
        env.samples += 1
        if ttft < COOL_S:
            env.cool += 1
        elif ttft < WARM_S:
            env.warm += 1
        elif ttft < HOT_S:
            env.hot += 1
        else:
            env.burning += 1
    if out.outcomes.shape[0] > 0 and request.copied == 0:
        write_parts(request, ttft, out.outcomes[request.row])
    if out.served.shape[0] > 0:
        out.served[request.row] = holder(request.replica, rep.incarnation)


@inlined_kernel
def holder(r, incarnation):
    """One number for one life of the replica at place r, never 0."""
    return (np.int64(incarnation) << 16) + r + 1


@inlined_kernel
def complete(env, rep, pool, i, t, samples, out):
    """The last output token."""
    request = pool[i]
    env.ok += 1
    rep.held -= 1
    write_outcome(request, OK, t, out)
    if samples.shape[0] > 0:
        env.histograms[E2E_HIST, bucket(E2E_BOUNDS_S, t - request.arrival)] += 1
        env.histograms[PROMPT_HIST, bucket(PROMPT_BOUNDS, request.prompt0)] += 1
    release(env, pool, i)
    leave(env, rep, t)


@kernel
def give_up(env, pool, i, t, out):
    """A deadline has passed by t: 504 for the client.

    Replicas are not brought up in step, so t may lie behind what has happened elsewhere, by half a
    client's delay at most: no client comes back before that.
    """
    request = pool[i]
    env.timeout += 1
    if request.first < 0.0:
        env.lost += 1
        env.lost_s += request.deadline - request.arrival
    write_outcome(request, TIMEOUT, request.deadline, out)
    if env.client_retries > 0:
        noted = max(request.deadline, t - 0.5 * env.client_retry_delay_s)
        come_back(env, request.row, request.client_tries, request.copied, noted, out)
    release(env, pool, i)


@kernel
def expire(env, rep, pool, i, t, out):
    """Replica `rep` drops a request at t, for its deadline has passed.

    Without a first token it is the replica's failure too.
    """
    if pool[i].first < 0.0:
        note_failure(env, rep, env.consecutive_5xx)
    give_up(env, pool, i, t, out)
    leave(env, rep, t)


@kernel
def fail(env, pool, i, t, out):
    """A failure that is not retried reaches the client."""
    request = pool[i]
    env.error += 1
    write_outcome(request, ERROR, t, out)
    if env.client_retries > 0:
        come_back(env, request.row, request.client_tries, request.copied, t, out)
    release(env, pool, i)


@kernel
def refuse(env, pool, i, t, out):
    """Turned away with 429 by the replica it was sent to, or for want of room."""
    request = pool[i]
    env.shed += 1
    write_outcome(request, SHED, t, out)
    if env.client_retries > 0:
        come_back(env, request.row, request.client_tries, request.copied, t, out)
    release(env, pool, i)


@kernel
def shed(env, row, tries, copied, t, out):
    """Turned away at the gateway with 429, before it got a slot."""
    env.shed += 1
    if out.outcomes.shape[0] > 0 and copied == 0:
        outcome = out.outcomes[row]
        outcome.status = SHED
        outcome.replica = NONE
        outcome.restarts = 0
        outcome.e2e_s = 0.0
        forget_latency(outcome)
    if env.client_retries > 0:
        come_back(env, row, tries, copied, t, out)
