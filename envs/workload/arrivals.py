"""Arrival processes: renewal gaps within pieces of constant rate.

Both gap laws are cases of `G ** exponent`, scaled to the mean wanted, with G gamma-distributed of
shape `form`: the gamma law has exponent 1, the Weibull law form 1. Within a piece, arrivals are a
stationary renewal process: the first gap is drawn from the law of the time left at a random
instant, so the expected count of a piece is exactly rate x length, whatever the law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

GapLaw = Literal["gamma", "weibull"]
GAP_LAWS: tuple[GapLaw, ...] = get_args(GapLaw)

MIN_CV, MAX_CV = 0.1, 20.0
"""Coefficients of variation of the gaps that a law can be given (1: a Poisson process)."""
MOST_WINDOWS: Final = 10_000_000
"""Most windows of a range that are counted: more take gigabytes, and tell no more."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of time with a rate and a gap law each; all arrays are of one length."""

    start_s: NDArray[np.float64]
    """Start of each piece."""
    length_s: NDArray[np.float64]
    """Length of each piece."""
    rate_rps: NDArray[np.float64]
    """Rate within each piece; 0 leaves it empty."""
    form: NDArray[np.float64]
    """Shape of the gamma variable behind the gaps."""
    exponent: NDArray[np.float64]
    """Power it is raised to."""
    scale: NDArray[np.float64] | None = None
    """`gap_scale` of the two, where it is known already."""


def gap_parameters(
    law: GapLaw | Sequence[GapLaw], cv: NDArray[np.float64]
) -> tuple[NDArray[np.float64], ...]:
    """Form and exponent of the gap law with a given coefficient of variation.

    Args:
        law: Family of the law, one for all or one a value.
        cv: Coefficients of variation, brought into [MIN_CV, MAX_CV].
    """
    cv = np.clip(cv, MIN_CV, MAX_CV)
    if not isinstance(law, str):
        is_gamma = np.array([each == "gamma" for each in law])
        pairs = zip(gap_parameters("gamma", cv), gap_parameters("weibull", cv), strict=True)
        return tuple(np.where(is_gamma, gamma, weibull) for gamma, weibull in pairs)
    if law == "gamma":
        return 1 / cv**2, np.ones_like(cv)
    # A Weibull law's cv falls with its shape: look the exponent (1 / shape) up in a table.
    exponents = np.geomspace(0.01, 10, 2000)
    log_gamma = np.vectorize(math.lgamma, otypes=[float])
    cvs = np.sqrt(np.expm1(log_gamma(1 + 2 * exponents) - 2 * log_gamma(1 + exponents)))
    return np.ones_like(cv), np.interp(cv, cvs, exponents)


def shape_cv(law: GapLaw, shape: NDArray[np.float64]) -> NDArray[np.float64]:
    """Coefficient of variation of a gap law of a given shape (the usual parameter), up to MAX_CV.

    Gamma: 1 / sqrt(shape). Weibull: sqrt(G(1 + 2 / shape) / G(1 + 1 / shape)^2 - 1).
    """
    if law == "gamma":
        cv = 1 / np.sqrt(shape)
    else:
        exponent = np.minimum(1 / shape, 10.0)  # far beyond MAX_CV, and no overflow
        log_gamma = np.vectorize(math.lgamma, otypes=[float])
        cv = np.sqrt(np.expm1(log_gamma(1 + 2 * exponent) - 2 * log_gamma(1 + exponent)))
    return np.minimum(cv, MAX_CV)


def renewal_arrivals(
    rng: np.random.Generator, pieces: Pieces
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Draws the arrivals of all pieces at once, independently of each other.

    Args:
        rng: Source of randomness.
        pieces: Where, how many and how bursty.

    Returns:
        Arrival times, and the index of the piece each belongs to; not sorted.
    """
    arrivals: list[NDArray[np.float64]] = []
    owners: list[NDArray[np.intp]] = []
    expected = pieces.rate_rps * pieces.length_s  # lengths in units of the mean gap
    scale = gap_scale(pieces.form, pieces.exponent) if pieces.scale is None else pieces.scale

    def keep(piece: NDArray[np.intp], position: NDArray[np.float64]) -> None:
        arrivals.append(pieces.start_s[piece] + position / pieces.rate_rps[piece])
        owners.append(piece)

    piece = np.flatnonzero(expected > 0)
    # The gap around a random instant is drawn in proportion to its length, which raises the form
    # by the exponent; the instant lies uniformly within it.
    exponent = pieces.exponent[piece]
    gap = scale[piece] * rng.standard_gamma(pieces.form[piece] + exponent) ** exponent
    next_up = gap * rng.random(piece.size)
    while True:
        inside = next_up < expected[piece]
        piece, next_up = piece[inside], next_up[inside]
        if not piece.size:
            break
        keep(piece, next_up)
        # Draw about as many gaps as are missing, keep those inside, and go round again.
        missing = expected[piece] - next_up
        draws = np.ceil(missing + 3 * np.sqrt(missing) + 4).astype(np.intp)
        row = np.repeat(np.arange(piece.size), draws)
        owner = piece[row]
        gaps = scale[owner] * rng.standard_gamma(pieces.form[owner]) ** pieces.exponent[owner]
        total = np.cumsum(gaps)
        last = np.cumsum(draws) - 1
        before = np.concatenate(([0.0], total[last[:-1]]))
        position = total - before[row] + next_up[row]
        next_up = position[last]
        inside = position < expected[owner]
        inside[last] = False  # the next round looks at it
        keep(owner[inside], position[inside])
    if not arrivals:
        return np.empty(0), np.empty(0, dtype=np.intp)
    return np.concatenate(arrivals), np.concatenate(owners)


def local_dispersion(arrival_s: NDArray[np.float64], span_s: float, window_s: float) -> float:
    """Short-term burstiness: half the mean squared difference of neighbouring counts over the mean.

    Slow trends cancel; a Poisson process gives 1.

    Args:
        arrival_s: Arrivals within [0, span_s].
        span_s: Length of the range.
        window_s: Length of the windows that are counted; an incomplete last one is left out.
    """
    counts = window_counts(arrival_s, span_s, window_s)
    if counts.size < 2 or not counts.any():
        raise ValueError(f"window_s: {window_s} leaves fewer than two windows with arrivals")
    return float(np.mean(np.diff(counts) ** 2) / (2 * counts.mean()))


def window_counts(
    arrival_s: NDArray[np.float64], span_s: float, window_s: float
) -> NDArray[np.int64]:
    """Arrivals in each complete window of a range."""
    windows = int(span_s / window_s + 1e-9)
    index = (arrival_s / window_s).astype(np.int64)
    return np.bincount(index[index < windows], minlength=windows).astype(np.int64)


def countable(span_s: float, window_s: float) -> bool:
    """Whether a range has no more than `MOST_WINDOWS` windows of this length."""
    return span_s <= MOST_WINDOWS * window_s


def gap_scale(form: NDArray[np.float64], exponent: NDArray[np.float64]) -> NDArray[np.float64]:
    """Factor that brings the mean of `G ** exponent` to 1, G being gamma-distributed."""
    log_gamma = np.vectorize(math.lgamma, otypes=[float])
    both, index = np.unique(np.stack([form, exponent]), axis=1, return_inverse=True)
    scale = np.exp(log_gamma(both[0]) - log_gamma(both[0] + both[1]))
    flat: NDArray[np.float64] = scale[index.ravel()]
    return flat
