"""The policy's row where metric faults are near: what Prometheus answers from what it has stored.

The window is the one of `observe`, ends included. What is asked is what the bridge's catalogue asks
(`deploy_bridge/metrics/queries.py`): gauges at the newest scrape, increases of the counters over
the window, those of single replicas only while the newest scrape was good.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from .kernel import kernel
from .metric_faults import METRICS_LATE
from .observe import (
    CPU,
    DRAINING_COUNT,
    E2E_P95,
    EJECTED,
    ERROR_RATE,
    ERROR_SPREAD,
    KV_USAGE,
    OUTPUT_TOKEN_RATE,
    PROMPT_P50,
    PROMPT_P95,
    PROMPT_TOKEN_RATE,
    READY_COUNT,
    REQUEST_RATE,
    REQUESTED,
    RUNNING,
    SAMPLES,
    STARTING_COUNT,
    THRESHOLD,
    TTFT_P95,
    VRAM,
    WAITING,
)
from .params import UNLIMITED_BLOCKS
from .quantile import histogram_quantile, median, select
from .records import DRAINING, READY
from .series import (
    E2E_BOUNDS_S,
    E2E_HIST,
    HIST_WIDTH,
    PROMPT_BOUNDS,
    PROMPT_HIST,
    SCRAPE_ARRIVED,
    SCRAPE_FAILED,
    SCRAPE_FIRST,
    SCRAPE_HIST,
    SCRAPE_TIME,
    TTFT_BOUNDS_S,
    TTFT_HIST,
)

LOOKBACK_S: Final = 300.0
"""How long a gauge's last sample is believed: Prometheus' `--query.lookback-delta`."""
_NEAR_A_BOUNDARY: Final = 1.1
"""Mean sample intervals up to which an increase is carried on to the window's boundary; else half
an interval (`extrapolatedRate` in `promql/functions.go`, as of Prometheus 2.52)."""


class Store(NamedTuple):
    """One gateway's part of the state, as far as it is needed here."""

    params: Any
    env: Any
    taken: Any
    """The scrapes as they were made: `EngineState.scrapes`."""
    values: Any
    faults: Any
    scrapes: Any
    counters: Any
    replicas: Any


class Span(NamedTuple):
    """The samples in the window and how far they reach towards its boundaries."""

    first: Any
    """Number of the first good scrape."""
    n: Any
    """Scrapes from there to the last good one; those that failed repeat the one before."""
    covered_s: Any
    """Time between these two."""
    ahead_s: Any
    """Time before the first that is counted in."""
    behind_s: Any
    """Time after the last that is counted in."""


@kernel
def increase(values, low, span):
    """Prometheus' `increase` of one counter whose values stand in `values` from `low` on.

    A value below the one before means that the counter began anew at 0. The result is carried on
    towards the window's boundaries, at its start not past the counter's own zero.
    """
    first = values[low]
    last = first
    gain = 0.0
    for k in range(low + 1, low + span.n):
        value = values[k]
        gain += value - last if value >= last else value
        last = value
    ahead_s = span.ahead_s
    if gain > 0.0:
        ahead_s = min(ahead_s, span.covered_s * (first / gain))
    return gain * ((span.covered_s + ahead_s + span.behind_s) / span.covered_s)


@kernel
def gateway_increase(store, column, span):
    """The increase of one of the gateway's counters."""
    ring = store.counters.shape[0] - 1
    for k in range(span.n):
        store.values[k] = store.counters[(span.first + k) % ring, column]
    return increase(store.values, 0, span)


@kernel
def stored_quantile(store, hist, q, bounds, span):
    """`histogram_quantile` over the increases of the buckets; NaN below the minimum of samples.

    Every bucket is a counter of its own and holds all below it. Where single increases contradict
    that, the larger one below counts (`ensureMonotonic` in `promql/quantile.go`).
    """
    ring = store.counters.shape[0] - 1
    values = store.values  # the counts a bucket, then the counter under way
    low = HIST_WIDTH
    for k in range(span.n):
        values[low + k] = 0.0
    highest = 0.0
    total = 0.0
    for b in range(bounds.shape[0] + 1):
        column = SCRAPE_HIST + hist * HIST_WIDTH + b
        for k in range(span.n):
            values[low + k] += store.counters[(span.first + k) % ring, column]
        total = increase(values, low, span)
        values[b] = max(total - highest, 0.0)
        highest = max(total, highest)
    if total < store.params.minimum_samples:
        return np.nan
    return histogram_quantile(q, bounds, values, 0)


@kernel
def is_hidden(store, scraped_s, now):
    """Whether a late fault still holds back a scrape's samples.

    What could be asked for at the onset stays; what waits when the fault ends comes then.
    """
    for k in range(store.faults.shape[0]):
        fault = store.faults[k]
        late = fault.kind == METRICS_LATE and fault.start <= now < fault.end
        if late and scraped_s >= fault.start and scraped_s > now - fault.delay:
            return True
    return False


