"""The check of a model against its trace: it tells good models from bad ones."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from gatepilot.envs.workload.arrivals import local_dispersion
from gatepilot.envs.workload.bootstrap import Burstiness, dispersion_interval, local_dispersions
from gatepilot.envs.workload.bursts import Bursts
from gatepilot.envs.workload.check import check_model
from gatepilot.envs.workload.group import Facts, Group
from gatepilot.envs.workload.lengths import LengthLaw, QuantileTable
from gatepilot.envs.workload.model import WorkloadModel
from gatepilot.experiments.workload_wording import check_tables, checks_table

SPAN_S = 3000.0


def table(middle: float) -> QuantileTable:
    return QuantileTable(np.array([0.0, 0.5, 1.0]), middle * np.array([0.2, 1.0, 6.0]))


def model(*, cv: float = 1.0, prompt: float = 500.0, rho: float = 0.4) -> WorkloadModel:
    law = LengthLaw(table(prompt), table(90.0), rho)
    group = Group("g", np.full(3, 6.0), "gamma", np.full(3, cv), law)
    return WorkloadModel(Facts("toy", "b", "c", "d", "e", "f"), SPAN_S, (group,))


def test_a_model_is_like_its_own_sample() -> None:
    found = check_model(model(), model().sample(0.0, SPAN_S, 78), seeds=6)
    assert found.passed
    assert found.seeds == 6
    assert [part.window_s for part in found.dispersions] == [1.0, 15.0, 60.0]
    ratios = [part.ratio or 0.0 for part in found.dispersions]
    assert ratios == pytest.approx([1, 1, 1], rel=0.25)
    assert len(found.lengths) == 14
    assert abs(found.worst_length.error_fraction) < 0.05
    assert found.model_rate_rps == pytest.approx(found.trace_rate_rps, rel=0.05)
    assert found.model_rank_correlation == pytest.approx(0.4, abs=0.03)
    content = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert content["passed"] is True
    assert content["dispersions"][0]["ratio"] == found.dispersions[0].ratio
    assert content["lengths"][3]["error_fraction"] == found.lengths[3].error_fraction


def test_too_bursty_is_found_out() -> None:
    found = check_model(model(cv=2.0), model().sample(0.0, SPAN_S, 78), seeds=4)
    assert not found.passed
    assert not found.dispersions[0].passed
    assert (found.dispersions[0].ratio or 0.0) > 1.5
    assert all(part.passed for part in found.lengths)


def test_without_a_dispersion_there_is_no_ratio() -> None:
    """One request a second: no model is as even, and nothing is divided by 0."""
    even = model().sample(0.0, SPAN_S, 78)
    even = replace(even.take(np.arange(3000)), arrival_s=np.arange(3000.0))
    found = check_model(model(), even, seeds=2)
    assert [part.trace for part in found.dispersions] == [0.0, 0.0, 0.0]
    assert [part.ratio for part in found.dispersions] == [None, None, None]
    assert [part.passed for part in found.dispersions] == [False, False, False]
    content = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert content["dispersions"][0]["ratio"] is None
    rows = check_tables(found)[0].rows
    assert [row[4] for row in rows] == ["-", "-", "-"]
    assert "= - " in " ".join(checks_table([found]).rows[0]) + " "


def test_an_interval_without_an_end_is_none_in_json() -> None:
    """All requests in the last complete window: what else it could have been is not known."""
    data = model().sample(0.0, SPAN_S, 78).take(np.arange(50))
    late = replace(data, arrival_s=np.linspace(SPAN_S - 0.9, SPAN_S - 0.1, 50))
    assert dispersion_interval(late.arrival_s, SPAN_S, 1.0) == (0.0, math.inf)
    content = json.loads(json.dumps(check_model(model(), late, seeds=1).as_dict(), allow_nan=False))
    assert content["dispersions"][0]["interval"] == [0.0, None]


def test_wrong_lengths_are_found_out() -> None:
    found = check_model(model(prompt=535.0), model().sample(0.0, SPAN_S, 78), seeds=4)
    assert not found.passed
    assert all(part.passed for part in found.dispersions)
    wrong = {part.column for part in found.lengths if not part.passed}
    assert wrong == {"prompt_tokens"}
    assert found.worst_length.error_fraction == pytest.approx(0.07, abs=0.03)


def test_progress_and_refusals() -> None:
    data = model().sample(0.0, SPAN_S, 78)
    done: list[int] = []
    check_model(model(), data, seeds=3, progress=done.append)
    assert done == [1, 2, 3]
    with pytest.raises(ValueError, match="seeds: 0"):
        check_model(model(), data, seeds=0)
    with pytest.raises(ValueError, match="outside the range"):
        check_model(model(), replace(data, arrival_s=data.arrival_s * 2, span_s=2 * SPAN_S))


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Bursts of about ten seconds, so that neighbouring windows hang together."""
    bursts = Bursts(10.0, 10.0, 0.3)
    law = LengthLaw(table(9.0), table(9.0), 0.0)
    group = Group("g", np.full(1, 4.0), "gamma", np.ones(1), law, bursts)
    source = WorkloadModel(model().facts, 4000.0, (group,))
    truth = 1 + bursts.local_dispersion(4.0, 15.0)
    held = 0
    for trial in range(60):
        rng = np.random.default_rng(trial)
        low, high = dispersion_interval(source.arrivals(rng, 0.0, 4000.0)[0], 4000.0, 15.0)
        held += low <= truth <= high
    assert held >= 50  # of 60; 95 % would be 57, and a block bootstrap is a little short


def test_intervals_shrink_with_data() -> None:
    rng = np.random.default_rng(0)
    arrival_s = np.sort(rng.uniform(0, 40_000, 200_000))
    long = dispersion_interval(arrival_s, 40_000.0, 15.0)
    short = dispersion_interval(arrival_s[arrival_s < 2000], 2000.0, 15.0)
    assert short[1] - short[0] > 2.5 * (long[1] - long[0])
    assert long[0] < 1 < long[1]


def test_burstiness_without_arrivals_tells_nothing() -> None:
    few = np.array([1.0, 2.0])
    known = Burstiness.of(few, 1000.0, (1.0, 15.0, 400.0))
    assert known.windows_s == (1.0, 15.0)  # two windows of 400 s are too few
    assert known.values.tolist() == [1.0, 1.0]
    assert known.near(np.array([50.0, 0.1]), 0.1).all()
    assert local_dispersions(np.empty(0), 1000.0, (1.0,)).tolist() == [1.0]


def test_local_dispersions_are_those_of_one_window() -> None:
    arrival_s = np.sort(np.random.default_rng(1).uniform(0, 500, 2000))
    wanted = [local_dispersion(arrival_s, 500.0, w) for w in (1.0, 7.5)]
    assert local_dispersions(arrival_s, 500.0, (1.0, 7.5)).tolist() == wanted
