"""Length laws: quantiles and correlation survive fit and sampling."""

import numpy as np
import pytest

from gatepilot.envs.workload.lengths import LengthLaw, fit_lengths

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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probabilities": [0.0, 0.5, 0.9]}, "probabilities: must rise"),
        ({"probabilities": [0.0, 0.0, 1.0]}, "probabilities: must rise"),
        ({"prompt_tokens": [1.0, 2.0]}, "prompt_tokens: 2 values for 3"),
        ({"output_tokens": [3.0, 2.0, 4.0]}, "output_tokens: must never fall"),
        ({"output_tokens": [0.0, 2.0, 4.0]}, "output_tokens: .* at least 1"),
        ({"output_tokens": [1.0, np.nan, 4.0]}, "output_tokens: .* at least 1"),
        ({"rank_correlation": 1.0}, "rank_correlation: 1.0"),
        ({"rank_correlation": np.nan}, "rank_correlation: nan"),
    ],
)
def test_bad_tables(change: dict[str, object], message: str) -> None:
    good: dict[str, object] = {
        "probabilities": [0.0, 0.5, 1.0],
        "prompt_tokens": [1.0, 2.0, 3.0],
        "output_tokens": [1.0, 2.0, 3.0],
        "rank_correlation": 0.0,
    }
    arguments = {
        key: np.array(value) if isinstance(value, list) else value
        for key, value in {**good, **change}.items()
    }
    with pytest.raises(ValueError, match=message):
        LengthLaw(**arguments)  # type: ignore[arg-type]
