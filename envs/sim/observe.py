"""What scrapes show of the cluster, and what is really so.

Counters and histograms are cumulative and sampled every scrape interval; shares, rates and
quantiles are taken over the window between the oldest and the newest sample that are kept. Two rows
come out: `seen`, what Prometheus would answer, and `truth`, the plant's own, whose P95 is exact and
counts those who still wait for a first token and are already late.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .kernel import kernel
from .kv_cache import blocks_in_use
from .params import UNLIMITED_BLOCKS
from .quantile import histogram_quantile, median, select
from .records import DRAINING, NONE, OFF, READY, STARTING
from .scrape import steps_done
from .series import (
    E2E_BOUNDS_S,
    E2E_HIST,
    HIST_WIDTH,
    PROMPT_BOUNDS,
    PROMPT_HIST,
    REP_ANSWERS,
    REP_FAILURES,
    REP_INCARNATION,
    REP_ITERATIONS,
    REP_OUTPUT_TOKENS,
    REP_PROMPT_TOKENS,
    REP_TOKENS,
    SCRAPE_ARRIVED,
    SCRAPE_FAILED,
    SCRAPE_FIRST,
    SCRAPE_HIST,
    SCRAPE_TIME,
    TTFT_BOUNDS_S,
    TTFT_HIST,
)
from .state import STALE_SAMPLES

(
    CPU,
    TTFT_P95,
    ERROR_RATE,
    REQUESTED,
    READY_COUNT,
    STARTING_COUNT,
    DRAINING_COUNT,
    VRAM,
    THRESHOLD,
    EJECTED,
    ERROR_SPREAD,
    REQUEST_RATE,
    PROMPT_TOKEN_RATE,
    OUTPUT_TOKEN_RATE,
    PROMPT_P50,
    PROMPT_P95,
    RUNNING,
    WAITING,
    KV_USAGE,
    E2E_P95,
    SAMPLES,
    TIME_OF_DAY,
) = range(22)
"""Columns of a row; a test holds them equal to the order of `schema.fields.FIELDS`."""

_FLOOR: Final = 0.8
"""How far a P95 may fall from one tick to the next without all samples being looked at."""


@kernel
def window_quantile(plant, newest, oldest, hist, q, bounds, minimum):
    """A quantile of what came between two scrapes."""
    low = SCRAPE_HIST + hist * HIST_WIDTH
    counts = plant.values
    for b in range(bounds.shape[0] + 1):
        counts[b] = plant.scrapes[newest, low + b] - plant.scrapes[oldest, low + b]
    return histogram_quantile(q, bounds, counts, minimum)


@kernel
def observe(plant, seen, truth):
    """Fills both rows at a scrape instant."""
    p, env = plant.params, plant.env
    ring = plant.scrapes.shape[0]
    newest = (env.scrapes - 1) % ring
    oldest = env.scrapes % ring if env.scrapes >= ring else 0
    new, old = plant.scrapes[newest], plant.scrapes[oldest]
    elapsed = new[SCRAPE_TIME] - old[SCRAPE_TIME]
    seen[:] = np.nan
    seen[REQUESTED] = env.requested
    seen[THRESHOLD] = env.threshold_percent / 100.0
    seen[EJECTED] = env.ejected
    answers = 0.0
    failed = 0.0
    if elapsed > 0.0:
        first = new[SCRAPE_FIRST] - old[SCRAPE_FIRST]
        failed = new[SCRAPE_FAILED] - old[SCRAPE_FAILED]
        answers = first + failed
        seen[REQUEST_RATE] = (new[SCRAPE_ARRIVED] - old[SCRAPE_ARRIVED]) / elapsed
        seen[SAMPLES] = first
        minimum = p.minimum_samples
        seen[TTFT_P95] = window_quantile(
            plant, newest, oldest, TTFT_HIST, 0.95, TTFT_BOUNDS_S, minimum
        )
        seen[E2E_P95] = window_quantile(
            plant, newest, oldest, E2E_HIST, 0.95, E2E_BOUNDS_S, minimum
        )
        seen[PROMPT_P50] = window_quantile(
            plant, newest, oldest, PROMPT_HIST, 0.5, PROMPT_BOUNDS, minimum
        )
        seen[PROMPT_P95] = window_quantile(
            plant, newest, oldest, PROMPT_HIST, 0.95, PROMPT_BOUNDS, minimum
        )
        if answers >= minimum:
            seen[ERROR_RATE] = failed / answers
    observe_replicas(plant, seen, newest, oldest)
    for column in range(seen.shape[0]):
        truth[column] = seen[column]
    truth[TTFT_P95] = exact_ttft_p95(plant, new[SCRAPE_TIME])
    truth[ERROR_RATE] = failed / answers if answers > 0.0 else np.nan


@kernel
def observe_replicas(plant, seen, newest, oldest):
    """The part of a row that is a sum or a mean over replicas."""
    p, env, replicas = plant.params, plant.env, plant.replicas
    t = plant.scrapes[newest, SCRAPE_TIME]
    window_start = plant.scrapes[oldest, SCRAPE_TIME]
    elapsed = t - window_start
    ready = starting = draining = running = waiting = 0
    cpu = kv = prompt_tokens_per_s = output_tokens_per_s = 0.0
    shares = plant.values
    judged = 0
    for r in range(replicas.shape[0]):
        rep = replicas[r]
        if rep.state == OFF:
            continue
        if rep.state == STARTING:
            starting += 1
            continue
        running += rep.held
        waiting += rep.waiting
        new, old = plant.replica_scrapes[newest, r], plant.replica_scrapes[oldest, r]
        same = old[REP_INCARNATION] == rep.incarnation and newest != oldest
        iterations = new[REP_ITERATIONS] - (old[REP_ITERATIONS] if same else 0)
        tokens = new[REP_TOKENS] - (old[REP_TOKENS] if same else 0)
        prompt = new[REP_PROMPT_TOKENS] - (old[REP_PROMPT_TOKENS] if same else 0)
        output = new[REP_OUTPUT_TOKENS] - (old[REP_OUTPUT_TOKENS] if same else 0)
        answers = new[REP_ANSWERS] - (old[REP_ANSWERS] if same else 0)
        failures = new[REP_FAILURES] - (old[REP_FAILURES] if same else 0)
        if elapsed > 0.0:
            prompt_tokens_per_s += prompt / elapsed
            output_tokens_per_s += output / elapsed
        if rep.state == DRAINING:
            draining += 1
            continue
        ready += 1
        since = max(window_start, rep.started_at)
        if t > since:
            starting_s = max(0.0, min(rep.ready_at, t) - since)
            busy = p.cpu_startup * starting_s + p.cpu_idle * (t - since - starting_s)
            busy += p.cpu_per_iteration_s * iterations + p.cpu_per_token_s * tokens
            cpu += min(busy / (t - since), 1.0)
        count = rep.count + (steps_done(rep, env.now) if plant.next_event[r] < np.inf else 0)
        kv += blocks_in_use(p, rep, r, plant.keys, plant.pool, count) / p.kv_blocks
        if answers >= p.request_volume:
            shares[judged] = failures / answers
            judged += 1
    seen[READY_COUNT] = ready
    seen[STARTING_COUNT] = starting
    seen[DRAINING_COUNT] = draining
    seen[RUNNING] = running
    seen[WAITING] = waiting
    if elapsed > 0.0:
        seen[PROMPT_TOKEN_RATE] = prompt_tokens_per_s
        seen[OUTPUT_TOKEN_RATE] = output_tokens_per_s
    if ready > 0:
        kv_usage = min(kv / ready, 1.0)
        seen[CPU] = cpu / ready
        seen[KV_USAGE] = kv_usage if p.kv_blocks < UNLIMITED_BLOCKS else np.nan
        seen[VRAM] = min((p.weights_gib + kv_usage * p.kv_gib) / p.vram_gib, 1.0)
    if judged > 0:
        seen[ERROR_SPREAD] = select(shares, judged, judged - 1) - median(shares, judged)


@kernel
def _late_waiters(plant, i, now, values, n):
    """Adds the ages of those of a list that have no first token and are late already."""
    pool = plant.pool
    while i != NONE:
        age = now - pool[i].arrival
        if pool[i].first < 0.0 and age > plant.params.late_after_s:
            values[n] = age
            n += 1
        i = pool[i].next
    return n


@kernel
def exact_ttft_p95(plant, now):
    """Nearest-rank P95 of the window's first tokens and of the late ones who wait; NaN without any.

    Nearest rank makes "P95 > limit" the same as "more than 5 % are over the limit". Samples that
    have left the window are dropped from the state.
    """
    env, samples, values = plant.env, plant.samples, plant.values
    since = now - plant.params.window_s
    while env.samples_from < env.samples and samples[env.samples_from].at <= since:
        env.samples_from += 1
    if env.samples_from > STALE_SAMPLES:
        kept = 0
        for k in range(env.samples_from, env.samples):
            samples[kept].at = samples[k].at
            samples[kept].ttft_s = samples[k].ttft_s
            kept += 1
        env.samples = kept
        env.samples_from = 0
    env.fresh_from = env.samples
    # Only the slowest are looked at: those from somewhat below the last P95 on. Without jumps, for
    # which sample is slow cannot be predicted.
    floor = env.ttft_floor_s
    n = 0
    below = 0
    for k in range(env.samples_from, env.samples):
        in_window = samples[k].at > since  # they stand almost in order of time
        values[n] = samples[k].ttft_s
        slow = samples[k].ttft_s >= floor
        n += in_window & slow
        below += in_window & (not slow)
    for r in range(plant.replicas.shape[0]):
        rep = plant.replicas[r]
        if rep.state == READY or rep.state == DRAINING:
            n = _late_waiters(plant, rep.wait_head, now, values, n)
            n = _late_waiters(plant, rep.batch, now, values, n)
            if rep.partial != NONE:
                i = rep.partial
                age = now - plant.pool[i].arrival
                if plant.pool[i].first < 0.0 and age > plant.params.late_after_s:
                    values[n] = age
                    n += 1
    i = env.pending_head
    for _ in range(env.pending):
        age = now - plant.pool[i].arrival
        if age > plant.params.late_after_s:
            values[n] = age
            n += 1
        i = plant.pool[i].next
    for k in range(env.retry_head, env.retry_tail):  # their next try is still to come
        age = now - plant.pool[plant.retries[k % plant.pool.shape[0]]].arrival
        if age > plant.params.late_after_s:
            values[n] = age
            n += 1
    if n + below == 0:
        env.ttft_floor_s = 0.0
        return np.nan
    rank = int(np.ceil(0.95 * (n + below))) - 1
    if rank < below:  # latency has fallen by more than that: all are looked at
        env.ttft_floor_s = 0.0
        return exact_ttft_p95(plant, now)
    p95 = select(values, n, rank - below)
    env.ttft_floor_s = _FLOOR * p95
    return p95
