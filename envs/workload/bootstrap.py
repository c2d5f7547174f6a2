"""How far a trace's own burstiness is down to chance: a block bootstrap of its windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .arrivals import countable, local_dispersion, window_counts

_FEWEST_WINDOWS: Final = 6
"""A range of fewer windows is not looked at."""
_BLOCK_WINDOWS: Final = 5
"""A block holds so many windows, ..."""
_MOST_BLOCKS: Final = 40
"""... or more where the range has more blocks than this: bursts stay together; ..."""
_FEWEST_BLOCKS: Final = 10
"""... or fewer where it has less than this."""
_FEW: Final = 20
"""So many arrivals tell nothing about bunching."""
_LEAST_CHANCE: Final = 0.05
LEAST_DISPERSION: Final = 0.01
"""What a smaller local dispersion counts as in ratios: that of evenly spaced arrivals is 0."""
_REPLICATES: Final = 2000
_CONFIDENCE: Final = 0.95


@dataclass(frozen=True)
class Burstiness:
    """Local dispersions of some arrivals, and how far they are down to chance."""

    windows_s: tuple[float, ...]
    """Lengths of the windows."""
    values: NDArray[np.float64]
    """Local dispersion by window."""
    low: NDArray[np.float64]
    """Lower ends of the 95 % intervals."""
    high: NDArray[np.float64]
    """Upper ends."""
    chance: NDArray[np.float64]
    """Relative standard error of a value out of so many windows, were their counts independent and
    normal: sqrt(3 / n). What is known better than to 5 % counts no more."""

    @classmethod
    def of(
        cls, arrival_s: NDArray[np.float64], span_s: float, windows_s: Sequence[float]
    ) -> Burstiness:
        """Measures arrivals; windows that the range hardly holds, or too often, are left out.

        Args:
            arrival_s: Arrivals within [0, span_s].
            span_s: Length of the range.
            windows_s: Lengths of the windows.
        """
        fit = tuple(w for w in windows_s if span_s >= _FEWEST_WINDOWS * w and countable(span_s, w))
        intervals = [dispersion_interval(arrival_s, span_s, w) for w in fit]
        ends = np.array(intervals, dtype=np.float64).reshape(-1, 2)
        values = local_dispersions(arrival_s, span_s, fit)
        chance = np.sqrt(3 * np.array(fit) / span_s)
        return cls(fit, values, ends[:, 0], ends[:, 1], np.maximum(chance, _LEAST_CHANCE))

    def error(self, seen: NDArray[np.float64]) -> float:
        """How far a model's values are off: squared logarithms, in units of their chance."""
        return float(np.sum((self.log_ratios(seen) / self.chance) ** 2))

    def log_ratios(self, seen: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithms of a model's values over these, those near 0 as `LEAST_DISPERSION`."""
        ratios: NDArray[np.float64] = np.maximum(seen, LEAST_DISPERSION) / np.maximum(
            self.values, LEAST_DISPERSION
        )
        return np.log(ratios)

    def near(self, seen: NDArray[np.float64], limit: float) -> NDArray[np.bool_]:
        """By window: is a model's value within a share of this one, or within the interval?"""
        within = (self.low <= seen) & (seen <= self.high)
        result: NDArray[np.bool_] = within | (np.abs(seen - self.values) <= limit * self.values)
        return result


def local_dispersions(
    arrival_s: NDArray[np.float64], span_s: float, windows_s: Sequence[float]
) -> NDArray[np.float64]:
    """Local dispersion by window; 1, as for Poisson arrivals, where hardly anything arrives."""
    values = np.ones(len(windows_s))
    for i, window_s in enumerate(windows_s):
        counts = window_counts(arrival_s, span_s, window_s)
        if counts.sum() > _FEW:
            values[i] = local_dispersion(arrival_s, span_s, window_s)
    return values


def dispersion_interval(
    arrival_s: NDArray[np.float64], span_s: float, window_s: float, *, seed: int = 0
) -> tuple[float, float]:
    """Interval of a trace's local dispersion, by a circular block bootstrap of its windows.

    Whole blocks of neighbouring windows are drawn with replacement (Politis and Romano, "A
    circular block-resampling procedure for stationary data", 1992), so that bursts which last
    several windows stay whole. Differences across the seams of blocks are not counted.

    Args:
        arrival_s: Arrivals within [0, span_s].
        span_s: Length of the range.
        window_s: Length of the windows.
        seed: Of the draws.

    Returns:
        Its ends, 2.5 % and 97.5 % of the replicates; anything where hardly anything arrives.
    """
    counts = window_counts(arrival_s, span_s, window_s).astype(np.float64)
    if counts.sum() <= _FEW or not counts[:-1].any():
        return 0.0, math.inf
    squares = np.diff(counts) ** 2
    counts = counts[:-1]
    block = max(_BLOCK_WINDOWS, round(counts.size / _MOST_BLOCKS))
    block = max(1, min(block, counts.size // _FEWEST_BLOCKS))
    blocks = math.ceil(counts.size / block)
    # Sums over each possible block, the range closed to a ring.
    around = np.arange(counts.size)
    of_squares, of_counts = (
        (sums := np.concatenate([[0.0], np.cumsum(np.concatenate([v, v]))]))[around + block]
        - sums[around]
        for v in (squares, counts)
    )
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, counts.size, (_REPLICATES, blocks))
    totals = of_counts[drawn].sum(axis=1)
    values = of_squares[drawn].sum(axis=1)[totals > 0] / (2 * totals[totals > 0])
    low, high = np.quantile(values, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    return float(low), float(high)
