"""Arrival processes against theory, with fixed seeds."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from gatepilot.envs.workload.arrivals import (
    GapLaw,
    Pieces,
    gap_parameters,
    local_dispersion,
    renewal_arrivals,
    window_counts,
)


def pieces(
    lengths_s: list[float], rates_rps: list[float], law: GapLaw, cv: float, times: int = 1
) -> Pieces:
    """Pieces one after another, the whole row of them `times` times over."""
    length_s = np.array(lengths_s * times)
    form, exponent = gap_parameters(law, np.full(length_s.size, cv))
    start_s = np.tile(np.cumsum([0.0, *lengths_s[:-1]]), times)
    return Pieces(start_s, length_s, np.array(rates_rps * times), form, exponent)


def gaps_of(law: GapLaw, cv: float, n: int = 200_000) -> NDArray[np.float64]:
    arrival_s, _ = renewal_arrivals(np.random.default_rng(7), pieces([float(n)], [1.0], law, cv))
    return np.diff(np.sort(arrival_s))


@pytest.mark.parametrize("law", ["gamma", "weibull"])
@pytest.mark.parametrize("cv", [0.3, 1.0, 2.0, 5.0])
def test_gaps_have_the_wanted_mean_and_cv(law: GapLaw, cv: float) -> None:
    gaps = gaps_of(law, cv)
    assert gaps.mean() == pytest.approx(1, abs=4 * cv / math.sqrt(gaps.size) + 1e-3)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.08)


@pytest.mark.parametrize("law", ["gamma", "weibull"])
def test_cv_one_is_a_poisson_process(law: GapLaw) -> None:
    arrival_s, _ = renewal_arrivals(np.random.default_rng(3), pieces([50_000.0], [4.0], law, 1.0))
    gaps = np.sort(np.diff(np.sort(arrival_s)))
    # Kolmogorov-Smirnov against the exponential law; 1.95 is its 0.1 % point.
    cdf = 1 - np.exp(-4.0 * gaps)
    distance = np.abs(cdf - np.arange(1, gaps.size + 1) / gaps.size).max()
    assert distance * math.sqrt(gaps.size) < 1.95
    for window_s in (1.0, 10.0):
        assert local_dispersion(arrival_s, 50_000.0, window_s) == pytest.approx(1, abs=0.06)


def test_gamma_gaps_follow_the_gamma_law() -> None:
    # Shape 4 (cv 0.5): an Erlang law, whose distribution function is elementary.
    gaps = np.sort(gaps_of("gamma", 0.5))
    x = 4 * gaps
    cdf = 1 - np.exp(-x) * (1 + x + x**2 / 2 + x**3 / 6)
    distance = np.abs(cdf - np.arange(1, gaps.size + 1) / gaps.size).max()
    assert distance * math.sqrt(gaps.size) < 1.95


def test_weibull_gaps_follow_the_weibull_law() -> None:
    # Shape 1/2: mean 2, variance 20, so cv = sqrt(5).
    gaps = np.sort(gaps_of("weibull", math.sqrt(5)))
    cdf = 1 - np.exp(-np.sqrt(2 * gaps))
    distance = np.abs(cdf - np.arange(1, gaps.size + 1) / gaps.size).max()
    assert distance * math.sqrt(gaps.size) < 1.95


@pytest.mark.parametrize("law", ["gamma", "weibull"])
@pytest.mark.parametrize("cv", [0.3, 1.0, 6.0])
def test_counts_are_unbiased_in_short_pieces(law: GapLaw, cv: float) -> None:
    """Expected counts below 1: a process that starts with a full gap, or at once, fails."""
    times = 20_000
    arrival_s, owner = renewal_arrivals(
        np.random.default_rng(1), pieces([0.5, 0.2], [1.0, 1.0], law, cv, times)
    )
    counts = np.bincount(owner, minlength=2 * times).reshape(times, 2)
    for column, expected in enumerate((0.5, 0.2)):
        deviation = counts[:, column].std() / math.sqrt(times)
        assert counts[:, column].mean() == pytest.approx(expected, abs=4 * deviation)
    assert arrival_s.min() >= 0
    assert arrival_s.max() <= 0.7


def test_variance_of_counts_follows_renewal_theory() -> None:
    """Over long pieces the dispersion of counts tends to the squared cv."""
    for cv in (0.5, 2.0):
        _, owner = renewal_arrivals(
            np.random.default_rng(2), pieces([400.0], [1.0], "gamma", cv, 3000)
        )
        counts = np.bincount(owner, minlength=3000)
        assert counts.var() / counts.mean() == pytest.approx(cv**2, rel=0.12)


def test_rates_apply_to_their_pieces() -> None:
    arrival_s, owner = renewal_arrivals(
        np.random.default_rng(5),
        pieces([1000.0, 1000.0, 0.0, 1000.0], [2.0, 0.0, 5.0, 8.0], "gamma", 1.0),
    )
    counts = np.bincount(owner, minlength=4)
    assert counts[1] == counts[2] == 0
    assert counts[0] == pytest.approx(2000, abs=180)
    assert counts[3] == pytest.approx(8000, abs=360)
    assert ((arrival_s[owner == 3] >= 2000) & (arrival_s[owner == 3] <= 3000)).all()


@pytest.mark.parametrize("law", ["gamma", "weibull"])
def test_no_arrival_is_counted_twice(law: GapLaw) -> None:
    """Gaps are drawn in rounds; where one ends, its last arrival must not start the next too."""
    arrival_s, _ = renewal_arrivals(
        np.random.default_rng(4), pieces([30.0], [1.0], law, 1.2, times=3000)
    )
    assert np.unique(arrival_s).size == arrival_s.size


def test_no_rate_no_arrivals() -> None:
    arrival_s, owner = renewal_arrivals(
        np.random.default_rng(0), pieces([10.0], [0.0], "gamma", 1.0)
    )
    assert arrival_s.size == owner.size == 0


def test_local_dispersion_by_hand() -> None:
    # Counts 3, 1, 0, 2: differences -2, -1, 2, half their mean square 1.5, mean 1.5.
    arrival_s = np.array([0.1, 0.2, 0.9, 1.5, 3.0, 3.9, 4.2])
    assert window_counts(arrival_s, 4.5, 1.0).tolist() == [3, 1, 0, 2]
    assert local_dispersion(arrival_s, 4.5, 1.0) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="fewer than two"):
        local_dispersion(arrival_s, 4.5, 3.0)


def test_local_dispersion_ignores_slow_trends() -> None:
    rng = np.random.default_rng(0)
    rising = np.sort(10_000 * np.sqrt(rng.random(100_000)))
    counts = window_counts(rising, 10_000, 10)
    assert counts.var() / counts.mean() > 10
    assert local_dispersion(rising, 10_000, 10) == pytest.approx(1, abs=0.15)
