"""All that changes while a gateway runs, as packed records: what the kernels read and write."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

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
        ("prompt", np.int32),  # tokens to prefill, grown by an eviction
        ("output", np.int32),  # tokens to emit after that prefill
        ("blocks", np.int32),  # KV blocks of that prompt
        ("prompt0", np.int32),  # prompt tokens as offered
        ("next", np.int32),  # next request of the list it is in
        ("replica", np.int32),  # where it is or was last
        ("retries", np.int16),
        ("restarts", np.int16),  # evictions
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
        ("billed_from", np.float64),
        ("error_share", np.float64),
        # counters since the start
        ("tokens", np.int64),
        ("answers", np.int64),
        ("failures", np.int64),
        ("interval_answers", np.int64),  # of the breaker's current interval
        ("interval_failures", np.int64),
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
        # position in the workload: row arrives at arrival_s[row] + time_shift; wraps every span
        ("row", np.int64),
        ("row_low", np.int64),
        ("row_high", np.int64),
        ("time_shift", np.float64),
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
        ("outage_share", np.float64),  # errors at all replicas
        # counters
        ("arrived", np.int64),
        ("first_tokens", np.int64),
        ("ok", np.int64),
        ("error", np.int64),
        ("timeout", np.int64),
        ("shed", np.int64),
        ("billed_s", np.float64),
        ("scrapes", np.int64),
        ("samples", np.int64),
    ],
    align=True,
)

FAULT = np.dtype(
    [
        ("start", np.float64),
        ("end", np.float64),
        ("share", np.float64),
        ("everywhere", np.int64),  # 1: all replicas, 0: one that is drawn when it starts
        ("target", np.int64),
        ("incarnation", np.int64),
        ("on", np.int64),
    ],
    align=True,
)

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
    faults: Any
    histograms: Any
    scrapes: Any
    replica_scrapes: Any
    samples: Any
    values: Any
    eviction_order: Any
    out: Any


class Workload(NamedTuple):
    """The offered requests, shared by all gateways: columns of equal length."""

    arrival_s: NDArray[np.float64]
    prompt_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]


class Outcomes(NamedTuple):
    """One result a request, in the order of the workload; empty arrays where none are kept."""

    status: NDArray[np.int8]
    replica: NDArray[np.int32]
    restarts: NDArray[np.int16]
    ttft_s: NDArray[np.float64]
    e2e_s: NDArray[np.float64]

    @classmethod
    def of_length(cls, n: int) -> Outcomes:
        """Room for n results."""
        return cls(
            np.zeros(n, np.int8),
            np.full(n, NONE, np.int32),
            np.zeros(n, np.int16),
            np.full(n, np.nan),
            np.full(n, np.nan),
        )


class EngineState(NamedTuple):
    """The arrays of n gateways; the first axis of each is the gateway."""

    env: NDArray[Any]
    """`(n,)` of `ENV`."""
    replicas: NDArray[Any]
    """`(n, R)` of `REPLICA`."""
    next_event: NDArray[np.float64]
    """`(n, R)` s: end of each replica's segment, infinite when idle."""
    keys: NDArray[np.int64]
    """`(n, R, max_num_seqs)`: decoding sequences, last to finish first."""
    pool: NDArray[Any]
    """`(n, C)` of `REQUEST`: the requests in flight."""
    active: NDArray[np.int64]
    """`(n, R)`: replicas that may be routed to, `env.active` of them."""
    retries: NDArray[np.int64]
    """`(n, C)`: ring of requests that wait for their retry."""
    retry_due: NDArray[np.float64]
    """`(n, C)` s: when each is due."""
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
    values: NDArray[np.float64]
    """`(n, M)`: scratch for quantiles."""
    eviction_order: NDArray[np.int64]
    """`(n, 2, max_num_seqs + 1)`: scratch for evictions."""

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
    ) -> EngineState:
        """Empty arrays. Pages that are never touched cost no memory, so the room is generous."""
        return cls(
            env=np.zeros(n, ENV),
            replicas=np.zeros((n, replicas), REPLICA),
            next_event=np.full((n, replicas), np.inf),
            keys=np.empty((n, replicas, max_num_seqs), np.int64),
            pool=np.empty((n, pool), REQUEST),
            active=np.empty((n, replicas), np.int64),
            retries=np.empty((n, pool), np.int64),
            retry_due=np.empty((n, pool), np.float64),
            faults=np.zeros((n, faults), FAULT),
            histograms=np.zeros((n, 3, HIST_WIDTH), np.int64),
            scrapes=np.zeros((n, scrapes, SCRAPE_WIDTH)),
            replica_scrapes=np.zeros((n, scrapes, replicas, REPLICA_SCRAPE_WIDTH), np.int64),
            samples=np.empty((n, samples, 2)),
            values=np.empty((n, samples + pool + HIST_WIDTH + replicas)),
            eviction_order=np.empty((n, 2, max_num_seqs + 1), np.int64),
        )
