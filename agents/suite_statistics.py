"""Intervals of means over a suite: every scenario counts alike, however many windows it has.

The figure is the mean of the scenarios' means. Its bootstrap draws windows within each scenario,
the same ones for every policy, which keeps the pairs. Of n windows n - 1 are drawn: with s^2 the
unbiased variance, the mean of m drawn ones has the variance (n - 1) / n * s^2 / m, which is that of
the sample's mean, s^2 / n, for m = n - 1. The percentile interval is widened from the normal's
length to Student's, as `statistics` does; the degrees of freedom are Satterthwaite's, since often
one scenario brings most of the variance.

Hundreds of figures are wanted at once, so draws are weights, and a resampled mean is a product.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from .statistics import CONFIDENCE, REPETITIONS, Interval, Values


class SuiteBootstrap:
    """Draws of the windows of a suite; equal arguments give equal draws."""

    def __init__(
        self, windows: Sequence[int], *, seed: int, repetitions: int = REPETITIONS
    ) -> None:
        """Draws.

        Args:
            windows: Of each scenario.
            seed: Of the draws.
            repetitions: How many.

        Raises:
            ValueError: There is no scenario, or one without windows.
        """
        if not windows or min(windows) < 1:
            raise ValueError(f"windows are {list(windows)}, expected 1 or more in each scenario")
        rng = np.random.default_rng(seed)
        self._weights = [_weights(rng, count, repetitions) for count in windows]

    def intervals(self, values: Sequence[Values]) -> list[Interval]:
        """Intervals of the means over the suite of several figures.

        Args:
            values: For each scenario `(figures, windows)`.

        Returns:
            One a figure; all `None` where a scenario has fewer than two windows.

        Raises:
            ValueError: They do not fit the windows, or are not finite.
        """
        for part, weights in zip(values, self._weights, strict=True):
            if part.shape != (len(values[0]), weights.shape[1]) or not np.isfinite(part).all():
                msg = f"expected finite values ({len(values[0])}, {weights.shape[1]})"
                raise ValueError(f"{msg}, got shape {part.shape}")
        if min(weights.shape[1] for weights in self._weights) < 2:
            return [None] * len(values[0])
        draws = np.mean(
            [weights @ part.T for part, weights in zip(values, self._weights, strict=True)], axis=0
        )
        return [_interval(draws[:, i], [part[i] for part in values]) for i in range(len(values[0]))]


def suite_mean(values: Sequence[Values]) -> Values:
    """Mean of the scenarios' means; for each scenario `(figures, windows)`, `(figures,)` of all."""
    mean: Values = np.mean([part.mean(axis=1) for part in values], axis=0)
    return mean


def _weights(rng: np.random.Generator, count: int, repetitions: int) -> NDArray[np.float64]:
    """How much each window counts in each draw, `(repetitions, count)`; rows sum up to 1."""
    drawn = max(count - 1, 1)
    weights: NDArray[np.float64] = rng.multinomial(drawn, [1 / count] * count, repetitions) / drawn
    return weights


def _interval(draws: Values, samples: Sequence[Values]) -> Interval:
    tail = stats.norm.cdf(stats.t.ppf((1 - CONFIDENCE) / 2, _degrees(samples)))
    low, high = np.quantile(draws, [tail, 1 - tail])
    return float(low), float(high)


def _degrees(samples: Sequence[Values]) -> float:
    """Degrees of freedom of the variance of a sum of means (Satterthwaite)."""
    freedom = np.array([len(sample) - 1 for sample in samples])
    parts = np.array([sample.var(ddof=1) / len(sample) for sample in samples])
    if parts.sum() == 0:
        return float(freedom.sum())
    return float(parts.sum() ** 2 / (parts**2 / freedom).sum())
