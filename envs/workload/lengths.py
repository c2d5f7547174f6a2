"""Prompt and output lengths: quantile tables joined by a rank correlation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

PROBABILITIES: tuple[float, ...] = (
    0.0,
    0.001,
    0.005,
    *(i / 100 for i in range(1, 100)),
    0.995,
    0.999,
    1.0,
)
"""Where the quantile tables of a fitted model have their points."""

_OUTERMOST_Z = 4.5
"""Normal score that stands for the probabilities 0 and 1 (about one in 300,000)."""


@dataclass(frozen=True, eq=False)
class LengthLaw:
    """Joint law of prompt and output tokens: two quantile tables and a Gaussian copula."""

    probabilities: NDArray[np.float64]
    """Rising from 0 to 1, the points of both tables."""
    prompt_tokens: NDArray[np.float64]
    """Prompt tokens at these probabilities."""
    output_tokens: NDArray[np.float64]
    """Output tokens at these probabilities."""
    rank_correlation: float
    """Spearman's rank correlation of the two, within (-1, 1)."""

    def __post_init__(self) -> None:
        """Checks the tables."""
        p = self.probabilities
        if p.size < 2 or p[0] != 0 or p[-1] != 1 or (np.diff(p) <= 0).any():
            raise ValueError("probabilities: must rise strictly from 0 to 1")
        for name in ("prompt_tokens", "output_tokens"):
            table = getattr(self, name)
            if table.shape != p.shape:
                raise ValueError(f"{name}: {table.size} values for {p.size} probabilities")
            if not (table >= 1).all() or (np.diff(table) < 0).any():
                raise ValueError(f"{name}: must never fall and be at least 1")
        if not -1 < self.rank_correlation < 1:
            raise ValueError(f"rank_correlation: {self.rank_correlation} is not within (-1, 1)")

    def sample(
        self, rng: np.random.Generator, size: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Draws prompt and output tokens of `size` requests."""
        rho = 2 * math.sin(math.pi * self.rank_correlation / 6)  # Spearman's to the normal scores'
        prompt_z = rng.standard_normal(size)
        output_z = rho * prompt_z + math.sqrt(1 - rho * rho) * rng.standard_normal(size)
        scores = _normal_scores(self.probabilities)
        prompt = np.rint(np.interp(prompt_z, scores, self.prompt_tokens))
        output = np.rint(np.interp(output_z, scores, self.output_tokens))
        return prompt.astype(np.int32), output.astype(np.int32)


def fit_lengths(prompt_tokens: NDArray[np.int32], output_tokens: NDArray[np.int32]) -> LengthLaw:
    """Reads quantile tables and rank correlation off a sample."""
    probabilities = np.array(PROBABILITIES)
    prompt, output = _mid_ranks(prompt_tokens), _mid_ranks(output_tokens)
    varied = np.ptp(prompt) > 0 and np.ptp(output) > 0
    correlation = float(np.corrcoef(prompt, output)[0, 1]) if varied else 0.0
    return LengthLaw(
        probabilities,
        np.quantile(prompt_tokens, probabilities, method="inverted_cdf").astype(np.float64),
        np.quantile(output_tokens, probabilities, method="inverted_cdf").astype(np.float64),
        round(min(max(correlation, -0.999), 0.999), 4),
    )


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
