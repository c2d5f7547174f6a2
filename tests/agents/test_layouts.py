"""The training range as several days: at other rates, laid out anew, wandering."""

from dataclasses import replace

import numpy as np
import pytest

from gatepilot.agents.config import ConfigError, ValidationConfig
from gatepilot.agents.layouts import training_layouts, wandering_layout
from gatepilot.agents.policy import Policy
from gatepilot.agents.validation import Validation
from gatepilot.envs.scenario import Scenario, load_scenario
from gatepilot.envs.schema.observation import ObservationSpec
from gatepilot.reward.documented import default_reward

from .training_helpers import SCENARIO, tiny


def test_each_scale_and_each_curve_is_a_layout() -> None:
    config = tiny(workloads=2, load_scales=[1.0, 3.0], load_curves=3)
    scenario = load_scenario(config.scenarios[0])
    layouts = training_layouts(config, [scenario], None).requests
    rates = np.array([layout.mean_rate_rps for layout in layouts])
    assert len(layouts) == 7
    np.testing.assert_allclose(rates[2:4] / rates[:2], 3.0, rtol=0.1)
    assert (rates[4:] < rates[2:4].max()).all()
    assert (rates[4:] > rates[:2].min()).all()
    assert len({layout.arrival_s.tobytes() for layout in layouts}) == 7


def test_scenarios_of_one_load_share_its_layouts() -> None:
    scenario = load_scenario(str(SCENARIO))
    sooner = replace(scenario, cluster=replace(scenario.cluster, cold_start_s=1.0))
    slower = replace(scenario, workload=replace(scenario.workload, rate_scale=1.5))
    layouts = training_layouts(tiny(workloads=2), [scenario, sooner, slower], None)
    assert layouts.scenarios == (scenario, scenario, sooner, sooner, slower, slower)
    assert layouts.requests[0] is layouts.requests[2]
    assert layouts.requests[1] is layouts.requests[3]
    assert layouts.requests[4].mean_rate_rps > layouts.requests[0].mean_rate_rps


def test_stretches_lie_within_the_range_and_each_scenario_has_its_own() -> None:
    scenario = load_scenario(str(SCENARIO))
    sooner = replace(scenario, cluster=replace(scenario.cluster, cold_start_s=1.0))
    config = tiny(workloads=3, load_curves=1, stretch_ticks=25)
    layouts = training_layouts(config, [scenario, sooner], None)
    again = training_layouts(config, [scenario, sooner], None)
    assert layouts.places == (0, 0, 0, 0, 1, 1, 1, 1)
    assert {one.span_s for one in layouts.requests} == {25 * scenario.control.tick_s}
    contents = [one.arrival_s.tobytes() for one in layouts.requests]
    assert len(set(contents)) == 8
    assert contents == [one.arrival_s.tobytes() for one in again.requests]
    from_s, to_s = scenario.split_range("train")
    endless = tiny(workloads=1, stretch_ticks=10**6)
    assert training_layouts(endless, [scenario], None).requests[0].span_s == to_s - from_s


def test_more_curves_leave_the_other_layouts_as_they_are() -> None:
    scenario = load_scenario(str(SCENARIO))
    few, more = (training_layouts(tiny(load_curves=n), [scenario], None).requests for n in (1, 2))
    for before, after in zip(few, more, strict=False):
        assert before.arrival_s.tobytes() == after.arrival_s.tobytes()


def test_a_curve_never_leaves_its_split() -> None:
    scenario = load_scenario(str(SCENARIO))
    from_s, to_s = scenario.split_range("validation")
    layout = wandering_layout(scenario, "validation", (0.5, 2.0), seed=1, traces_dir=None)
    assert layout.span_s == to_s - from_s


class _Never:
    """Changes nothing."""

    def act(self, observation: np.ndarray) -> np.ndarray:
        return np.ones((len(observation), 2), np.int64)


def validation(config: ValidationConfig, *scenarios: Scenario) -> Validation:
    return Validation(
        scenarios or [load_scenario(str(SCENARIO))],
        config,
        load_scales=(0.5, 4.0),
        reward_fn=default_reward,
        observation=ObservationSpec(),
        advisors=None,
        traces_dir=None,
    )


def test_wandering_windows_are_half_of_the_score() -> None:
    policy: Policy = _Never()
    plain = validation(ValidationConfig(windows=2, ticks=8)).run(policy)
    both = validation(ValidationConfig(windows=2, ticks=8, wandering_windows=3)).run(policy)
    assert plain.wandering_return is None
    assert plain.score == plain.return_mean == both.return_mean
    assert both.wandering_return is not None
    assert both.score == pytest.approx((both.return_mean + both.wandering_return) / 2)
    assert (
        replace(both, score=plain.score, wandering_return=None, wandering_violation_rate=None)
        == plain
    )


def test_scenarios_count_alike() -> None:
    scenario = load_scenario(str(SCENARIO))
    busy = replace(scenario, name="busy", cluster=replace(scenario.cluster, initial_replicas=3))
    policy, config = _Never(), ValidationConfig(windows=2, ticks=8)
    one, other = (validation(config, kind).run(policy) for kind in (scenario, busy))
    both = validation(config, scenario, busy).run(policy)
    assert both.return_mean == pytest.approx((one.return_mean + other.return_mean) / 2)
    assert both.scenario_returns == {scenario.name: one.return_mean, "busy": other.return_mean}
    assert both.figures()["return/busy"] == other.return_mean
    odd = replace(both, scenario_returns={"mean": -1.0, "a+b (v2)/c": -2.0}).figures()
    assert odd["return/mean"] == -1.0
    assert odd["return/a_b _v2__c"] == -2.0
    assert odd["return_mean"] == both.return_mean
    assert (one.windows, both.windows, one.scenario_returns) == (2, 4, {})


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"load_curves": -1}, "load_curves: -1"), ({"load_scales": []}, "load_scales")],
)
def test_bad_counts_are_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tiny(**changes)
