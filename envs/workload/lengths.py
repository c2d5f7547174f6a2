"""Prompt and output lengths: quantile tables joined by a rank correlation."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

PERCENTILES: Final = np.array(
    [0.0, 0.001, 0.005, *(i / 100 for i in range(1, 100)), 0.995, 0.999, 1.0]
)
"""Where a table has its points unless they are placed."""

_OUTERMOST_Z: Final = 4.5
"""Normal score that stands for the probabilities 0 and 1 (about one in 300,000)."""
LENGTH_GRID: Final = np.concatenate([[0.0], (2 * np.arange(5000) + 1) / 10_000, [1.0]])
"""Where points can be placed: every 0.02 %, so that a jump of the quantiles stays a jump."""
_OUTER: Final = 0.002
"""Quantiles further out than this weigh no more than those here."""


@dataclass(frozen=True, eq=False)
class QuantileTable:
    """A law of lengths; between its points quantiles are linear in the normal score."""

    probabilities: NDArray[np.float64]
    """Rising from 0 to 1."""
    tokens: NDArray[np.float64]
    """Tokens at these probabilities."""

    def __post_init__(self) -> None:
        """Checks the table."""
        p = self.probabilities
        if p.size < 2 or p[0] != 0 or p[-1] != 1 or not (np.diff(p) > 0).all():
            raise ValueError("probabilities: must rise strictly from 0 to 1")
        if self.tokens.shape != p.shape:
            raise ValueError(f"tokens: {self.tokens.size} values for {p.size} probabilities")
        if not (self.tokens >= 1).all() or (np.diff(self.tokens) < 0).any():
            raise ValueError("tokens: must never fall and be at least 1")

    def at(self, scores: NDArray[np.float64]) -> NDArray[np.int32]:
        """Lengths at standard normal scores."""
        tokens = np.interp(scores, _normal_scores(self.probabilities), self.tokens)
        return np.rint(tokens).astype(np.int32)


@dataclass(frozen=True, eq=False)
class LengthLaw:
    """Joint law of prompt and output tokens: two quantile tables and a Gaussian copula."""

    prompt: QuantileTable
    """Prompt tokens."""
    output: QuantileTable
    """Output tokens."""
    rank_correlation: float
    """Spearman's rank correlation of the two, within (-1, 1)."""

    def __post_init__(self) -> None:
        """Checks the correlation."""
        if not -1 < self.rank_correlation < 1:
            raise ValueError(f"rank_correlation: {self.rank_correlation} is not within (-1, 1)")

    def sample(
        self, rng: np.random.Generator, size: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Draws prompt and output tokens of `size` requests."""
        rho = 2 * math.sin(math.pi * self.rank_correlation / 6)  # Spearman's to the normal scores'
        prompt_z = rng.standard_normal(size)
        output_z = rho * prompt_z + math.sqrt(1 - rho * rho) * rng.standard_normal(size)
        return self.prompt.at(prompt_z), self.output.at(output_z)


def fit_lengths(
    prompt_tokens: NDArray[np.int32], output_tokens: NDArray[np.int32], points: int | None = None
) -> LengthLaw:
    """Reads quantile tables and rank correlation off a sample.

    Args:
        prompt_tokens: Prompt lengths.
        output_tokens: Output lengths.
        points: Points a table, placed where they are needed; None: at `PERCENTILES`.
    """
    correlation = rank_correlation(prompt_tokens, output_tokens)
    return LengthLaw(
        _table(prompt_tokens, points),
        _table(output_tokens, points),
        round(min(max(correlation, -0.999), 0.999), 4),
    )


def rank_correlation(prompt_tokens: NDArray[np.int32], output_tokens: NDArray[np.int32]) -> float:
    """Spearman's rank correlation; 0 where one of the two never varies."""
    prompt, output = _mid_ranks(prompt_tokens), _mid_ranks(output_tokens)
    varied = prompt.size > 1 and np.ptp(prompt) > 0 and np.ptp(output) > 0
    return float(np.corrcoef(prompt, output)[0, 1]) if varied else 0.0


def placed_points(quantiles: NDArray[np.float64], points: int) -> NDArray[np.intp]:
    """Chooses the points of a table so that little is lost between them.

    Starts with both ends and splits, again and again, the stretch whose straight line strays
    furthest from the quantiles (the sum of relative errors, the outer ones weighing more, as they
    are fewer) at the place where it strays most.

    Args:
        quantiles: Tokens at every probability of `LENGTH_GRID`.
        points: How many to choose, at least 2.

    Returns:
        Their places on the grid, rising.
    """
    logs, scores = np.log(quantiles), _normal_scores(LENGTH_GRID)
    inner = np.clip(LENGTH_GRID, _OUTER, 1 - _OUTER)
    weights = 1 / np.sqrt(inner * (1 - inner))

    def stretch(first: int, last: int) -> tuple[float, int, int, int]:
        part = slice(first, last + 1)
        line = np.interp(scores[part], scores[[first, last]], quantiles[[first, last]])
        errors = np.abs(np.log(line) - logs[part]) * weights[part]
        return -float(errors.sum()), first, last, first + int(errors.argmax())

    chosen = {0, LENGTH_GRID.size - 1}
    worst = [stretch(0, LENGTH_GRID.size - 1)]
    while len(chosen) < points and worst[0][0] < 0:
        _, first, last, split = heapq.heappop(worst)
        chosen.add(split)
        for ends in ((first, split), (split, last)):
            heapq.heappush(worst, stretch(*ends))
    return np.array(sorted(chosen))


def table_of_quantiles(quantiles: NDArray[np.float64], points: int) -> QuantileTable:
    """A table out of the quantiles at `LENGTH_GRID`; see `placed_points`."""
    places = placed_points(quantiles, points)
    return QuantileTable(LENGTH_GRID[places], quantiles[places])


def _table(tokens: NDArray[np.int32], points: int | None) -> QuantileTable:
    """The table of a sample."""
    where = PERCENTILES if points is None else LENGTH_GRID
    quantiles = np.quantile(tokens, where, method="inverted_cdf").astype(np.float64)
    if points is None:
        return QuantileTable(where, quantiles)
    return table_of_quantiles(quantiles, points)


def _normal_scores(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard normal quantiles, with finite ends."""
    normal = NormalDist()
    inner = [normal.inv_cdf(p) for p in probabilities[1:-1]]
    return np.array([-_OUTERMOST_Z, *inner, _OUTERMOST_Z])


def _mid_ranks(values: NDArray[np.int32]) -> NDArray[np.float64]:
    """Ranks, equal values sharing their mean rank."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mid: NDArray[np.float64] = (last - (counts - 1) / 2)[index]
    return mid
