"""The ledger's figures beside the load generator's own, over the same windows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatepilot.envs.sim.quantile import histogram_quantile
from gatepilot.envs.sim.state import TTFT_BOUNDS_S

WINDOW_S = 60.0
LAG_S = 2.5
"""Mean age of the newest scrape (every 5 s): a window of the ledger ends that much before its
tick."""
LIMITS = {"request_rate_rps": 0.05, "error_rate": 0.005, "ttft_p95_s": 0.10}
"""Relative, but for the error rate: points."""


def compared(ticks: list[dict[str, Any]], rows: list[dict[str, str]]) -> dict[str, Any]:
    """The ledger's figures beside the load generator's own, over the same windows."""
    sent_s = np.array([float(row["sent_at_s"]) for row in rows])
    e2e_s = np.array([float(row["e2e_s"] or "nan") for row in rows])
    ttft_s = np.array([float(row["ttft_s"] or "nan") for row in rows])
    failed = np.array([row["status"] not in ("ok", "unfinished") for row in rows])
    found: dict[str, list[tuple[float, float]]] = {
        "request_rate_rps": [],
        "error_rate": [],
        "ttft_p95_s": [],
    }
    for tick in ticks:
        end_s = tick["at_s"] - LAG_S
        values = tick["values"]
        if tick["doubts"] or end_s - WINDOW_S < sent_s.min():
            continue
        within = _within(sent_s, end_s)
        ended = _within(sent_s + e2e_s, end_s)
        begun = _within(sent_s + ttft_s, end_s)
        mine = {
            "request_rate_rps": within.sum() / WINDOW_S,
            "error_rate": failed[ended].mean(),
            "ttft_p95_s": _p95(ttft_s[begun]),
        }
        for name, pairs in found.items():
            if name in values:
                pairs.append((float(values[name]), float(mine[name])))
    relative = {name: np.array(found[name]) for name in ("request_rate_rps", "ttft_p95_s")}
    errors = {name: np.abs(pairs[:, 0] / pairs[:, 1] - 1) for name, pairs in relative.items()}
    points = np.array(found["error_rate"])
    errors["error_rate"] = np.abs(points[:, 0] - points[:, 1])
    return {
        name: {
            "ticks": len(error),
            "median_error": float(np.median(error)),
            "p95_error": float(np.quantile(error, 0.95)),
            "worst_error": float(error.max()),
            "within": float((error <= LIMITS[name]).mean()),
            "met": bool(error.max() <= LIMITS[name]),
        }
        for name, error in errors.items()
    }


def _within(at_s: NDArray[np.float64], end_s: float) -> NDArray[np.bool_]:
    return (at_s > end_s - WINDOW_S) & (at_s <= end_s)


def _p95(values: NDArray[np.float64]) -> float:
    """As `histogram_quantile` over vLLM's buckets has it."""
    places = np.searchsorted(TTFT_BOUNDS_S, values)
    counts = np.bincount(places, minlength=len(TTFT_BOUNDS_S) + 1).astype(np.float64)
    return float(histogram_quantile(0.95, TTFT_BOUNDS_S, counts, 1))
