"""Is one policy better than another? Paired differences over windows, with intervals.

One column is one block of the bootstrap: an episode, all of whose ticks are taken together, because
neighbouring ticks hang together (one incident shows in about four) and disjoint windows hardly do.
One row is one training seed; a rule that was not trained has a single row.

| figure | one training seed | several |
|---|---|---|
| mean and its interval (the headline) | bootstrap over windows | windows and seeds are both drawn |
| IQM and its interval | bootstrap over windows | mean per (scenario, seed), rliable over seeds |
| probability of improvement | paired windows, a tie counts half | over all pairs of seeds as well |

Intervals are percentile intervals, widened for few windows so that they are as long as Student's
(Hesterberg, "What Teachers Should Know about the Bootstrap", 2015, "expanded percentile interval").
They cannot know of a rare disaster that none of the windows holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from arch.bootstrap import IndependentSamplesBootstrap
from numpy.typing import NDArray
from rliable import metrics
from rliable.library import StratifiedIndependentBootstrap
from scipy import stats

Values: TypeAlias = NDArray[np.float64]
Interval: TypeAlias = tuple[float, float] | None
"""Low and high end of a 95 % interval; `None` where fewer than two blocks allow none."""

REPETITIONS: Final = 4000
"""Bootstrap draws of one interval: its ends move by about 1 % of its length between seeds."""
CONFIDENCE: Final = 0.95
"""Nominal coverage of every interval."""
MIN_BLOCKS: Final = 6
"""Windows below which nothing is called a win: by chance alone five differences have one sign in
one case of 16, six in one of 32."""

Verdict: TypeAlias = Literal["win", "loss", "undecided", "too few windows"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One policy against another over the same windows; positive is better."""

    mean_difference: float
    """The headline: mean over windows of the difference of returns."""
    ci95: Interval
    """Interval of the mean difference."""
    iqm_difference: float
    """Mean of the middle half of the differences."""
    iqm_ci95: Interval
    """Interval of the IQM."""
    probability_of_improvement: float
    """Share of paired windows in which the first is better; a tie counts half."""
    windows: int
    """Paired windows."""

    @property
    def verdict(self) -> Verdict:
        """A win or a loss only where the mean's interval excludes 0 and the IQM has its sign."""
        if self.ci95 is None or self.windows < MIN_BLOCKS:
            return "too few windows"
        if self.ci95[0] > 0 and self.iqm_difference > 0:
            return "win"
        if self.ci95[1] < 0 and self.iqm_difference < 0:
            return "loss"
        return "undecided"

    def reversed(self) -> Comparison:
        """The same comparison seen from the other side."""
        return replace(
            self,
            mean_difference=-self.mean_difference,
            ci95=_negated(self.ci95),
            iqm_difference=-self.iqm_difference,
            iqm_ci95=_negated(self.iqm_ci95),
            probability_of_improvement=1.0 - self.probability_of_improvement,
        )


def compare(ours: Values, theirs: Values, scenarios: Sequence[str], *, seed: int) -> Comparison:
    """Compares two policies over the same windows.

    Args:
        ours: Returns, shape `(training seeds, windows)`.
        theirs: The same of the other policy; its number of training seeds may differ.
        scenarios: Scenario of each window.
        seed: Of the bootstrap; equal arguments give equal numbers.

    Raises:
        ValueError: The windows do not match or there is none.
    """
    ours, theirs = _matrix(ours), _matrix(theirs)
    if not ours.shape[1] == theirs.shape[1] == len(scenarios):
        counts = f"{ours.shape[1]}, {theirs.shape[1]} and {len(scenarios)}"
        msg = f"windows do not pair: {counts} scenarios"
        raise ValueError(msg)

    def statistic(a: Values, b: Values) -> Values:
        difference = a.mean(axis=0) - b.mean(axis=0)
        return np.array([difference.mean(), iqm(difference)])

    mean_difference, iqm_difference = statistic(ours, theirs)
    mean_interval, iqm_interval = intervals((ours, theirs), statistic, seed=seed)
    if max(len(ours), len(theirs)) > 1:
        cells = _scenario_means(ours, scenarios), _scenario_means(theirs, scenarios)
        iqm_difference = _iqm_of_differences(*cells)[0]
        iqm_interval = _interval_over_seeds(*cells, seed=seed)
    return Comparison(
        mean_difference=float(mean_difference),
        ci95=mean_interval,
        iqm_difference=float(iqm_difference),
        iqm_ci95=iqm_interval,
        probability_of_improvement=probability_of_improvement(ours, theirs),
        windows=ours.shape[1],
    )


