"""Length laws: quantiles and correlation survive fit and sampling."""

from statistics import NormalDist

import numpy as np
import pytest

from gatepilot.envs.workload.lengths import (
    LENGTH_GRID,
    LengthLaw,
    QuantileTable,
    fit_lengths,
    placed_points,
    rank_correlation,
)

POINTS = np.array([0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99])


def spearman(one: np.ndarray, two: np.ndarray) -> float:
    ranks = [np.argsort(np.argsort(values)) for values in (one, two)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


@pytest.mark.parametrize("rho", [-0.6, 0.0, 0.8])
def test_fit_and_sample_keep_quantiles_and_correlation(rho: float) -> None:
    rng = np.random.default_rng(0)
    z = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], 50_000)
    prompt = np.rint(np.exp(6 + z[:, 0])).astype(np.int32) + 1
    output = np.rint(np.exp(4 + 1.5 * z[:, 1])).astype(np.int32) + 1
    law = fit_lengths(prompt, output)
    drawn_prompt, drawn_output = law.sample(rng, 200_000)
    for drawn, data in ((drawn_prompt, prompt), (drawn_output, output)):
        wanted = np.quantile(data, POINTS)
        assert np.quantile(drawn, POINTS) == pytest.approx(wanted, rel=0.04, abs=0.5)
        assert data.min() <= drawn.min()
        assert drawn.max() <= data.max()
    assert spearman(drawn_prompt, drawn_output) == pytest.approx(spearman(prompt, output), abs=0.02)


def test_atoms_survive() -> None:
    """Seven in ten answers of exactly two tokens must not be smeared."""
    rng = np.random.default_rng(0)
    output = np.where(rng.random(20_000) < 0.7, 2, rng.integers(3, 500, 20_000)).astype(np.int32)
    law = fit_lengths(np.full(20_000, 9, dtype=np.int32), output)
    prompt, drawn = law.sample(rng, 50_000)
    assert (prompt == 9).all()
    assert law.rank_correlation == 0
    assert (drawn == 2).mean() == pytest.approx(0.7, abs=0.02)


def test_placed_points_follow_jumps_that_percentiles_smear() -> None:
    """Two narrow humps far apart: a quantile between them lies in one or the other."""
    rng = np.random.default_rng(0)
    low, high = rng.integers(90, 110, 24_630), rng.integers(900, 1100, 75_370)
    prompt = np.concatenate([low, high]).astype(np.int32)
    edges = np.array([0.2, 0.246, 0.247, 0.5, 0.99])
    wanted = np.quantile(prompt, edges, method="inverted_cdf")
    scores = np.array([NormalDist().inv_cdf(edge) for edge in edges])

    def worst(points: int | None) -> float:
        return float(
            np.abs(fit_lengths(prompt, prompt, points).prompt.at(scores) / wanted - 1).max()
        )

    assert worst(40) < 0.03
    assert worst(None) > 0.2


@pytest.mark.parametrize("points", [2, 3, 17, 400])
def test_placed_points_begin_and_end(points: int) -> None:
    quantiles = np.exp(np.linspace(0, 9, LENGTH_GRID.size) ** 1.1)
    places = placed_points(quantiles, points)
    assert places.size == points
    assert (np.diff(places) > 0).all()
    assert places[0] == 0
    assert places[-1] == LENGTH_GRID.size - 1


def test_equal_lengths_need_two_points() -> None:
    assert placed_points(np.full(LENGTH_GRID.size, 7.0), 50).tolist() == [0, LENGTH_GRID.size - 1]


def test_rank_correlation_against_sorting() -> None:
    rng = np.random.default_rng(2)
    one = rng.permutation(1000).astype(np.int32)
    rough = one // 2 + rng.integers(0, 300, 1000)
    two = (rough * 1000 + np.arange(1000)).astype(np.int32)  # no ties
    assert rank_correlation(one, two) == pytest.approx(spearman(one, two), abs=1e-12)
    assert rank_correlation(one[:1], two[:1]) == 0


@pytest.mark.parametrize(
    ("probabilities", "tokens", "message"),
    [
        ([0.0, 0.5, 0.9], [1.0, 2.0, 3.0], "probabilities: must rise"),
        ([0.0, 0.0, 1.0], [1.0, 2.0, 3.0], "probabilities: must rise"),
        ([0.0, np.nan, 1.0], [1.0, 2.0, 3.0], "probabilities: must rise"),
        ([0.0, 0.5, 1.0], [1.0, 2.0], "tokens: 2 values for 3"),
        ([0.0, 0.5, 1.0], [3.0, 2.0, 4.0], "tokens: must never fall"),
        ([0.0, 0.5, 1.0], [0.0, 2.0, 4.0], "tokens: .* at least 1"),
        ([0.0, 0.5, 1.0], [1.0, np.nan, 4.0], "tokens: .* at least 1"),
    ],
)
def test_bad_tables(probabilities: list[float], tokens: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        QuantileTable(np.array(probabilities), np.array(tokens))


@pytest.mark.parametrize("correlation", [1.0, -1.0, np.nan])
def test_bad_correlation(correlation: float) -> None:
    table = QuantileTable(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match=f"rank_correlation: {correlation}"):
        LengthLaw(table, table, correlation)
