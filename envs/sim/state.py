"""All that changes while a gateway runs, as packed records: what the kernels read and write."""

from __future__ import annotations

import math
import mmap
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

OFF, STARTING, READY, DRAINING = range(4)
"""A replica's life: off -> starting -> ready -> draining -> off."""

PENDING, OK, ERROR, TIMEOUT, SHED = range(5)
"""A request's status; `PENDING` is still in flight."""

NONE: Final = -1
"""No request, end of a list."""
KEY_SHIFT: Final = 24
"""A running sequence's key is `finish_count << KEY_SHIFT | request`: sorts by completion."""
KEY_MASK: Final = (1 << KEY_SHIFT) - 1
MAX_POOL: Final = 1 << KEY_SHIFT
"""Most requests in flight that a key can name."""

REQUEST = np.dtype(
    [
        ("arrival", np.float64),  # s, at the gateway
        ("deadline", np.float64),  # s, when the gateway gives up
        ("first", np.float64),  # s, first token; negative while there is none
        ("row", np.int64),  # row of the workload
        ("dispatched_s", np.float32),  # from arrival to the last dispatch to a replica
        ("admitted_s", np.float32),  # from arrival to the last admission into a batch
        ("cold_s", np.float32),  # waited for a cold start, at the gateway or at its replica
        ("held_s", np.float32),  # of that at the gateway
        ("prompt", np.int32),  # tokens of the prompt, grown by an eviction
        ("prefill", np.int32),  # of these to be computed: all but a cached prefix
        ("output", np.int32),  # tokens to emit after that prefill
        ("blocks", np.int32),  # KV blocks of that prompt
        ("prompt0", np.int32),  # prompt tokens as offered
        ("next", np.int32),  # next request of the list it is in
        ("replica", np.int32),  # where it is or was last
        ("retries", np.int16),
        ("restarts", np.int16),  # evictions
        ("client_tries", np.int16),  # the client's own tries before this one
        ("copied", np.int16),  # 1: a surge laid it over the workload, so its row has another result
    ],
    align=True,
)

REPLICA = np.dtype(
    [
        # the segment under way: `steps` iterations from `t0`, lasting d, d + q, d + 2q, ...
        ("t0", np.float64),
        ("first_step_s", np.float64),
        ("step_growth_s", np.float64),
        ("steps", np.int64),
        ("chunk_step", np.int64),  # prefill tokens a step of the half-prefilled request
        ("batch_tokens", np.int64),  # prefill tokens of the requests that finish prefilling
        ("count", np.int64),  # iterations done since the replica started
        ("context", np.int64),  # constant part of the decoding context: S = context + B * count
        ("decoding", np.int64),  # B
        ("held", np.int64),  # slots taken: decoding and prefilling
        ("prefill_blocks", np.int64),  # KV blocks of prompts not yet decoding
        ("partial_left", np.int64),
        ("min_deadline", np.float64),  # lower bound over its requests
        ("partial", np.int32),  # half-prefilled request
        ("batch", np.int32),  # list of requests that finish prefilling in this step
        ("wait_head", np.int32),
        ("wait_tail", np.int32),
        ("waiting", np.int32),
        ("outstanding", np.int32),
        # life
        ("state", np.int32),
        ("ejected", np.int32),
        ("ejections", np.int32),  # Envoy's back-off multiplier
        ("incarnation", np.int32),
        ("ready_at", np.float64),
        ("started_at", np.float64),
        ("drain_deadline", np.float64),
        ("changed_at", np.float64),  # when it was ejected, or came back
        ("ejection_jitter_s", np.float64),
        ("billed_from", np.float64),
        ("loaded_at", np.float64),  # lazy start: its weights are there; infinite until it is asked
        # faults
        ("error_share", np.float64),
        ("slow", np.float64),  # factor on the iteration time, in force
        ("fault_slow", np.float64),  # the same as the faults have it
        ("paused_until", np.float64),  # no iteration begins before
        # token bucket
        ("bucket", np.float64),
        ("bucket_at", np.float64),
        # dynamic weights
        ("weight", np.float64),
        ("weighed_p95_s", np.float64),
        ("weighed_count", np.int64),  # iterations and tokens at the last sample
        ("weighed_tokens", np.int64),
        # counters since the start
        ("tokens", np.int64),
        ("answers", np.int64),
        ("failures", np.int64),
        ("interval_answers", np.int64),  # of the breaker's current interval
        ("interval_failures", np.int64),
        ("consecutive_failures", np.int64),
    ],
    align=True,
)