@kernel
def observe_stored(store, seen):
    """Writes the row anew where a metric fault reaches into its window; else leaves it as it is."""
    env = store.env
    ring, remembered = store.taken.shape[0], store.scrapes.shape[0]
    newest = env.scrapes - 1
    oldest = max(0, env.scrapes - ring)
    now = store.taken[newest % ring, SCRAPE_TIME]
    window_start = store.taken[oldest % ring, SCRAPE_TIME]
    late = False
    for k in range(store.faults.shape[0]):
        fault = store.faults[k]
        late = late or (fault.kind == METRICS_LATE and fault.start <= now < fault.end)
    if not late and env.metrics_touched < window_start:
        return
    for column in range(seen.shape[0]):
        if column != REQUESTED and column != THRESHOLD:
            seen[column] = np.nan
    forgotten = max(-1, newest - remembered)
    while newest > forgotten and is_hidden(store, store.scrapes[newest % remembered].time, now):
        newest -= 1
    if newest == forgotten:
        return
    scrape = store.scrapes[newest % remembered]
    has_gauges = scrape.good == 1 and now - scrape.time <= LOOKBACK_S
    if has_gauges:
        show_gauges(store.params, scrape, seen)
    good = 0
    first = last = newest
    for number in range(newest, oldest - 1, -1):
        if store.scrapes[number % remembered].good == 1:
            last = number if good == 0 else last
            first = number
            good += 1
    if good < 2:
        return
    start, end = store.scrapes[first % remembered].time, store.scrapes[last % remembered].time
    mean_s = (end - start) / (good - 1)
    ahead_s, behind_s = start - window_start, now - end
    if ahead_s >= _NEAR_A_BOUNDARY * mean_s:
        ahead_s = 0.5 * mean_s
    if behind_s >= _NEAR_A_BOUNDARY * mean_s:
        behind_s = 0.5 * mean_s
    span = Span(first, last - first + 1, end - start, ahead_s, behind_s)
    show_gateway(store, seen, span, now - window_start)
    if has_gauges:
        show_replicas(store, seen, newest, span, window_start, now)


@kernel
def show_gauges(p, scrape, seen):
    """What one scrape says of itself."""
    seen[READY_COUNT] = scrape.ready
    seen[STARTING_COUNT] = scrape.starting
    seen[DRAINING_COUNT] = scrape.draining
    seen[EJECTED] = scrape.ejected
    seen[RUNNING] = scrape.running
    seen[WAITING] = scrape.waiting
    if p.kv_blocks < UNLIMITED_BLOCKS:
        seen[KV_USAGE] = scrape.kv_usage
    if scrape.kv_usage == scrape.kv_usage:
        seen[VRAM] = min((p.weights_gib + scrape.kv_usage * p.kv_gib) / p.vram_gib, 1.0)


@kernel
def show_gateway(store, seen, span, window_s):
    """What the gateway's own counters say of the window."""
    answered = gateway_increase(store, SCRAPE_FIRST, span)
    failed = gateway_increase(store, SCRAPE_FAILED, span)
    seen[REQUEST_RATE] = gateway_increase(store, SCRAPE_ARRIVED, span) / window_s
    seen[SAMPLES] = answered
    if answered + failed >= max(store.params.minimum_samples, 1):
        seen[ERROR_RATE] = failed / (answered + failed)
    seen[TTFT_P95] = stored_quantile(store, TTFT_HIST, 0.95, TTFT_BOUNDS_S, span)
    seen[E2E_P95] = stored_quantile(store, E2E_HIST, 0.95, E2E_BOUNDS_S, span)
    seen[PROMPT_P50] = stored_quantile(store, PROMPT_HIST, 0.5, PROMPT_BOUNDS, span)
    seen[PROMPT_P95] = stored_quantile(store, PROMPT_HIST, 0.95, PROMPT_BOUNDS, span)


@kernel
def show_replicas(store, seen, newest, span, window_start, now):
    """Sums and means over the replicas that the newest scrape shows.

    A replica that was not there at a scrape had 0 on its counters then, as in `observe`.
    """
    ring, replicas = store.replicas.shape[0] - 1, store.replicas.shape[1]
    values = store.values  # shares of the judged replicas, then five counters
    successes = replicas
    failures, cpu = successes + span.n, successes + 2 * span.n
    prompt, output = successes + 3 * span.n, successes + 4 * span.n
    ready = judged = 0
    prompt_gained = output_gained = cpu_share = 0.0
    for r in range(replicas):
        shown = store.replicas[newest % ring, r]
        if shown.state != READY and shown.state != DRAINING:
            continue
        for k in range(span.n):
            series = store.replicas[(span.first + k) % ring, r]
            there = series.incarnation == shown.incarnation
            values[successes + k] = series.answers - series.failures if there else 0.0
            values[failures + k] = series.failures if there else 0.0
            values[cpu + k] = series.cpu_s if there else 0.0
            values[prompt + k] = series.prompt_tokens if there else 0.0
            values[output + k] = series.output_tokens if there else 0.0
        prompt_gained += increase(values, prompt, span)
        output_gained += increase(values, output, span)
        if shown.state == DRAINING:
            continue
        ready += 1
        alive_s = now - max(window_start, shown.started_at)
        if alive_s > 0.0:
            cpu_share += min(increase(values, cpu, span) / alive_s, 1.0)
        failed = increase(values, failures, span)
        answered = failed + increase(values, successes, span)
        if answered >= store.params.request_volume:
            values[judged] = failed / answered
            judged += 1
    seen[PROMPT_TOKEN_RATE] = prompt_gained / (now - window_start)
    seen[OUTPUT_TOKEN_RATE] = output_gained / (now - window_start)
    if ready > 0:
        seen[CPU] = cpu_share / ready
    if judged > 0:
        seen[ERROR_SPREAD] = select(values, judged, judged - 1) - median(values, judged)
