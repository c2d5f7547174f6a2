"""Fitting a workload model to requests.

Per group: the rate of each bin from its count, the gaps' coefficient of variation (cv) of each bin
with enough gaps, and the length tables. The family of the gap law and one factor on its cvs are
then chosen so that sampled arrivals come closest to the local dispersion of the data at 1, 15 and
60 s: a sampled bin has few gaps, so a bursty law's cv is underestimated and its family is hard to
tell, but what counts here is how arrivals bunch. Where the whole model is still off, the groups
that cause it are given bursts (`fit_bursts`).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .arrivals import (
    GAP_LAWS,
    MAX_CV,
    MIN_CV,
    GapLaw,
    Pieces,
    gap_parameters,
    renewal_arrivals,
)
from .bootstrap import LEAST_DISPERSION, Burstiness, local_dispersions
from .fit_bursts import CLOSE, fit_bursts
from .lengths import fit_lengths
from .model import Facts, Group, WorkloadModel
from .request import Requests
from .statistics import WINDOWS_S

OTHERS: Final = "others"
"""Label of the group of all tenants that have none of their own."""

LENGTH_POINTS: Final = 50
"""Points of a length table."""
LEAST_BIN_S: Final = 150.0
"""Shortest bin of a rate curve that is chosen by itself, ..."""
LEAST_BIN_REQUESTS: Final = 200
"""... and the fewest requests it should hold on average: else chance is modelled as rate."""
MOST_BINS: Final = 168
"""Most bins that are chosen by themselves: the hours of a week."""
_LEAST_GAPS: Final = 20
"""Gaps a bin needs for a cv of its own; others take the group's pooled one."""
_CV_FACTORS: Final = (0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4)
_TRIAL_REQUESTS: Final = 200_000
_FEWEST_TRIALS, _MOST_TRIALS = 4, 50
"""About as many requests are drawn to judge a law, in so many samples."""
_FAR: Final = math.log(1.25)
"""A local dispersion that is further off is not left to chance, whatever its interval."""
_SHARE: Final = 0.02
"""A group is given bursts if it alone shifts a local dispersion of the whole by this."""
_SAMPLES: Final = 8
"""Samples of the whole model that are judged."""
_LEAST_RATE_RPS: Final = 1e-5
"""Requests more seldom than one a day have no rate to speak of: it is rounded to 1e-6."""
_LEAST_REQUESTS: Final = 200
"""Requests a group needs before bursts can be told from chance."""


def fit_model(
    requests: Requests,
    facts: Facts,
    *,
    bins: int,
    by_client: bool = False,
    most_groups: int | None = None,
    length_points: int | None = LENGTH_POINTS,
    seed: int = 0,
) -> WorkloadModel:
    """Fits a model.

    Args:
        requests: What to fit.
        facts: Name, source and licence, carried into the model.
        bins: Equal bins the span is divided into; long enough for tens of requests, or chance
            is modelled as if it were rate.
        by_client: A group for each tenant instead of one for all.
        most_groups: At most so many groups: the busiest tenants have one each, all others one
            together; None: no limit.
        length_points: Points of each length table, placed where they are needed; None: at the
            percentiles.
        seed: Of the trial samples that choose the gap laws.

    Returns:
        The model.

    Raises:
        ValueError: Too few requests, no tenants, or arguments out of range.
    """
    if bins < 1:
        raise ValueError(f"bins: {bins} is not at least 1")
    if length_points is not None and length_points < 2:
        raise ValueError(f"length_points: {length_points} is not at least 2")
    if most_groups is not None and most_groups < 1:
        raise ValueError(f"most_groups: {most_groups} is not at least 1")
    check_fittable(requests, by_client=by_client)
    rng = np.random.default_rng(seed)
    groups = []
    parts = {"0": np.arange(len(requests))}
    if by_client and requests.client is not None:
        parts = _parts(requests.client, requests.client_names, most_groups)
    for label, rows in parts.items():
        arrival_s = requests.arrival_s[rows]
        rate_rps, cv = _bin_statistics(arrival_s, requests.span_s, bins)
        law, factor = _choose_law(rng, arrival_s, requests.span_s, rate_rps, cv)
        groups.append(
            Group(
                label,
                rate_rps,
                law,
                np.clip(cv * factor, MIN_CV, MAX_CV).round(2),
                fit_lengths(
                    requests.prompt_tokens[rows], requests.output_tokens[rows], length_points
                ),
            )
        )
    model = WorkloadModel(facts, requests.span_s, tuple(groups))
    return _with_bursts(model, requests, list(parts.values()), seed)