def intervals(
    samples: Sequence[Values],
    statistic: Callable[..., Values],
    *,
    seed: int,
    repetitions: int = REPETITIONS,
) -> list[Interval]:
    """Bootstrap intervals of several numbers at once.

    Args:
        samples: Matrices `(training seeds, windows)` over the same windows. Windows are drawn for
            all of them together (that keeps the pairs), training seeds for each by itself.
        statistic: Turns matrices like `samples` into numbers `(k,)`.
        seed: Of the draws.
        repetitions: Number of draws.

    Returns:
        One interval a number; all `None` with fewer than two windows.
    """
    matrices = [_matrix(sample) for sample in samples]
    windows = matrices[0].shape[1]

    def resampled(columns: NDArray[np.int64], *rows: NDArray[np.int64]) -> Values:
        pairs = zip(matrices, rows, strict=True)
        return statistic(*(matrix.take(columns, 1).take(row, 0) for matrix, row in pairs))

    if windows < 2:
        return [None] * len(statistic(*matrices))
    bootstrap = IndependentSamplesBootstrap(
        np.arange(windows), *(np.arange(len(m)) for m in matrices), seed=np.random.default_rng(seed)
    )
    ends = bootstrap.conf_int(
        resampled, reps=repetitions, method="percentile", size=_expanded_size(windows)
    )
    return [(float(low), float(high)) for low, high in ends.T]


def iqm(values: Values) -> float:
    """Interquartile mean: the mean without the lowest and the highest quarter.

    Fewer than four values have no quarter to leave out: their plain mean.
    """
    cut = values.size // 4
    return float(np.sort(values, axis=None)[cut : values.size - cut].mean())


def probability_of_improvement(ours: Values, theirs: Values) -> float:
    """Share of paired windows in which `ours` is above `theirs`; a tie counts half.

    Both have shape `(training seeds, windows)`; every pair of training seeds is counted.
    """
    difference = _matrix(ours)[:, None] - _matrix(theirs)[None]
    return float(((np.sign(difference) + 1) / 2).mean())


def _expanded_size(blocks: int) -> float:
    """Nominal size at which a percentile interval over `blocks` has the length of Student's."""
    tail = (1 - CONFIDENCE) / 2
    t = stats.t.ppf(tail, blocks - 1) * np.sqrt(blocks / (blocks - 1))
    return float(min(1 - 2 * stats.norm.cdf(t), 1 - 1e-9))  # arch refuses 1, reached at 2 blocks


def _scenario_means(matrix: Values, scenarios: Sequence[str]) -> Values:
    """Means per (training seed, scenario): `(training seeds, scenarios)`."""
    names = np.array(scenarios)
    return np.stack([matrix[:, names == name].mean(axis=1) for name in dict.fromkeys(scenarios)], 1)


def _iqm_of_differences(ours: Values, theirs: Values) -> Values:
    """Rliable's IQM over all pairs of training seeds and all scenarios, as `(1,)`."""
    difference = ours[:, None] - theirs[None]
    return np.array([metrics.aggregate_iqm(difference)])


class _SeededBootstrap(StratifiedIndependentBootstrap):  # type: ignore[misc]  # rliable is untyped
    """rliable's bootstrap over training seeds, drawing from its own generator.

    rliable 1.2 draws from NumPy's global state, so that its intervals differ from call to call.
    """

    def _get_indices(
        self, num_runs: int, array_shape: tuple[int, ...], strata_indices: list[NDArray[np.int64]]
    ) -> tuple[Any, ...]:
        return (self._generator.integers(num_runs, size=array_shape), *strata_indices)


def _interval_over_seeds(ours: Values, theirs: Values, *, seed: int) -> Interval:
    bootstrap = _SeededBootstrap(ours, theirs, random_state=None)
    bootstrap.generator = np.random.default_rng(seed)
    ends = bootstrap.conf_int(
        _iqm_of_differences, reps=REPETITIONS, method="percentile", size=CONFIDENCE
    )
    return float(ends[0, 0]), float(ends[1, 0])


def _matrix(values: Values) -> Values:
    matrix = np.atleast_2d(np.asarray(values, np.float64))
    if matrix.ndim != 2 or matrix.size == 0 or not np.isfinite(matrix).all():
        msg = f"expected finite values (training seeds, windows), got shape {matrix.shape}"
        raise ValueError(msg)
    return matrix


def _negated(interval: Interval) -> Interval:
    return None if interval is None else (-interval[1], -interval[0])