CURSOR = np.dtype(
    [
        # a reader of the workload: its row arrives at arrival_s[row] + time_shift
        ("next", np.float64),
        ("row", np.int64),
        ("time_shift", np.float64),
        ("share", np.float64),  # of the rows that are taken
        ("fault", np.int64),  # the surge it belongs to; NONE: the workload itself
    ],
    align=True,
)

COMEBACK = np.dtype(
    [
        # a client that tries again
        ("due", np.float64),
        ("row", np.int64),
        ("tries", np.int32),
        ("copied", np.int32),
    ],
    align=True,
)

ENV = np.dtype(
    [
        ("rng", np.uint64),
        ("now", np.float64),
        ("next_arrival", np.float64),
        ("next_retry", np.float64),
        ("next_breaker", np.float64),
        ("next_scrape", np.float64),
        ("next_life", np.float64),
        ("next_fault", np.float64),
        ("next_weights", np.float64),
        ("next_limits", np.float64),
        ("next_comeback", np.float64),
        ("next_sync", np.float64),
        # the part of the workload that is read, again every span
        ("cursor", np.int64),  # whose row is next
        ("row_low", np.int64),
        ("row_high", np.int64),
        ("span", np.float64),  # 0: no wrapping, the workload ends
        # gateway
        ("active", np.int64),  # replicas that may be routed to
        ("turn", np.int64),  # round robin
        ("outstanding", np.int64),
        ("retrying", np.int64),
        ("max_outstanding", np.int64),
        ("requested", np.int64),
        ("threshold_percent", np.int64),
        ("ejected", np.int64),
        ("free", np.int64),  # head of the list of free request slots
        ("used", np.int64),  # request slots ever used
        ("retry_head", np.int64),
        ("retry_tail", np.int64),
        ("comeback_head", np.int64),
        ("comeback_tail", np.int64),
        ("client_retries", np.int64),
        ("client_retry_delay_s", np.float64),
        ("deadlines_vary", np.int64),  # 1: they do not come in the order of arrivals
        ("pending", np.int64),  # held while no replica is ready: a list
        ("pending_head", np.int64),
        ("pending_tail", np.int64),
        ("outage_share", np.float64),  # errors at all replicas
        ("starts_blocked_until", np.float64),
        ("consecutive_5xx", np.int64),
        ("suspect", np.int64),  # 1: a replica may have failed too often in a row
        ("bucket", np.float64),
        ("bucket_at", np.float64),
        ("bucket_rps", np.float64),  # infinite: no limit at present
        ("judged_failed", np.int64),  # of the limiter's last look
        ("judged_answers", np.int64),
        # counters
        ("arrived", np.int64),
        ("first_tokens", np.int64),
        ("ok", np.int64),
        ("error", np.int64),
        ("timeout", np.int64),
        ("shed", np.int64),
        ("billed_s", np.float64),
        ("prompt_tokens", np.int64),  # of prompts whose prefill has ended
        ("prefix_hit_tokens", np.int64),  # of these not computed
        ("cool", np.int64),  # first tokens by heat class, see `HEAT_BOUNDS_S`
        ("warm", np.int64),
        ("hot", np.int64),
        ("burning", np.int64),
        ("lost", np.int64),  # of this tick: timed out without a first token
        ("lost_s", np.float64),  # what these waited, together
        ("scrapes", np.int64),
        ("samples", np.int64),
        ("samples_from", np.int64),  # those before it have left the window
        ("fresh_from", np.int64),  # first sample of this tick
        ("metrics_touched", np.float64),  # s, the last scrape that a metric fault has changed
    ],
    align=True,
)

FAULT = np.dtype(
    [
        ("start", np.float64),
        ("end", np.float64),
        ("kind", np.int64),
        ("share", np.float64),
        ("factor", np.float64),
        ("period", np.float64),
        ("target", np.int64),
        ("incarnation", np.int64),
        ("on", np.int64),
    ],
    align=True,
)

