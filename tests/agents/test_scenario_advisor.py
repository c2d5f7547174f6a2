"""Advice in simulated gateways: from what a scrape shows, each gateway's own, and only then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

import gatepilot.envs.registration  # noqa: F401
from gatepilot.agents.baselines.planner.advisor import advisor_identity
from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.agents.baselines.planner.planner import Planner
from gatepilot.agents.scenario_advisor import scenario_advisor
from gatepilot.agents.scenario_site import scenario_site
from gatepilot.envs.batch import GatewayBatch
from gatepilot.envs.gateway_env import GatewayEnv
from gatepilot.envs.scenario import ControlSpec, Scenario, load_scenario
from gatepilot.envs.schema.observation import ObservationSpec
from gatepilot.envs.vector_env import GatewayVectorEnv
from gatepilot.reward.documented import default_reward

from .baselines.planner.places_kit import Neighbours, live

ADVISED = ObservationSpec("advised")
TICKS = 8


@pytest.fixture
def quick(small: Scenario) -> Scenario:
    return replace(small, control=ControlSpec(episode_ticks=TICKS))


def make(scenario: Scenario, n: int, **changes: Any) -> GatewayBatch:  # noqa: ANN401
    given: dict[str, Any] = {"observation": ADVISED, "advisor": scenario_advisor(scenario, n)}
    return GatewayBatch(scenario, n, reward_fn=default_reward, **given | changes)


def shown(observation: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    return observation[:, ADVISED.entries.index(name)]


def test_the_advice_is_the_planners_of_what_a_scrape_shows(quick: Scenario) -> None:
    batch, planner = make(quick, 3), Planner([scenario_site(quick)], PlannerParams(), 3)
    rng, observation = np.random.default_rng(0), batch.reset()
    for _ in range(TICKS):
        plan = planner.see(batch.seen)
        wanted = np.clip(plan.replicas / 32, 0, 1)
        np.testing.assert_array_equal(shown(observation, "replicas_wanted"), np.float32(wanted))
        gap = plan.replicas - batch.replicas
        scaled = np.sign(gap) * np.log1p(np.abs(gap)) / np.log1p(32)
        np.testing.assert_allclose(shown(observation, "replicas_gap"), scaled, rtol=1e-6)
        assert (shown(observation, "prefill_work") > 0).all()
        observation = batch.step(rng.integers(0, 3, (3, 2))).observation


def test_each_gateway_is_advised_as_alone_whoever_begins_anew(quick: Scenario) -> None:
    together, alone = make(quick, 3), [make(quick, 1) for _ in range(3)]
    seeds = np.array([4, 5, 6])
    observation = together.reset(seeds=seeds)
    own = [one.reset(seeds=seeds[i : i + 1]) for i, one in enumerate(alone)]
    rng = np.random.default_rng(0)
    for tick in range(3 * TICKS):
        np.testing.assert_array_equal(np.concatenate(own), observation)
        if tick % 5 == 4:
            rows = rng.permutation(3)[: 1 + tick % 2]
            observation = together.reset(rows, seeds=rows + tick)
            for i in rows.tolist():
                own[i] = alone[i].reset(seeds=np.array([i + tick]))
            continue
        actions = rng.integers(0, 3, (3, 2))
        observation = together.step(actions).observation
        own = [one.step(actions[i : i + 1]).observation for i, one in enumerate(alone)]


def test_settings_that_are_given_are_advised_on_as_well(quick: Scenario) -> None:
    batch = make(quick, 2)
    batch.reset(seeds=np.array([1, 1]))
    observation = batch.step_settings(np.array([1, 6]), np.array([10, 10])).observation
    gap = shown(observation, "replicas_gap")
    assert gap[0] > gap[1]


def test_an_advisor_is_given_exactly_where_it_is_heard(quick: Scenario) -> None:
    with pytest.raises(ValueError, match="advisor: observation preset 'advised' was given none"):
        make(quick, 1, advisor=None)
    with pytest.raises(ValueError, match="advisor: observation preset 'extended' was given one"):
        make(quick, 1, observation=ObservationSpec("extended"))


def test_the_contract_names_the_advisor(quick: Scenario) -> None:
    careful = PlannerParams(reserve=2)
    contract = make(quick, 1, advisor=scenario_advisor(quick, 1, careful)).contract
    assert contract.advisor == advisor_identity(careful)
    assert contract.fingerprint != make(quick, 1).contract.fingerprint
    larger = replace(quick, cluster=replace(quick.cluster, max_replicas=9, cold_start_s=3.0))
    assert make(larger, 1).contract.fingerprint == make(quick, 1).contract.fingerprint


def test_the_default_advisor_is_found_by_its_name(quick: Scenario) -> None:
    spec = gymnasium.make("gatepilot/Gateway-v0", observation="advised").unwrapped
    assert isinstance(spec, GatewayEnv)
    assert spec.batch.contract.advisor == advisor_identity(PlannerParams())
    one = GatewayEnv(quick, observation="advised", episode_ticks=TICKS)
    vector = GatewayVectorEnv(2, quick, observation="advised", episode_ticks=TICKS)
    given = GatewayEnv(quick, observation="advised", episode_ticks=TICKS, advisor=scenario_advisor)
    first, _ = one.reset(seed=3)
    assert first.tobytes() == vector.reset(seed=3)[0][0].tobytes()
    assert first.tobytes() == given.reset(seed=3)[0].tobytes()


def test_a_branched_gateway_is_advised_as_its_origin(quick: Scenario) -> None:
    rng, first, second = np.random.default_rng(1), make(quick, 3), make(quick, 2)
    first.reset(seeds=np.arange(3))
    second.reset(seeds=np.arange(7, 9))
    for _ in range(3):
        first.step(rng.integers(0, 3, (3, 2)))
    first.branch(np.array([0]), np.array([2]))
    second.branch(np.array([0, 1]), np.array([1, 0]), first)
    for _ in range(TICKS - 3):
        actions = rng.integers(0, 3, (2, 2))
        here = first.step(actions[[0, 1, 0]]).observation
        there = second.step(actions[[1, 0]]).observation
        np.testing.assert_array_equal(here[2], here[0])
        np.testing.assert_array_equal(there, here[[1, 0]])


def test_gateways_of_several_scenarios_are_advised_as_each_alone() -> None:
    names = ("daily", "steady", "cold_start_300s", "cold_start_0s", "retry_storm")
    sites = [scenario_site(load_scenario(name)) for name in names]
    advice = live(Neighbours(sites, [PlannerParams(mix_weight=1.0)] * len(sites), 10), 150, seed=0)
    assert np.isfinite(advice).all(axis=2).mean() > 0.5
