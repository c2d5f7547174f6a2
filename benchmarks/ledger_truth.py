"""The ledger's figures beside the load generator's own, over the same windows.

`rate` and `increase` look at the scrapes within the window: from the first to the last of them. So
the generator's requests are counted between those two, for each target its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatepilot.envs.sim.quantile import histogram_quantile
from gatepilot.envs.sim.series import TTFT_BOUNDS_S

WINDOW_S = 60.0
LIMITS = {"request_rate_rps": 0.05, "error_rate": 0.005, "ttft_p95_s": 0.10}
"""Relative, but for the error rate: points."""

Scrapes = Mapping[str, NDArray[np.float64]]
"""Times of the scrapes of each target: `envoy` and the replicas by name."""


def compared(
    ticks: list[dict[str, Any]], rows: list[dict[str, str]], scrapes: Scrapes
) -> dict[str, Any]:
    """Errors of the ledger's figures at every good tick whose window lies within the load.

    Args:
        ticks: Decisions of the ledger.
        rows: Requests of the load generator.
        scrapes: When each target was scraped.
    """
    load = _Load(rows)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in LIMITS}
    for tick in ticks:
        at_s, values = tick["at_s"], tick["values"]
        if tick["doubts"] or at_s - WINDOW_S < load.sent_s.min():
            continue
        first_s, last_s = _span(scrapes["envoy"], at_s)
        mine = {
            "request_rate_rps": _within(load.sent_s, first_s, last_s).sum() / (last_s - first_s),
            "error_rate": load.failed[_within(load.ended_s, first_s, last_s)].mean(),
            "ttft_p95_s": _p95(load.first_tokens(scrapes, at_s)),
        }
        for name, pairs in found.items():
            if name in values:
                pairs.append((float(values[name]), float(mine[name])))
    return {name: _errors(name, np.array(pairs)) for name, pairs in found.items()}


class _Load:
    """The requests as columns."""

    def __init__(self, rows: list[dict[str, str]]) -> None:
        def column(name: str) -> NDArray[np.float64]:
            return np.array([float(row[name] or "nan") for row in rows])

        self.sent_s = column("sent_at_s")
        self.ended_s = self.sent_s + column("e2e_s")
        self.ttft_s = column("ttft_s")
        self.failed = np.array([row["status"] not in ("ok", "unfinished") for row in rows])
        self.replica = np.array([row["replica"] for row in rows])

    def first_tokens(self, scrapes: Scrapes, at_s: float) -> NDArray[np.float64]:
        """Times to first token that the replicas' newest windows hold."""
        began_s = self.sent_s + self.ttft_s
        parts = [
            self.ttft_s[(self.replica == name) & _within(began_s, *_span(times_s, at_s))]
            for name, times_s in scrapes.items()
            if name != "envoy"
        ]
        return np.concatenate(parts)


def _span(times_s: NDArray[np.float64], at_s: float) -> tuple[float, float]:
    """First and last scrape of the window that ends at a moment."""
    inside = times_s[_within(times_s, at_s - WINDOW_S, at_s)]
    return float(inside[0]), float(inside[-1])


def _errors(name: str, pairs: NDArray[np.float64]) -> dict[str, Any]:
    ledger, generator = pairs.T
    error = np.abs(ledger - generator)
    if name != "error_rate":
        error /= generator
    return {
        "ticks": len(error),
        "median_error": float(np.median(error)),
        "p95_error": float(np.quantile(error, 0.95)),
        "worst_error": float(error.max()),
        "within": float((error <= LIMITS[name]).mean()),
        "met": bool(error.max() <= LIMITS[name]),
    }


def _within(at_s: NDArray[np.float64], from_s: float, to_s: float) -> NDArray[np.bool_]:
    return (at_s > from_s) & (at_s <= to_s)


def _p95(values: NDArray[np.float64]) -> float:
    """As `histogram_quantile` over vLLM's buckets has it."""
    places = np.searchsorted(TTFT_BOUNDS_S, values)
    counts = np.bincount(places, minlength=len(TTFT_BOUNDS_S) + 1).astype(np.float64)
    return float(histogram_quantile(0.95, TTFT_BOUNDS_S, counts, 1))
