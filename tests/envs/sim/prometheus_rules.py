"""Prometheus' arithmetic over samples in plain Python: what the kernels are held against."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence

Series = Sequence[tuple[float, float]]
"""Samples `(time in s, value)` of one series, oldest first."""


def prometheus_quantile(q: float, bounds: Sequence[float], counts: Sequence[float]) -> float:
    """Prometheus' rule for classic histograms (`promql/quantile.go`); the last count is +Inf's."""
    cumulative = list(itertools.accumulate(counts))
    if cumulative[-1] == 0:
        return math.nan
    rank = q * cumulative[-1]
    b = bisect.bisect_left(cumulative, rank)
    if b == len(bounds):
        return bounds[-1]
    before = cumulative[b - 1] if b else 0
    start = bounds[b - 1] if b else 0.0
    return start + (bounds[b] - start) * (rank - before) / (cumulative[b] - before)


def increase(series: Series, start_s: float, end_s: float) -> float:
    """`increase` of a counter over [start, end] (`extrapolatedRate` in `promql/functions.go`).

    NaN with fewer than two samples.
    """
    inside = [(t, value) for t, value in series if start_s <= t <= end_s]
    if len(inside) < 2:
        return math.nan
    (first_s, first), (last_s, last) = inside[0], inside[-1]
    before_resets = sum(a for (_, a), (_, b) in itertools.pairwise(inside) if b < a)
    gain = last - first + before_resets
    covered_s = last_s - first_s
    mean_s = covered_s / (len(inside) - 1)
    ahead_s, behind_s = (
        gap_s if gap_s < 1.1 * mean_s else mean_s / 2
        for gap_s in (first_s - start_s, end_s - last_s)
    )
    if gain > 0:
        ahead_s = min(ahead_s, covered_s * first / gain)
    return gain * (ahead_s + covered_s + behind_s) / covered_s


def quantile_of_increases(
    q: float,
    bounds: Sequence[float],
    buckets: Sequence[Series],
    start_s: float,
    end_s: float,
    minimum: float,
) -> float:
    """`histogram_quantile(q, increase(buckets)) and increase(count) >= minimum`.

    Args:
        q: Which quantile.
        bounds: The finite upper bounds.
        buckets: Cumulative (`le`) counters, the last that of +Inf.
        start_s: Of the window.
        end_s: Of the window.
        minimum: Samples needed.
    """
    grown = [increase(bucket, start_s, end_s) for bucket in buckets]
    if not grown[-1] >= minimum:
        return math.nan
    monotonic = list(itertools.accumulate(grown, max))
    return prometheus_quantile(q, bounds, [b - a for a, b in itertools.pairwise([0.0, *monotonic])])