def check_fittable(requests: Requests, *, by_client: bool) -> None:
    """Finds out before the work whether a model can be fitted.

    Raises:
        ValueError: Requests that are too few, too seldom or all at one instant, or no tenants
            where they are asked for.
    """
    if len(requests) <= _LEAST_GAPS:
        raise ValueError(f"requests: {len(requests)} are too few to fit a model to")
    if requests.mean_rate_rps < _LEAST_RATE_RPS:
        raise ValueError(
            f"requests: {len(requests)} in {requests.span_s:g} s are too seldom to fit a model to"
        )
    if requests.arrival_s[0] == requests.arrival_s[-1]:
        raise ValueError(
            f"arrival_s: all {len(requests)} requests arrive at {requests.arrival_s[0]:g} s; "
            "there are no gaps to fit"
        )
    if by_client and requests.client is None:
        raise ValueError("client: these requests name no tenants")


def default_bins(requests: Requests) -> int:
    """As many bins as the requests can tell apart."""
    most = min(requests.span_s / LEAST_BIN_S, len(requests) / LEAST_BIN_REQUESTS, MOST_BINS)
    return max(1, math.floor(most))


def _parts(
    client: NDArray[np.int32], names: tuple[str, ...], most_groups: int | None
) -> dict[str, NDArray[np.intp]]:
    """Rows of each group, by its label."""
    counts = np.bincount(client, minlength=len(names))
    found = np.flatnonzero(counts)
    own = found
    if most_groups is not None and found.size > most_groups:
        busiest = found[np.argsort(-counts[found], kind="stable")]
        own = np.sort(busiest[: most_groups - 1])
    parts = {names[i]: np.flatnonzero(client == i) for i in own}
    if own.size < found.size:
        parts[OTHERS] = np.flatnonzero(~np.isin(client, own))
    return parts


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
    wanted = Burstiness.of(arrival_s, span_s, WINDOWS_S)
    bin_s = span_s / rate_rps.size
    start_s = np.arange(rate_rps.size, dtype=np.float64) * bin_s
    length_s = np.full(rate_rps.size, bin_s, dtype=np.float64)
    best: tuple[float, GapLaw, float] = (math.inf, "gamma", 1.0)
    if arrival_s.size <= _LEAST_GAPS:
        return best[1], best[2]
    trials_wanted = min(max(_FEWEST_TRIALS, _TRIAL_REQUESTS // arrival_s.size), _MOST_TRIALS)
    for law, factor in itertools.product(GAP_LAWS, _CV_FACTORS):
        form, exponent = gap_parameters(law, cv * factor)
        pieces = Pieces(start_s, length_s, rate_rps, form, exponent)
        trials = [renewal_arrivals(rng, pieces)[0] for _ in range(trials_wanted)]
        seen = np.mean([local_dispersions(t, span_s, wanted.windows_s) for t in trials], axis=0)
        error = wanted.error(seen)
        if error < best[0]:
            best = (error, law, factor)
    return best[1], best[2]


def _with_bursts(
    model: WorkloadModel, requests: Requests, parts: list[NDArray[np.intp]], seed: int
) -> WorkloadModel:
    """Gives bursts to the groups that keep the model from bunching like the data."""
    span_s = model.span_s
    wanted = Burstiness.of(requests.arrival_s, span_s, WINDOWS_S)
    windows = wanted.windows_s
    drawn = [model.sample(0.0, span_s, seed + i) for i in range(_SAMPLES)]
    seen = np.mean([local_dispersions(d.arrival_s, span_s, windows) for d in drawn], axis=0)
    if (wanted.near(seen, CLOSE) & (np.abs(wanted.log_ratios(seen)) < _FAR)).all():
        return model
    groups = list(model.groups)
    for number, rows in enumerate(parts):
        if rows.size < _LEAST_REQUESTS:
            continue
        own = Burstiness.of(requests.arrival_s[rows], span_s, windows)
        of_samples = [
            local_dispersions(d.arrival_s[d.client == number], span_s, windows) for d in drawn
        ]
        before = np.mean(of_samples, axis=0)
        # The dispersion of a sum of independent parts is their mean, weighted by rate.
        whole = np.maximum(wanted.values, LEAST_DISPERSION)
        shift = (before - own.values) * rows.size / len(requests) / whole
        if (np.abs(shift) < _SHARE).all():
            continue
        rate_rps = groups[number].rate_rps
        found = fit_bursts(requests.arrival_s[rows], span_s, rate_rps, own, seed)
        if own.error(found.seen) < own.error(before):
            groups[number] = replace(
                groups[number],
                gap_law="gamma",
                gap_cv=np.full_like(rate_rps, found.gap_cv),
                bursts=found.bursts,
            )
    return replace(model, groups=tuple(groups))
