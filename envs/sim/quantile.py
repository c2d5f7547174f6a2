"""Histograms, quantiles and medians, without making an array."""

from __future__ import annotations

import numpy as np

from .kernel import kernel


@kernel
def bucket(bounds, value):
    """Index of the histogram bucket (upper bounds inclusive, as in Prometheus); the last: +Inf."""
    low, high = 0, bounds.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if value <= bounds[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def histogram_quantile(q, bounds, counts, minimum):
    """Prometheus' `histogram_quantile` over counts a bucket (`promql/quantile.go`, classic ones).

    Linear inside the bucket that holds the rank. The first bucket starts at 0; a rank in the +Inf
    bucket gives the highest finite bound. NaN with fewer than `minimum` samples.
    """
    finite = bounds.shape[0]
    total = 0.0
    for b in range(finite + 1):
        total += counts[b]
    if total < minimum or total == 0.0:
        return np.nan
    rank = q * total
    below = 0.0
    for b in range(finite):
        if below + counts[b] >= rank and counts[b] > 0:
            start = bounds[b - 1] if b > 0 else 0.0
            return start + (bounds[b] - start) * (rank - below) / counts[b]
        below += counts[b]
    return bounds[finite - 1]


@kernel
def select(values, n, rank):
    """The value of that rank (0: the smallest) among the first n, reordered (Hoare's selection)."""
    low, high = 0, n - 1
    while low < high:
        pivot = values[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            break
    return values[rank]


@kernel
def median(values, n):
    """The middle value, or the mean of the two middle ones."""
    upper = select(values, n, n // 2)
    return upper if n % 2 == 1 else 0.5 * (select(values, n, n // 2 - 1) + upper)
