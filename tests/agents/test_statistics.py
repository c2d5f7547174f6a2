"""The statistics against answers known by hand, a second implementation, and their own promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gatepilot.agents.statistics import Comparison, compare, intervals, iqm


def mean(values: np.ndarray) -> np.ndarray:
    return np.array([values.mean()])


def one_scenario(ours: list[float], theirs: list[float], seed: int = 0) -> Comparison:
    return compare(np.array(ours), np.array(theirs), ["s"] * len(ours), seed=seed)


def test_the_figures_of_a_small_pair_are_those_worked_out_by_hand() -> None:
    # Differences 4, 1, 1, 0, -1, 1, 2, 0: mean 1; sorted -1 0 | 0 1 1 1 | 2 4, middle half 0.75.
    result = one_scenario([4, 2, 3, 4, 4, 6, 8, 7], [0, 1, 2, 4, 5, 5, 6, 7])
    assert result.mean_difference == 1.0
    assert result.iqm_difference == 0.75
    assert result.probability_of_improvement == (5 + 2 / 2) / 8
    assert result.windows == 8


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=60))
def test_iqm_is_the_trimmed_mean_of_scipy(values: list[int]) -> None:
    assert iqm(np.array(values, float)) == pytest.approx(stats.trim_mean(values, 0.25))


def test_the_interval_agrees_with_a_second_implementation() -> None:
    rng = np.random.default_rng(5)
    sample = rng.exponential(size=25)
    (interval,) = intervals([sample], mean, seed=3, repetitions=20_000)
    draws = np.sort(rng.choice(sample, size=(20_000, 25)).mean(axis=1))
    tail = stats.norm.cdf(stats.t.ppf(0.025, 24) * np.sqrt(25 / 24))
    expected = np.quantile(draws, [tail, 1 - tail])
    assert interval == pytest.approx(expected, abs=0.03 * (expected[1] - expected[0]))


@pytest.mark.parametrize("windows", [8, 40])
def test_a_95_percent_interval_covers_the_truth_in_90_to_99_of_100_cases(windows: int) -> None:
    rng = np.random.default_rng(11)
    covered = 0
    for seed in range(200):
        sample = rng.normal(2.0, 3.0, windows)
        (interval,) = intervals([sample], mean, seed=seed, repetitions=400)
        assert interval is not None
        covered += interval[0] <= 2.0 <= interval[1]
    assert 180 <= covered <= 198


def test_equal_seeds_give_equal_numbers_and_others_do_not() -> None:
    rng = np.random.default_rng(0)
    ours, theirs, names = rng.normal(size=(3, 12)), rng.normal(size=(2, 12)), ["a", "b"] * 6
    first = compare(ours, theirs, names, seed=4)
    assert compare(ours, theirs, names, seed=4) == first
    assert compare(ours, theirs, names, seed=5) != first


def test_fewer_than_two_windows_give_no_interval() -> None:
    result = one_scenario([1], [0])
    assert result.ci95 is None
    assert result.iqm_ci95 is None
    assert result.verdict == "too few windows"


@pytest.mark.parametrize("windows", [2, 3, 7])
def test_few_windows_give_an_interval_within_the_differences(windows: int) -> None:
    result = one_scenario(list(range(windows)), [0] * windows)
    assert result.ci95 is not None
    assert 0 <= result.ci95[0] <= result.mean_difference <= result.ci95[1] <= windows - 1


def test_no_win_is_called_below_six_windows() -> None:
    assert one_scenario([5] * 5, [0] * 5).verdict == "too few windows"
    assert one_scenario([5] * 6, [0] * 6).verdict == "win"
    assert one_scenario([0] * 6, [5] * 6).verdict == "loss"


def test_a_rare_disaster_is_not_hidden_by_the_iqm() -> None:
    # 1 better in nine windows of ten, 100 worse in the tenth: the IQM says +1, the mean -9.1.
    result = one_scenario(([1.0] * 9 + [-100.0]) * 6, [0.0] * 60)
    assert result.mean_difference == pytest.approx(-9.1)
    assert result.iqm_difference == 1.0
    assert result.verdict == "undecided"


def test_reversed_sees_the_same_from_the_other_side() -> None:
    rng = np.random.default_rng(2)
    forth = one_scenario(rng.normal(1, 1, 20).tolist(), rng.normal(0, 1, 20).tolist())
    back = forth.reversed()
    assert back.mean_difference == -forth.mean_difference
    assert forth.ci95 is not None
    assert back.ci95 == (-forth.ci95[1], -forth.ci95[0])
    assert back.probability_of_improvement == pytest.approx(1 - forth.probability_of_improvement)
    assert back.reversed() == forth


def test_several_training_seeds_are_averaged_per_scenario_before_the_iqm() -> None:
    # Scenario a: seed means 1 and 3; scenario b: 5 and 27. IQM of {1, 3, 5, 27} is 4.
    ours = np.array([[0.0, 2.0, 5.0], [3.0, 3.0, 27.0]])
    result = compare(ours, np.zeros((1, 3)), ["a", "a", "b"], seed=0)
    assert result.iqm_difference == 4.0
    assert result.mean_difference == pytest.approx((1.5 + 2.5 + 16) / 3)
    assert result.probability_of_improvement == pytest.approx((5 + 0.5) / 6)
    assert result.iqm_ci95 is not None
    assert result.iqm_ci95[0] == 3.0  # both draws of a are 1 and both of b 5: (1 + 5) / 2


def test_training_seeds_that_differ_widen_the_interval() -> None:
    rng = np.random.default_rng(8)
    windows = rng.normal(size=(1, 30))
    alike = compare(windows + np.zeros((4, 1)), np.zeros(30), ["s"] * 30, seed=0)
    apart = compare(windows + rng.normal(0, 3, (4, 1)), np.zeros(30), ["s"] * 30, seed=0)
    assert alike.ci95 is not None
    assert apart.ci95 is not None
    assert apart.ci95[1] - apart.ci95[0] > 3 * (alike.ci95[1] - alike.ci95[0])


def test_windows_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="windows do not pair: 3, 2 and 3"):
        compare(np.zeros(3), np.zeros(2), ["s"] * 3, seed=0)
    with pytest.raises(ValueError, match="finite"):
        compare(np.array([np.nan]), np.zeros(1), ["s"], seed=0)
