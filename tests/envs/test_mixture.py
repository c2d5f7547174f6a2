"""Scenarios side by side in one batch: each gateway is what it would be in a batch of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gatepilot.agents.baselines.planner.advisor import PlannerAdvisor
from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.agents.scenario_advisor import scenario_advisor
from gatepilot.agents.scenario_site import scenario_site
from gatepilot.envs.batch import GatewayBatch
from gatepilot.envs.mixture import Mixture, distinct
from gatepilot.envs.scenario import ClusterSpec, GatewaySpec, Scenario, ScenarioError, TelemetrySpec
from gatepilot.envs.schema.observation import ObservationSpec
from gatepilot.envs.sim.engine import compile_engine
from gatepilot.reward.documented import default_reward

from .batch_kit import ALL_FAULTS, EVERYTHING, TICKS, actions_of, row_bytes, scenario, workload

pytestmark = pytest.mark.timeout(20, func_only=True)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    compile_engine()


PLAIN = replace(scenario(faults=(), gateway=GatewaySpec()), name="plain")
WHOLE = replace(scenario(**EVERYTHING), name="whole")
SMALL = replace(
    scenario(faults=ALL_FAULTS[:3]),
    name="small",
    profile="llama-3.1-70b-fp8-h100_sxm-tp2-vllm",
    cluster=ClusterSpec(
        min_replicas=2,
        max_replicas=6,
        initial_replicas=3,
        cold_start_s=5.0,
        max_num_seqs=16,
        chunk_tokens=256,
    ),
    gateway=GatewaySpec(threshold_steps=4),
)
SCENARIOS = (PLAIN, WHOLE, SMALL, WHOLE, PLAIN)
LOADS = (workload(0), workload(1, 20.0), workload(0), workload(2), workload(3, 25.0, 300.0))
WORKLOADS = np.array([4, 0, 1, 2, 3, 2, 1])
SEEDS = np.arange(len(WORKLOADS))


def batch(scenarios: Any, loads: Any, n: int, **more: Any) -> GatewayBatch:  # noqa: ANN401
    return GatewayBatch(scenarios, n, reward_fn=default_reward, requests=loads, **more)


def played(
    gateways: GatewayBatch, seeds: NDArray[np.int64], workloads: NDArray[np.int64]
) -> list[bytes]:
    """All that an episode shows, a row each."""
    shown = [row.tobytes() for row in gateways.reset(seeds=seeds, workloads=workloads)]
    for tick in range(TICKS):
        step = gateways.step(actions_of(seeds, tick))
        shown = [old + row_bytes(gateways, step, i) for i, old in enumerate(shown)]
    return shown


@pytest.mark.parametrize("threads", [1, 2])
def test_a_gateway_among_other_scenarios_is_what_it_is_alone(threads: int) -> None:
    mixed = batch(SCENARIOS, LOADS, len(WORKLOADS), threads=threads)
    for turn in (WORKLOADS, WORKLOADS[::-1].copy()):  # each gateway stands elsewhere the next time
        together = played(mixed, SEEDS, turn)
        for i, w in enumerate(turn):
            alone = batch(SCENARIOS[w], LOADS[w : w + 1], 1)
            assert played(alone, SEEDS[i : i + 1], np.zeros(1, np.int64)) == [together[i]]


def test_advice_among_other_scenarios_is_what_it_is_alone() -> None:
    spec, n = ObservationSpec("advised"), len(WORKLOADS)
    sites = [scenario_site(one) for one in distinct(SCENARIOS)]
    advisor = PlannerAdvisor(sites, PlannerParams(), n)
    mixed = batch(SCENARIOS, LOADS, n, observation=spec, advisor=advisor)
    for turn in (WORKLOADS, WORKLOADS[::-1].copy()):
        together = played(mixed, SEEDS, turn)
        for i, w in enumerate(turn):
            own = scenario_advisor(SCENARIOS[w], 1)
            alone = batch(SCENARIOS[w], LOADS[w : w + 1], 1, observation=spec, advisor=own)
            assert played(alone, SEEDS[i : i + 1], np.zeros(1, np.int64)) == [together[i]]


def test_a_copy_goes_on_as_the_scenario_it_is_of() -> None:
    gateways = batch(SCENARIOS, LOADS, len(WORKLOADS))
    gateways.reset(seeds=SEEDS, workloads=WORKLOADS)
    gateways.step(actions_of(SEEDS, 0))
    gateways.branch(np.array([2, 3]), np.array([0, 1]))
    assert gateways.workloads.tolist() == [1, 2, 1, 2, 3, 2, 1]
    alike = SEEDS.copy()
    alike[:2] = SEEDS[2:4]
    for tick in range(1, TICKS):
        step = gateways.step(actions_of(alike, tick))
        for copy, of in ((0, 2), (1, 3)):
            assert row_bytes(gateways, step, copy) == row_bytes(gateways, step, of)


def test_limits_and_starts_are_those_of_the_scenario() -> None:
    gateways = batch(SCENARIOS, LOADS, 3)
    gateways.reset(seeds=SEEDS[:3], workloads=np.array([0, 2, 3]))
    assert gateways.replicas.tolist() == [2, 3, 2]
    assert gateways.min_replicas.tolist() == [1, 2, 1]
    assert gateways.max_replicas.tolist() == [4, 6, 4]
    assert gateways.threshold_steps.tolist() == [10, 4, 10]
    assert gateways.rest_threshold_steps.tolist() == [10, 4, 10]
    for _ in range(2):
        gateways.step_settings([0, 0, 99], [5, 5, 5])
    assert gateways.replicas.tolist() == [1, 2, 4]


def test_a_load_that_several_scenarios_share_is_kept_once() -> None:
    mixture = Mixture((PLAIN, WHOLE, PLAIN), (LOADS[0], LOADS[0], LOADS[1]))
    assert mixture.load.tolist() == [0, 0, 1]
    assert mixture.place.tolist() == [0, 1, 0]
    assert mixture.distinct == (PLAIN, WHOLE)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"control": replace(PLAIN.control, tick_s=5.0)},
            "plain and other cannot stand side by side: control.tick_s is 15.0 and 5.0",
        ),
        (
            {"telemetry": TelemetrySpec(minimum_samples=3)},
            r"plain and other cannot stand side by side: telemetry is .*20.* and .*3",
        ),
        (
            {"cluster": replace(PLAIN.cluster, prefix_cache=False)},
            "plain and other cannot stand side by side: cluster.prefix_cache is True and False",
        ),
    ],
)
def test_what_cannot_stand_side_by_side_is_named(changes: dict[str, Any], message: str) -> None:
    other: Scenario = replace(PLAIN, name="other", **changes)
    with pytest.raises(ScenarioError, match=message):
        batch((PLAIN, other), LOADS[:2], 1)


def test_as_many_loads_as_scenarios() -> None:
    with pytest.raises(ValueError, match="3 workloads for 2 scenarios"):
        batch((PLAIN, WHOLE), LOADS[:3], 1)
    for scenarios, loads in (((), LOADS[:1]), (PLAIN, ())):
        with pytest.raises(ValueError, match="at least one scenario and one workload"):
            batch(scenarios, loads, 1)


def test_episodes_have_one_length() -> None:
    longer = replace(PLAIN, name="longer", control=replace(PLAIN.control, episode_ticks=12))
    with pytest.raises(ScenarioError, match="plain have 10 ticks, of longer 12: say how many"):
        batch((PLAIN, longer), LOADS[:2], 1)
    assert batch((PLAIN, longer), LOADS[:2], 1, episode_ticks=11).episode_ticks == 11


@pytest.mark.parametrize("workload_index", [-1, 2])
def test_a_workload_that_is_not_there_is_named(workload_index: int) -> None:
    gateways = batch((PLAIN, WHOLE), LOADS[:2], 2)
    gateways.reset(seeds=SEEDS[:2])
    before = list(gateways.episodes)
    with pytest.raises(ValueError, match=f"workload is {workload_index}, expected 0 to 1"):
        gateways.reset(seeds=SEEDS[:2], workloads=np.array([0, workload_index]))
    with pytest.raises(ValueError, match="start_s is -1"):
        gateways.reset(seeds=SEEDS[:2], starts_s=np.array([0.0, -1.0]))
    assert gateways.episodes == before


def test_copies_come_from_batches_of_the_same_scenarios() -> None:
    first = batch((PLAIN, WHOLE, PLAIN), LOADS[:3], 1)
    other = batch((PLAIN, WHOLE, WHOLE), LOADS[:3], 1)
    for gateways in (first, other):
        gateways.reset(seeds=SEEDS[:1], workloads=np.array([2]))
    with pytest.raises(ValueError, match="a batch of the same scenarios over the same loads"):
        other.branch(np.array([0]), np.array([0]), first)
