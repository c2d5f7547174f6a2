"""Fitting recovers what it was given."""

import math

import numpy as np
import pytest

from gatepilot.envs.workload.arrivals import (
    GapLaw,
    Pieces,
    gap_parameters,
    local_dispersion,
    renewal_arrivals,
)
from gatepilot.envs.workload.fit import fit_model
from gatepilot.envs.workload.model import Facts
from gatepilot.envs.workload.request import Requests

FACTS = Facts("toy", "a toy", "nothing", "nowhere", "none", "nobody")


def renewal(law: GapLaw, cv: float, rate_rps: float, span_s: float, seed: int = 0) -> Requests:
    """A renewal process with lengths of 5 and 7."""
    form, exponent = gap_parameters(law, np.array([cv]))
    one = np.ones(1)
    arrival_s, _ = renewal_arrivals(
        np.random.default_rng(seed), Pieces(0 * one, span_s * one, rate_rps * one, form, exponent)
    )
    n = arrival_s.size
    return Requests(np.sort(arrival_s), np.full(n, 5), np.full(n, 7), span_s)


@pytest.mark.parametrize(
    ("law", "cv", "tolerance"),
    # Very even gaps: the chance of a bin's count, taken as rate, is much of the little there is.
    [("gamma", 2.0, 0.15), ("weibull", 2.5, 0.15), ("gamma", 0.4, 0.3)],
)
def test_recovers_rate_and_burstiness(law: GapLaw, cv: float, tolerance: float) -> None:
    data = renewal(law, cv, 5.0, 12_000.0)
    model = fit_model(data, FACTS, bins=20)
    assert model.mean_rate_rps == pytest.approx(data.mean_rate_rps, rel=1e-5)
    drawn = [model.sample(0, 12_000, s).arrival_s for s in range(8)]
    for window_s in (1.0, 15.0, 60.0):
        wanted = local_dispersion(data.arrival_s, 12_000, window_s)
        seen = np.mean([local_dispersion(a, 12_000, window_s) for a in drawn])
        assert seen == pytest.approx(wanted, rel=tolerance)


def test_poisson_stays_poisson() -> None:
    model = fit_model(renewal("gamma", 1.0, 10.0, 6000.0), FACTS, bins=10)
    assert np.median(model.groups[0].gap_cv) == pytest.approx(1.0, abs=0.1)


def test_labels_make_groups() -> None:
    one, two = renewal("gamma", 1.0, 2.0, 2000.0), renewal("gamma", 1.0, 4.0, 2000.0, seed=1)
    arrival_s = np.concatenate([one.arrival_s, two.arrival_s])
    order = np.argsort(arrival_s)
    labels = np.repeat([3, 9], [len(one), len(two)])[order]
    tokens = np.where(labels == 3, 10, 1000)
    model = fit_model(
        Requests(arrival_s[order], tokens, tokens, 2000.0), FACTS, bins=4, labels=labels
    )
    assert [group.label for group in model.groups] == ["3", "9"]
    drawn = model.sample(0, 2000, 0)
    assert set(drawn.prompt_tokens.tolist()) == {10, 1000}
    assert (drawn.prompt_tokens == drawn.output_tokens).all()
    assert (drawn.prompt_tokens == 10).mean() == pytest.approx(1 / 3, abs=0.04)


def test_empty_bins_stay_empty() -> None:
    data = renewal("gamma", 1.0, 5.0, 1000.0)
    quiet = Requests(data.arrival_s, data.prompt_tokens, data.output_tokens, 2000.0)
    model = fit_model(quiet, FACTS, bins=4)
    assert model.groups[0].rate_rps[2:].tolist() == [0, 0]
    assert len(model.sample(1000.0, 2000.0, 0)) == 0


def test_same_seed_same_model() -> None:
    data = renewal("weibull", 2.0, 5.0, 1500.0)
    one, two = (fit_model(data, FACTS, bins=3, seed=4).to_json() for _ in range(2))
    assert one == two


def test_bad_arguments() -> None:
    data = renewal("gamma", 1.0, 1.0, 500.0)
    with pytest.raises(ValueError, match="bins: 0"):
        fit_model(data, FACTS, bins=0)
    with pytest.raises(ValueError, match="labels: 3 for"):
        fit_model(data, FACTS, bins=2, labels=np.zeros(3, dtype=np.int64))
    with pytest.raises(ValueError, match="too few"):
        fit_model(data.within(0.0, 3.0), FACTS, bins=2)
    assert math.isclose(data.span_s, 500.0)
