"""Fitting recovers what it was given."""

import math
from dataclasses import replace

import numpy as np
import pytest

from gatepilot.envs.workload import fit as fit_module
from gatepilot.envs.workload import fit_bursts as fit_bursts_module
from gatepilot.envs.workload.arrivals import (
    MIN_CV,
    GapLaw,
    Pieces,
    gap_parameters,
    local_dispersion,
    renewal_arrivals,
)
from gatepilot.envs.workload.bootstrap import Burstiness
from gatepilot.envs.workload.bursts import Bursts
from gatepilot.envs.workload.fit import default_bins, fit_model
from gatepilot.envs.workload.lengths import LengthLaw, QuantileTable
from gatepilot.envs.workload.model import Facts, Group, WorkloadModel
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
    data = renewal(law, cv, 5.0, 12_000.0, seed=1)  # a sample near what is expected
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


@pytest.fixture
def rough_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit that looks at few trials and at no bursts, where neither matters."""

    def unchanged(model: WorkloadModel, *_: object) -> WorkloadModel:
        return model

    monkeypatch.setattr(fit_module, "_TRIAL_REQUESTS", 1)
    monkeypatch.setattr(fit_module, "_with_bursts", unchanged)


@pytest.mark.usefixtures("rough_fit")
def test_tenants_make_groups() -> None:
    one, two = renewal("gamma", 1.0, 2.0, 2000.0), renewal("gamma", 1.0, 4.0, 2000.0, seed=1)
    arrival_s = np.concatenate([one.arrival_s, two.arrival_s])
    order = np.argsort(arrival_s)
    labels = np.repeat([3, 9], [len(one), len(two)])[order]
    tokens = np.where(labels == 3, 10, 1000)
    data = Requests(
        arrival_s[order],
        tokens,
        tokens,
        2000.0,
        client=(labels == 9).astype(int),
        client_names=("3", "9"),
    )
    model = fit_model(data, FACTS, bins=4, by_client=True)
    assert [group.label for group in model.groups] == ["3", "9"]
    drawn = model.sample(0, 2000, 0)
    assert set(drawn.prompt_tokens.tolist()) == {10, 1000}
    assert (drawn.prompt_tokens == drawn.output_tokens).all()
    assert (drawn.prompt_tokens == 10).mean() == pytest.approx(1 / 3, abs=0.04)


def of_tenants(counts: list[int]) -> Requests:
    """Poisson tenants named t0, t1, ..., each with prompts of its own length."""
    rng = np.random.default_rng(0)
    client = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    arrival_s = np.sort(rng.uniform(0, 2000.0, client.size))
    tokens = 10 ** (client + 1)
    names = tuple(f"t{i}" for i in range(len(counts)))
    return Requests(arrival_s, tokens, tokens, 2000.0, client=client, client_names=names)


@pytest.mark.usefixtures("rough_fit")
def test_the_busiest_tenants_have_groups_of_their_own() -> None:
    data = of_tenants([40, 900, 25, 700])
    model = fit_model(data, FACTS, bins=2, by_client=True, most_groups=3)
    assert [group.label for group in model.groups] == ["t1", "t3", "others"]
    assert model.mean_rate_rps == pytest.approx(data.mean_rate_rps)
    others = model.sample(0, 2000, 0).of_clients([2])
    assert set(others.prompt_tokens.tolist()) == {10, 1000}
    everyone = fit_model(data, FACTS, bins=2, by_client=True, most_groups=4)
    assert [group.label for group in everyone.groups] == ["t0", "t1", "t2", "t3"]


def test_bins_that_are_chosen() -> None:
    data = renewal("gamma", 1.0, 5.0, 6000.0)
    assert default_bins(data) == 40  # 150 s
    assert default_bins(renewal("gamma", 1.0, 0.1, 6000.0)) in (2, 3)  # 200 requests
    assert default_bins(data.within(0.0, 10.0)) == 1


def switching(bursts: Bursts, rate_rps: float, span_s: float, cv: float = 1.0) -> Requests:
    """A sample of a model with one switching group."""
    one = QuantileTable(np.array([0.0, 1.0]), np.array([5.0, 5.0]))
    group = Group(
        "g",
        np.full(4, rate_rps),
        "gamma",
        np.full(4, cv),
        LengthLaw(one, one, 0.0),
        bursts,
    )
    return WorkloadModel(FACTS, span_s, (group,)).sample(0.0, span_s, 1)


def test_a_coarse_search_finds_silences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_bursts_module, "_STEPS", ((0.4, 1), (0.4, 1), (0.2, 1)))
    data = switching(Bursts(8.0, 30.0, 0.3), 3.0, 3000.0)
    wanted = Burstiness.of(data.arrival_s, 3000.0, (1.0, 15.0, 60.0))
    found = fit_bursts_module.fit_bursts(data.arrival_s, 3000.0, np.full(2, 3.0), wanted, 0)
    assert found.bursts is not None
    assert found.bursts.quiet_s > 5
    assert found.seen == pytest.approx(wanted.values, rel=0.4)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "bursts", [Bursts(8.0, 30.0, 0.5), Bursts(40.0, 0.0, 0.6)], ids=["on and off", "wandering"]
)
def test_bursts_are_found_where_gaps_cannot_explain_the_data(bursts: Bursts) -> None:
    data = switching(bursts, 3.0, 8000.0)
    model = fit_model(data, FACTS, bins=4)
    found = model.groups[0].bursts
    assert found is not None
    assert found.busy_share == pytest.approx(bursts.busy_share, rel=0.4)
    drawn = [model.sample(0, 8000, s).arrival_s for s in range(40)]
    for window_s in (1.0, 15.0, 60.0):
        wanted = local_dispersion(data.arrival_s, 8000, window_s)
        seen = [local_dispersion(a, 8000, window_s) for a in drawn]
        # The data are one course of luck; from course to course the dispersion of minutes varies
        # by an eighth, with wandering levels by a quarter.
        assert abs(np.mean(seen) - wanted) < 2.5 * np.std(seen) < 0.75 * wanted


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
    with pytest.raises(ValueError, match="name no tenants"):
        fit_model(data, FACTS, bins=2, by_client=True)
    with pytest.raises(ValueError, match="most_groups: 0"):
        fit_model(of_tenants([300]), FACTS, bins=2, by_client=True, most_groups=0)
    with pytest.raises(ValueError, match="length_points: 1"):
        fit_model(data, FACTS, bins=2, length_points=1)
    with pytest.raises(ValueError, match="too few"):
        fit_model(data.within(0.0, 3.0), FACTS, bins=2)
    assert math.isclose(data.span_s, 500.0)
    at_once = replace(data, arrival_s=np.full(len(data), 100.5))
    with pytest.raises(ValueError, match=r"arrive at 100\.5 s; there are no gaps to fit"):
        fit_model(at_once, FACTS, bins=2)
    with pytest.raises(ValueError, match=r"in 9e\+08 s are too seldom to fit"):
        fit_model(replace(data, span_s=9e8), FACTS, bins=2)


@pytest.mark.parametrize("gap_s", [0.2, 1.0, 7.0])
def test_evenly_spaced_arrivals_take_the_evenest_gaps(gap_s: float) -> None:
    """A load generator: its local dispersion is 0 where a window holds a whole number of gaps."""
    arrival_s = np.arange(0.0, 1200.0, gap_s).round(3)
    ones = np.ones(arrival_s.size, dtype=np.int32)
    model = fit_model(Requests(arrival_s, ones, ones, 1200.0), FACTS, bins=1)
    assert model.groups[0].gap_cv.tolist() == [MIN_CV]
    assert model.groups[0].bursts is None
    assert model.groups[0].rate_rps.tolist() == pytest.approx([1 / gap_s], rel=0.01)
