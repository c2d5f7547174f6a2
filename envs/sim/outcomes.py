"""What becomes of a request: its status, its latency, what that consists of."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from .records import NONE

PENDING, OK, ERROR, TIMEOUT, SHED = range(5)
"""A request's status; `PENDING` is still in flight."""

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

SAMPLE = np.dtype(
    [
        # a first token
        ("at", np.float64),
        ("ttft_s", np.float64),
        *((name, LATENCY_PARTS[name]) for name in LATENCY_PARTS.names or ()),
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
