"""Means over a suite: known answers, the closed form of their spread, and their own promise."""

import numpy as np
import pytest
from scipy import stats

from gatepilot.agents.statistics import intervals
from gatepilot.agents.suite_statistics import SuiteBootstrap, suite_mean


def test_every_scenario_counts_alike() -> None:
    values = [np.array([[1.0, 3.0], [0.0, 0.0]]), np.array([[10.0], [6.0]])]
    np.testing.assert_array_equal(suite_mean(values), [(2 + 10) / 2, (0 + 6) / 2])


def test_the_interval_is_as_long_as_student_s_for_a_sum_of_means() -> None:
    """By hand: the variance of a mean of means is the sum of s^2 / n over the squared count."""
    rng = np.random.default_rng(3)
    samples = [rng.normal(m, s, (1, n)) for m, s, n in ((0, 1, 40), (5, 2, 30), (9, 0.5, 50))]
    parts = [sample.var(ddof=1) / sample.shape[1] for sample in samples]
    freedom = sum(parts) ** 2 / sum(
        part**2 / (sample.shape[1] - 1) for part, sample in zip(parts, samples, strict=True)
    )
    half = stats.t.ppf(0.975, freedom) * np.sqrt(sum(parts)) / 3
    bootstrap = SuiteBootstrap([40, 30, 50], seed=1, repetitions=40_000)
    ((low, high),) = (found for found in bootstrap.intervals(samples) if found is not None)
    centre = np.mean([sample.mean() for sample in samples])
    assert (low, high) == pytest.approx((centre - half, centre + half), abs=0.03 * half)


def test_one_scenario_has_the_interval_of_a_plain_mean() -> None:
    rng = np.random.default_rng(5)
    sample = rng.exponential(size=(1, 12))
    (plain,) = intervals([sample], lambda m: np.array([m.mean()]), seed=0, repetitions=20_000)
    (suite,) = SuiteBootstrap([12], seed=0, repetitions=20_000).intervals([sample])
    assert plain is not None
    assert suite == pytest.approx(plain, abs=0.05 * (plain[1] - plain[0]))


@pytest.mark.parametrize("spread", [(1.0, 1.0, 1.0, 1.0), (20.0, 1.0, 1.0, 1.0)])
def test_a_95_percent_interval_covers_the_truth_in_90_to_99_of_100_cases(
    spread: tuple[float, ...],
) -> None:
    rng = np.random.default_rng(11)
    bootstrap = SuiteBootstrap([8] * 4, seed=2, repetitions=2000)
    figures = 400
    values = [rng.normal(2.0, s, (figures, 8)) for s in spread]
    found = bootstrap.intervals(values)
    covered = sum(low <= 2.0 <= high for low, high in filter(None, found))
    assert 0.90 * figures <= covered <= 0.99 * figures


def test_pairs_are_kept() -> None:
    """Two policies that differ by 1 in every window differ by exactly 1 in every draw."""
    rng = np.random.default_rng(0)
    values = [rng.normal(0, 50, (1, 9)), rng.normal(0, 50, (1, 4))]
    both = [np.concatenate([part, part + 1]) for part in values]
    bootstrap = SuiteBootstrap([9, 4], seed=0)
    (difference,) = bootstrap.intervals([part[1:] - part[:1] for part in both])
    assert difference == pytest.approx((1.0, 1.0))
    first, second = bootstrap.intervals(both)
    assert first is not None
    assert second == pytest.approx((first[0] + 1, first[1] + 1))


def test_equal_seeds_give_equal_intervals_and_constants_none_of_length() -> None:
    values = [np.full((2, 3), 4.0), np.full((2, 5), 6.0)]
    bootstrap = SuiteBootstrap([3, 5], seed=7)
    assert bootstrap.intervals(values) == [pytest.approx((5.0, 5.0))] * 2
    rng = np.random.default_rng(0)
    drawn = [rng.normal(size=(3, 6)), rng.normal(size=(3, 7))]
    first = SuiteBootstrap([6, 7], seed=1).intervals(drawn)
    assert SuiteBootstrap([6, 7], seed=1).intervals(drawn) == first
    assert SuiteBootstrap([6, 7], seed=2).intervals(drawn) != first


def test_a_single_window_allows_no_interval() -> None:
    values = [np.ones((2, 1)), np.ones((2, 5))]
    assert SuiteBootstrap([1, 5], seed=0).intervals(values) == [None, None]


@pytest.mark.parametrize(
    ("windows", "values", "words"),
    [
        ([], [], "windows are"),
        ([3, 0], [], "windows are"),
        ([2], [np.ones((1, 3))], "expected finite values"),
        ([2], [np.array([[np.nan, 1.0]])], "expected finite values"),
    ],
)
def test_what_does_not_fit_is_refused(
    windows: list[int], values: list[np.ndarray], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        SuiteBootstrap(windows, seed=0).intervals(values)
