"""What happens to a request in the end, counted in one place."""

from __future__ import annotations

import numpy as np

from .kernel import inlined_kernel, kernel
from .quantile import bucket
from .state import (
    DRAINING,
    E2E_BOUNDS_S,
    E2E_HIST,
    ERROR,
    NONE,
    OFF,
    OK,
    PROMPT_BOUNDS,
    PROMPT_HIST,
    SHED,
    TIMEOUT,
    TTFT_BOUNDS_S,
    TTFT_HIST,
)


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
def write_outcome(request, status, t, out):
    """Notes one request's result where results are kept (`simulate`), in the order of the input."""
    if out.status.shape[0] > 0:
        row = request.row
        out.status[row] = status
        out.replica[row] = request.replica
        out.restarts[row] = request.restarts
        out.e2e_s[row] = t - request.arrival
        out.ttft_s[row] = request.first - request.arrival if request.first >= 0.0 else np.nan


@inlined_kernel
def first_token(env, rep, request, t, histograms, samples):
    """The first output token: the headers are out, so gateway and breaker count a success."""
    request.first = t
    if request.retries > 0:
        env.retrying -= 1  # Envoy counts a retry until its headers come (`retry_state_impl.cc`)
    env.first_tokens += 1
    rep.answers += 1
    rep.interval_answers += 1
    if samples.shape[0] > 0:
        ttft = t - request.arrival
        histograms[TTFT_HIST, bucket(TTFT_BOUNDS_S, ttft)] += 1
        samples[env.samples, 0] = t
        samples[env.samples, 1] = ttft
        env.samples += 1


@inlined_kernel
def complete(env, rep, pool, i, t, histograms, samples, out):
    """The last output token."""
    request = pool[i]
    env.ok += 1
    rep.held -= 1
    write_outcome(request, OK, t, out)
    if samples.shape[0] > 0:
        histograms[E2E_HIST, bucket(E2E_BOUNDS_S, t - request.arrival)] += 1
        histograms[PROMPT_HIST, bucket(PROMPT_BOUNDS, request.prompt0)] += 1
    release(env, pool, i)
    leave(env, rep, t)


@kernel
def give_up(env, pool, i, out):
    """A deadline has passed: 504 for the client."""
    env.timeout += 1
    write_outcome(pool[i], TIMEOUT, pool[i].deadline, out)
    release(env, pool, i)


@kernel
def expire(env, rep, pool, i, t, out):
    """Replica `rep` drops a request at t, for its deadline has passed.

    Without a first token it is the replica's failure too.
    """
    if pool[i].first < 0.0:
        rep.answers += 1
        rep.failures += 1
        rep.interval_answers += 1
        rep.interval_failures += 1
    give_up(env, pool, i, out)
    leave(env, rep, t)


@kernel
def fail(env, pool, i, t, out):
    """A failure that is not retried reaches the client."""
    env.error += 1
    write_outcome(pool[i], ERROR, t, out)
    release(env, pool, i)


@kernel
def shed(env, row, arrival, t, out):
    """Turned away at the gateway with 429, before it got a slot."""
    env.shed += 1
    if out.status.shape[0] > 0:
        out.status[row] = SHED
        out.replica[row] = NONE
        out.restarts[row] = 0
        out.e2e_s[row] = t - arrival
        out.ttft_s[row] = np.nan