METRIC_FAULT = np.dtype(
    [
        ("kind", np.int64),  # place in `metric_faults.METRIC_FAULT_KINDS`
        ("start", np.float64),
        ("end", np.float64),
        ("delay", np.float64),
    ],
    align=True,
)

REPLICA_SERIES = np.dtype(
    [
        ("incarnation", np.int64),  # 0: no such replica
        ("state", np.int64),
        ("started_at", np.float64),
        # counters
        ("answers", np.float64),
        ("failures", np.float64),
        ("tokens", np.float64),
        ("cpu_s", np.float64),
        # gauges
        ("running", np.float64),
        ("waiting", np.float64),
        ("kv_usage", np.float64),
    ],
    align=True,
)
"""One stored sample of each series of one replica."""

STORED_SCRAPE = np.dtype(
    [
        ("number", np.int64),  # which scrape it was; negative: none
        ("time", np.float64),
        ("good", np.int64),  # 0: it failed, so there is a stale marker instead of samples
        ("has_values", np.int64),  # 0: no scrape was good yet
        # gauges of the cluster, and sums and means over the gauges of its replicas
        ("ready", np.float64),
        ("starting", np.float64),
        ("draining", np.float64),
        ("ejected", np.float64),
        ("running", np.float64),
        ("waiting", np.float64),
        ("kv_usage", np.float64),
    ],
    align=True,
)
"""One scrape as Prometheus stored it, without the counters."""

TTFT_BOUNDS_S: Final = np.concatenate(
    [
        [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5],
        [10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0],
    ]
)
"""Bucket bounds of `vllm:time_to_first_token_seconds` (vLLM v1, `metrics/loggers.py`)."""
E2E_BOUNDS_S: Final = np.concatenate(
    [
        [0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0],
        [120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0],
    ]
)
"""Bucket bounds of `vllm:e2e_request_latency_seconds` (same file)."""
PROMPT_BOUNDS: Final = np.array(
    [1.0, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000]
)
"""Bucket bounds of `vllm:request_prompt_tokens`: 1, 2, 5 times powers of ten (same file)."""

TTFT_HIST, E2E_HIST, PROMPT_HIST = range(3)
HIST_WIDTH: Final = max(len(TTFT_BOUNDS_S), len(E2E_BOUNDS_S), len(PROMPT_BOUNDS)) + 1
"""Columns of the histograms: finite buckets and +Inf."""

SCRAPE_TIME, SCRAPE_ARRIVED, SCRAPE_FIRST, SCRAPE_FAILED, SCRAPE_HIST = range(5)
"""Columns of a scrape of the gateway; the three histograms follow from `SCRAPE_HIST` on."""
SCRAPE_WIDTH: Final = SCRAPE_HIST + 3 * HIST_WIDTH

REP_INCARNATION, REP_ANSWERS, REP_FAILURES, REP_ITERATIONS, REP_TOKENS = range(5)
"""Columns of a scrape of one replica."""
REPLICA_SCRAPE_WIDTH: Final = 5

STALE_SAMPLES: Final = 4096
"""First tokens that have left the window and are kept until it is worth moving the others."""

WEIGHT_WINDOW: Final = 5
"""Samples a dynamic weight is the mean of (source documents, A2)."""


HEAT_BOUNDS_S: Final = (0.1, 0.5, 2.0)
"""Bounds of the heat classes of a first token's latency: cool, warm, hot, burning (the source
documents' tracing: heat index 0-3 at 100, 500 and 2000 ms)."""

PARTS: Final = ("queue", "prefill", "cold_start", "retry", "timeout")
"""What a time to first token, or the wait for none, consists of: columns of an attribution."""
LATENCY_PARTS = np.dtype(
    [
        ("queue_s", np.float32),  # from the last dispatch to the batch that took it
        ("prefill_s", np.float32),  # from there to the first token
        ("cold_start_s", np.float32),  # for a replica to be ready, or to load
        ("retry_s", np.float32),  # tries that failed, and the pauses after them
    ],
    align=True,
)
OUTCOME = np.dtype(
    [
        ("status", np.int8),
        ("replica", np.int32),
        ("restarts", np.int16),
        ("ttft_s", np.float64),
        ("e2e_s", np.float64),
        *((name, LATENCY_PARTS[name]) for name in LATENCY_PARTS.names or ()),
    ],
    align=True,
)
"""The result of one request."""
Outcomes: TypeAlias = "np.recarray[Any, Any]"
"""Results of n requests, `(n,)` of `OUTCOME`, in the order of the workload; each field is an
attribute."""


