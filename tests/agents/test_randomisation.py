"""Variants of a scenario differ within their bounds, and in nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gatepilot.agents.config import ConfigError, RandomisationConfig
from gatepilot.agents.layouts import training_layouts
from gatepilot.agents.randomisation import varied
from gatepilot.envs.episodes import engine_params
from gatepilot.envs.scenario import FaultSpec, Scenario, load_scenario

from .training_helpers import SCENARIO, tiny

GAP = FaultSpec("metrics_gap", duration_s=60.0, mean_interval_s=600.0)
CRASH = FaultSpec("crash", mean_interval_s=600.0)
SURGE = FaultSpec("surge", duration_s=30.0, start_s=10.0, factor=(2.0, 2.0))


@pytest.fixture(scope="module")
def plain() -> Scenario:
    return replace(load_scenario(str(SCENARIO)), faults=(CRASH,))


def variants(scenario: Scenario, config: RandomisationConfig, n: int = 200) -> list[Scenario]:
    rng = np.random.default_rng(0)
    late = FaultSpec("hang", duration_s=10.0, start_s=1e5)
    donor = replace(
        scenario,
        control=replace(scenario.control, episode_ticks=10_000),
        faults=(GAP, replace(CRASH, mean_interval_s=60.0), late),
    )
    others = [donor, replace(scenario, faults=())]
    return [varied(scenario, others, config, rng) for _ in range(n)]


def test_by_default_nothing_differs(plain: Scenario) -> None:
    assert set(variants(plain, RandomisationConfig())) == {plain}


def test_cold_starts_are_spread_over_their_factors(plain: Scenario) -> None:
    before = engine_params(plain).cold_start_s
    found = variants(plain, RandomisationConfig(cold_start=(0.5, 2.0)))
    factors = np.array([engine_params(one).cold_start_s for one in found]) / before
    assert factors.min() >= 0.5
    assert factors.max() <= 2.0
    assert np.median(factors) == pytest.approx(1.0, abs=0.15)  # as often shorter as longer
    lazy = replace(plain, cluster=replace(plain.cluster, cold_start_s=None, start="lazy"))
    assert variants(lazy, RandomisationConfig(cold_start=(0.5, 2.0)), 3) == [lazy] * 3


def test_episodes_begin_with_any_replicas(plain: Scenario) -> None:
    found = variants(plain, RandomisationConfig(start_replicas=True))
    limits = plain.cluster.min_replicas, plain.cluster.max_replicas
    assert {one.cluster.start_replicas for one in found} == set(range(limits[0], limits[1] + 1))


def test_surges_come_where_there_are_none(plain: Scenario) -> None:
    config = RandomisationConfig(surge=(1.2, 3.0), surge_interval_s=900.0)
    for one in variants(plain, config):
        assert one.faults[:-1] == plain.faults
        surge = one.faults[-1]
        assert (surge.kind, surge.mean_interval_s) == ("surge", 900.0)
        assert surge.factor is not None
        assert surge.factor[0] == 1.2 <= surge.factor[1] <= 3.0
        assert surge.duration_s is not None
        assert 120.0 <= surge.duration_s <= 600.0
    surging = replace(plain, faults=(SURGE,))
    assert {one.faults for one in variants(surging, config, 5)} == {(SURGE,)}


def test_some_meet_what_goes_wrong_elsewhere(plain: Scenario) -> None:
    found = variants(plain, RandomisationConfig(more_faults=0.5))
    more = [one.faults != plain.faults for one in found]
    assert 0.4 < np.mean(more) < 0.6
    assert {one.faults for one in found} == {(CRASH,), (CRASH, GAP)}  # of other kinds, in time
    rng = np.random.default_rng(0)
    alone = [varied(plain, [plain], RandomisationConfig(more_faults=1.0), rng) for _ in range(3)]
    assert alone == [plain] * 3


def test_the_layout_nearest_to_its_own_rate_is_a_scenarios_own(plain: Scenario) -> None:
    calm = replace(plain, name="calm", faults=())
    config = tiny(load_scales=[0.4, 1.1, 3.0], workloads=1, randomised={"cold_start": [0.5, 0.6]})
    layouts = training_layouts(config, [plain, calm], None)
    assert layouts.places == (0, 0, 0, 1, 1, 1)
    assert (layouts.scenarios[1], layouts.scenarios[4]) == (plain, calm)
    for i in (0, 2, 3, 5):
        assert engine_params(layouts.scenarios[i]).cold_start_s < engine_params(plain).cold_start_s
        assert layouts.scenarios[i].faults == (plain, calm)[layouts.places[i]].faults
    again = training_layouts(config, [plain, calm], None)
    assert again.scenarios == layouts.scenarios
    other = training_layouts(replace(config, seed=1), [plain, calm], None)
    assert other.scenarios != layouts.scenarios


@pytest.mark.parametrize(
    ("randomised", "message"),
    [
        ({"cold_start": [0.0, 1.0]}, "randomised.cold_start"),
        ({"cold_start": [2.0, 1.0]}, r"randomised.cold_start: \[2\.0, 1\.0\] must be"),
        ({"surge": [0.5, 2.0]}, "randomised.surge"),
        ({"surge": [3.0, 2.0]}, r"randomised.surge: \[3\.0, 2\.0\] must be"),
        ({"more_faults": 1.5}, "randomised.more_faults"),
        ({"weather": 1}, "randomised.weather"),
        ({"more_faults": 0.1}, "randomised.more_faults: there is no other scenario"),
    ],
)
def test_bad_bounds_are_named(randomised: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tiny(randomised=randomised)
