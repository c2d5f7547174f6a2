"""Fitting a workload model to requests.

Per group: the rate of each bin from its count, the gaps' coefficient of variation (cv) of each bin
with enough gaps, and the length tables. The family of the gap law and one factor on its cvs are
then chosen so that sampled arrivals come closest to the local dispersion of the data at 1, 15 and
60 s: a sampled bin has few gaps, so a bursty law's cv is underestimated and its family is hard to
tell, but what counts here is how arrivals bunch.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from .arrivals import (
    GAP_LAWS,
    MAX_CV,
    MIN_CV,
    GapLaw,
    Pieces,
    gap_parameters,
    local_dispersion,
    renewal_arrivals,
)
from .lengths import fit_lengths
from .model import Facts, Group, WorkloadModel
from .request import Requests

WINDOWS_S = (1.0, 15.0, 60.0)
"""Windows whose local dispersion is matched."""

_LEAST_GAPS = 20
"""Gaps a bin needs for a cv of its own; others take the group's pooled one."""
_CV_FACTORS = (0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4)
_TRIAL_REQUESTS = 200_000
"""About as many requests are drawn to judge a law, in at least 4 samples."""


def fit_model(
    requests: Requests,
    facts: Facts,
    *,
    bins: int,
    labels: NDArray[np.int64] | None = None,
    seed: int = 0,
) -> WorkloadModel:
    """Fits a model.

    Args:
        requests: What to fit.
        facts: Name, source and licence, carried into the model.
        bins: Equal bins the span is divided into; long enough for tens of requests, or chance
            is modelled as if it were rate.
        labels: Group of each request; None: one group.
        seed: Of the trial samples that choose the gap laws.

    Returns:
        The model.
    """
    if bins < 1:
        raise ValueError(f"bins: {bins} is not at least 1")
    if len(requests) <= _LEAST_GAPS:
        raise ValueError(f"requests: {len(requests)} are too few to fit a model to")
    if labels is None:
        labels = np.zeros(len(requests), dtype=np.int64)
    if labels.shape != requests.arrival_s.shape:
        raise ValueError(f"labels: {labels.size} for {len(requests)} requests")
    rng = np.random.default_rng(seed)
    groups = []
    for label in np.unique(labels):
        rows = labels == label
        arrival_s = requests.arrival_s[rows]
        rate_rps, cv = _bin_statistics(arrival_s, requests.span_s, bins)
        law, factor = _choose_law(rng, arrival_s, requests.span_s, rate_rps, cv)
        groups.append(
            Group(
                str(label),
                rate_rps,
                law,
                np.clip(cv * factor, MIN_CV, MAX_CV).round(2),
                fit_lengths(requests.prompt_tokens[rows], requests.output_tokens[rows]),
            )
        )
    return WorkloadModel(facts, requests.span_s, tuple(groups))


def _bin_statistics(
    arrival_s: NDArray[np.float64], span_s: float, bins: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rate and cv of the gaps in each bin."""
    bin_s = span_s / bins
    index = np.minimum((arrival_s / bin_s).astype(np.int64), bins - 1)
    rate_rps = np.bincount(index, minlength=bins) / bin_s
    same = index[1:] == index[:-1]  # gaps across an edge belong to no bin
    where, gaps = index[1:][same], np.diff(arrival_s)[same]
    number = np.bincount(where, minlength=bins)
    total = np.bincount(where, gaps, minlength=bins)
    squares = np.bincount(where, gaps**2, minlength=bins)
    cv = np.full(bins, np.nan)
    rich = (number >= _LEAST_GAPS) & (total > 0)
    mean = total[rich] / number[rich]
    variance = (squares[rich] / number[rich] - mean**2) * number[rich] / (number[rich] - 1)
    cv[rich] = np.sqrt(np.maximum(variance, 0)) / mean
    pooled = math.sqrt(np.average(cv[rich] ** 2, weights=number[rich])) if rich.any() else 1.0
    return np.round(rate_rps, 6), np.where(rich, cv, pooled)


def _choose_law(
    rng: np.random.Generator,
    arrival_s: NDArray[np.float64],
    span_s: float,
    rate_rps: NDArray[np.float64],
    cv: NDArray[np.float64],
) -> tuple[GapLaw, float]:
    """The law and the factor on its cvs whose samples bunch most like the data."""
    windows = [w for w in WINDOWS_S if span_s >= 2 * w]
    wanted = np.array([local_dispersion(arrival_s, span_s, w) for w in windows])
    bin_s = span_s / rate_rps.size
    start_s = np.arange(rate_rps.size, dtype=np.float64) * bin_s
    length_s = np.full(rate_rps.size, bin_s, dtype=np.float64)
    trials_wanted = max(4, _TRIAL_REQUESTS // arrival_s.size)
    best: tuple[float, GapLaw, float] = (math.inf, "gamma", 1.0)
    for law, factor in itertools.product(GAP_LAWS, _CV_FACTORS):
        form, exponent = gap_parameters(law, cv * factor)
        pieces = Pieces(start_s, length_s, rate_rps, form, exponent)
        trials = [renewal_arrivals(rng, pieces)[0] for _ in range(trials_wanted)]
        seen = np.mean([[local_dispersion(t, span_s, w) for w in windows] for t in trials], axis=0)
        error = float(np.sum(np.log(seen / wanted) ** 2))
        if error < best[0]:
            best = (error, law, factor)
    return best[1], best[2]