def no_outcomes(n: int) -> Outcomes:
    """Results of n requests that are still pending."""
    outcomes = np.zeros(n, OUTCOME)
    outcomes["replica"] = NONE
    for name in ("ttft_s", "e2e_s", *(LATENCY_PARTS.names or ())):
        outcomes[name] = np.nan
    return outcomes.view(np.recarray)


class Sink(NamedTuple):
    """Where a request's end and its first token are noted; one gateway's part."""

    outcomes: Any
    comebacks: Any
    fresh_parts: Any
    replica_ttft: Any
    served: Any


class Plant(NamedTuple):
    """One gateway's part of the state, as the kernels pass it on."""

    params: Any
    env: Any
    replicas: Any
    next_event: Any
    keys: Any
    pool: Any
    active: Any
    retries: Any
    retry_due: Any
    cursors: Any
    faults: Any
    histograms: Any
    scrapes: Any
    replica_scrapes: Any
    samples: Any
    values: Any
    weights: Any
    prefix_hit_tokens: Any
    prefix_parent: Any
    metric_faults: Any
    stored_scrapes: Any
    stored_counters: Any
    stored_replicas: Any
    out: Any


class Workload(NamedTuple):
    """The offered requests, shared by all gateways: columns of equal length."""

    arrival_s: NDArray[np.float64]
    prompt_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    prefix_hit_tokens: NDArray[np.int32]
    """Prompt tokens that its `prefix_parent` has brought; empty where prefixes are not known."""
    prefix_parent: NDArray[np.int64]
    """Row of that earlier request, `NONE` without one."""


def _sparse(shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
    """An array of zeros of which only small parts are ever touched.

    In small pages: NumPy asks for huge ones, and then each gateway would hold two MiB an array.
    """
    items = math.prod(shape)
    if items == 0:
        return np.zeros(shape, kind)
    memory = mmap.mmap(-1, items * np.dtype(kind).itemsize)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, kind, items).reshape(shape)


