"""What telemetry counts and samples: buckets of the histograms, columns of a scrape."""

from __future__ import annotations

from typing import Final

import numpy as np

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

REPLICA_SERIES = np.dtype(
    [
        ("incarnation", np.int64),  # 0: no such replica
        ("state", np.int64),
        ("started_at", np.float64),
        # counters
        ("answers", np.float64),
        ("failures", np.float64),
        ("prompt_tokens", np.float64),
        ("output_tokens", np.float64),
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

SCRAPE_TIME, SCRAPE_ARRIVED, SCRAPE_FIRST, SCRAPE_FAILED, SCRAPE_HIST = range(5)
"""Columns of a scrape of the gateway; the three histograms follow from `SCRAPE_HIST` on."""

SCRAPE_WIDTH: Final = SCRAPE_HIST + 3 * HIST_WIDTH

(
    REP_INCARNATION,
    REP_ANSWERS,
    REP_FAILURES,
    REP_ITERATIONS,
    REP_TOKENS,
    REP_PROMPT_TOKENS,
    REP_OUTPUT_TOKENS,
) = range(7)
"""Columns of a scrape of one replica.

`REP_TOKENS` are what iterations computed, for the CPU. The last two are what vLLM counts in
`vllm:prompt_tokens` and `vllm:generation_tokens`: a prompt whole and once, at its first token,
whether a part was cached or computed again; and every token of an answer, the first one too (vLLM
v1, `IterationStats.update_from_output` in `metrics/stats.py`; measured with vLLM 0.28 in its pull
request 56923).
"""

REPLICA_SCRAPE_WIDTH: Final = 7