class EngineState(NamedTuple):
    """The arrays of n gateways; the first axis of each is the gateway."""

    env: NDArray[Any]
    """`(n,)` of `ENV`."""
    replicas: NDArray[Any]
    """`(n, R)` of `REPLICA`."""
    next_event: NDArray[np.float64]
    """`(n, R)` s: end of each replica's segment, infinite when idle."""
    keys: NDArray[np.int64]
    """`(n, R + 2, max_num_seqs + 1)`: decoding sequences, last to finish first; then two rows that
    an eviction works in."""
    pool: NDArray[Any]
    """`(n, C)` of `REQUEST`: the requests in flight."""
    active: NDArray[np.int64]
    """`(n, R)`: replicas that may be routed to, `env.active` of them."""
    retries: NDArray[np.int64]
    """`(n, C)`: ring of requests that wait for their retry."""
    retry_due: NDArray[np.float64]
    """`(n, C)` s: when each is due."""
    comebacks: NDArray[Any]
    """`(n, C)` of `COMEBACK`: ring of clients that try again, in order of time; or `(n, 0)`."""
    cursors: NDArray[Any]
    """`(n, 1 + S)` of `CURSOR`: who reads the workload: itself, and the copies that surges lay
    over it."""
    faults: NDArray[Any]
    """`(n, K)` of `FAULT`."""
    histograms: NDArray[np.int64]
    """`(n, 3, HIST_WIDTH)`: cumulative counts a bucket."""
    scrapes: NDArray[np.float64]
    """`(n, W + 1, SCRAPE_WIDTH)`: ring of the last scrapes of the gateway."""
    replica_scrapes: NDArray[np.int64]
    """`(n, W + 1, R, 5)`: ring of the last scrapes of the replicas."""
    samples: NDArray[np.float64]
    """`(n, M, 2)` s: first tokens of the window: when each came, and after how long."""
    fresh_parts: NDArray[Any]
    """`(n, M)` of `LATENCY_PARTS`: of the first tokens of this tick, from `env.fresh_from` on."""
    values: NDArray[np.float64]
    """`(n, M)`: scratch for quantiles."""
    weights: NDArray[np.float64]
    """`(n, R, WEIGHT_WINDOW)`: the last samples behind a replica's weight; or `(n, 0, 0)`."""
    replica_ttft: NDArray[np.int64]
    """`(n, R, HIST_WIDTH)`: first tokens a bucket since the last weight sample; or `(n, 0, 0)`."""
    served: NDArray[np.int64]
    """`(n, rows)`: which replica holds a row's prompt in its prefix cache; or `(n, 0)`."""
    attribution: NDArray[np.float64]
    """`(n, 2, 5)`: share of each of `PARTS` in the P95 and the P99 of this tick's latency."""
    metric_faults: NDArray[Any]
    """`(n, F)` of `METRIC_FAULT`. Without room for any the arrays below are empty."""
    stored_scrapes: NDArray[Any]
    """`(n, L)` of `STORED_SCRAPE`: ring as long as a gauge is remembered."""
    stored_counters: NDArray[np.float64]
    """`(n, W + 2, SCRAPE_WIDTH)`: ring like `scrapes`, as stored; the last row is what stood on
    the counters when they last began anew."""
    stored_replicas: NDArray[Any]
    """`(n, W + 2, R)` of `REPLICA_SERIES`: likewise."""

    @classmethod
    def allocate(
        cls,
        n: int,
        *,
        replicas: int,
        max_num_seqs: int,
        pool: int,
        faults: int,
        scrapes: int,
        samples: int,
        surge_copies: int = 0,
        client_retries: bool = False,
        dynamic_weights: bool = False,
        prefix_rows: int = 0,
        metric_faults: int = 0,
        remembered_scrapes: int = 0,
    ) -> EngineState:
        """Empty arrays. Pages that are never touched cost no memory, so the room is generous."""
        remembered = max(remembered_scrapes, scrapes) if metric_faults else 0
        stored = scrapes + 1 if metric_faults else 0
        weighed = replicas if dynamic_weights else 0
        return cls(
            env=np.zeros(n, ENV),
            replicas=np.zeros((n, replicas), REPLICA),
            next_event=np.full((n, replicas), np.inf),
            keys=np.empty((n, replicas + 2, max_num_seqs + 1), np.int64),
            pool=_sparse((n, pool), REQUEST),
            active=np.empty((n, replicas), np.int64),
            retries=_sparse((n, pool), np.int64),
            retry_due=_sparse((n, pool), np.float64),
            comebacks=_sparse((n, pool if client_retries else 0), COMEBACK),
            cursors=np.zeros((n, 1 + surge_copies), CURSOR),
            faults=np.zeros((n, faults), FAULT),
            histograms=np.zeros((n, 3, HIST_WIDTH), np.int64),
            scrapes=np.zeros((n, scrapes, SCRAPE_WIDTH)),
            replica_scrapes=np.zeros((n, scrapes, replicas, REPLICA_SCRAPE_WIDTH), np.int64),
            samples=_sparse((n, samples, 2), np.float64),
            fresh_parts=_sparse((n, samples), LATENCY_PARTS),
            values=_sparse((n, samples + pool + HIST_WIDTH + replicas), np.float64),
            weights=np.zeros((n, weighed, WEIGHT_WINDOW)),
            replica_ttft=np.zeros((n, weighed, HIST_WIDTH), np.int64),
            served=np.zeros((n, prefix_rows), np.int64),
            attribution=np.full((n, 2, len(PARTS)), np.nan),
            metric_faults=np.zeros((n, metric_faults), METRIC_FAULT),
            stored_scrapes=np.zeros((n, remembered), STORED_SCRAPE),
            stored_counters=np.zeros((n, stored, SCRAPE_WIDTH)),
            stored_replicas=np.zeros((n, stored, replicas), REPLICA_SERIES),
        )
