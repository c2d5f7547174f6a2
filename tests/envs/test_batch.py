"""Many gateways together: each is what it would be alone, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gatepilot.envs.fault_spec import METRIC_KINDS
from gatepilot.envs.scenario import (
    ControlSpec,
    GatewaySpec,
    ScenarioError,
    TelemetrySpec,
)
from gatepilot.envs.schema.fields import FIELD_INDEX
from gatepilot.envs.sim.engine import POOL, compile_engine
from gatepilot.envs.workload.request import Requests

from .batch_kit import (
    ALL_FAULTS,
    EVERYTHING,
    SEEDS,
    SPAN_S,
    TICKS,
    actions_of,
    episode,
    make,
    row_bytes,
    workload,
)

pytestmark = pytest.mark.timeout(10, func_only=True)
COUNTS = ("arrived", "ok", "error", "timeout", "shed")


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    compile_engine()


def test_the_same_seed_gives_the_same_bytes() -> None:
    first = episode(make(5), SEEDS)
    assert first == episode(make(5), SEEDS)
    assert first[0] == first[3]
    assert len(set(first)) == 4


@pytest.mark.parametrize("changes", [{}, EVERYTHING, {"gateway": GatewaySpec(max_waiting=20)}])
def test_nothing_is_left_over_from_the_episode_before(changes: dict[str, Any]) -> None:
    """Not in the places of replicas that the next episode begins without, either."""
    fresh, used = make(5, **changes), make(5, **changes)
    used.reset(seeds=SEEDS[::-1].copy())
    for _ in range(4):
        used.step_settings(np.full(5, 4), np.full(5, 19))
    assert episode(used, SEEDS) == episode(fresh, SEEDS)


def test_with_every_fault_and_feature_on_the_same_seed_gives_the_same_bytes_on_two_threads() -> (
    None
):
    one = episode(make(5, **EVERYTHING), SEEDS)
    assert one == episode(make(5, threads=2, **EVERYTHING), SEEDS)
    assert one[0] == one[3]
    assert len(set(one)) == 4
    assert one[1:2] == episode(make(1, **EVERYTHING), SEEDS[1:2])


def test_metric_faults_touch_neither_the_plants_row_nor_the_reward() -> None:
    """The rows that policies see differ, and that is all: same actions, same plant."""
    blind, clear = (
        make(5, **EVERYTHING),
        make(
            5,
            **(EVERYTHING | {"faults": tuple(f for f in ALL_FAULTS if f.kind not in METRIC_KINDS)}),
        ),
    )
    blind.reset(seeds=SEEDS)
    clear.reset(seeds=SEEDS)
    differed = False
    for tick in range(TICKS):
        one, two = (batch.step(actions_of(SEEDS, tick)) for batch in (blind, clear))
        np.testing.assert_array_equal(blind.truth, clear.truth)
        np.testing.assert_array_equal(one.reward, two.reward)
        differed |= not np.array_equal(blind.seen, clear.seen, equal_nan=True)
    assert differed


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_change_nothing(threads: int) -> None:
    assert episode(make(5, threads=threads), SEEDS) == episode(make(5), SEEDS)


def test_a_row_equals_a_batch_of_one() -> None:
    together = episode(make(5), SEEDS)
    for i in (1, 4):
        assert episode(make(1), SEEDS[i : i + 1]) == [together[i]]


def test_resetting_some_leaves_the_others_alone() -> None:
    untouched, batch = make(4), make(4)
    seeds = SEEDS[:4]
    untouched.reset(seeds=seeds)
    batch.reset(seeds=seeds)
    for tick in range(TICKS):
        if tick == 3:
            batch.reset(np.array([1, 3]), seeds=np.array([40, 41]))
        expected, step = (
            untouched.step(actions_of(seeds, tick)),
            batch.step(actions_of(seeds, tick)),
        )
        for i in (0, 2):
            assert row_bytes(batch, step, i) == row_bytes(untouched, expected, i)
        if tick >= 3:
            assert row_bytes(batch, step, 1) != row_bytes(untouched, expected, 1)
            assert step.truncated.tolist() == [tick == TICKS - 1, False, tick == TICKS - 1, False]


def test_without_seeds_each_episode_is_another_but_the_batch_repeats() -> None:
    def run(seed: int) -> list[bytes]:
        batch = make(3, seed=seed)
        first = batch.reset().tobytes() + batch.truth.tobytes()
        return [first, batch.reset().tobytes() + batch.truth.tobytes()]

    assert run(1) == run(1)
    assert len({*run(1), *run(2)}) == 4


def test_an_episode_starts_where_it_is_told_to() -> None:
    requests = workload()
    batch = make(3)
    starts = np.array([0.0, 31.5, SPAN_S - 150.0])
    batch.reset(starts_s=starts)
    for tick in range(TICKS):
        step = batch.step_settings([2] * 3, [10] * 3)
        low = starts + 15.0 * tick
        inside = (requests.arrival_s >= low[:, None]) & (requests.arrival_s < low[:, None] + 15.0)
        assert step.info["arrived"].tolist() == inside.sum(axis=1).tolist()


def test_the_warm_up_of_an_episode_at_zero_is_the_end_of_the_range() -> None:
    requests = workload()
    batch = make(1)
    batch.reset(starts_s=np.zeros(1))
    rate = np.sum(requests.arrival_s >= SPAN_S - 60.0) / 60.0
    assert batch.seen[0, FIELD_INDEX["request_rate_rps"]] == pytest.approx(rate)


def test_one_request_comes_once_every_span() -> None:
    alone = Requests(np.array([20.0]), np.array([5]), np.array([5]), 150.0)
    batch = make(1, requests=[alone], faults=())
    batch.reset(starts_s=np.zeros(1))
    arrived = [int(batch.step_settings([2], [10]).info["arrived"][0]) for _ in range(30)]
    assert np.flatnonzero(arrived).tolist() == [1, 11, 21]


def test_each_row_draws_from_its_workload() -> None:
    batch = make(3, requests=[workload(1, 2.0), workload(2, 20.0, 300.0)])
    batch.reset(workloads=np.array([0, 1, 0]), starts_s=np.full(3, 10.0))
    arrived = batch.step_settings([2] * 3, [10] * 3).info["arrived"]
    assert arrived[0] == arrived[2] < 60
    assert arrived[1] > 200


def test_counts_add_up_and_the_reward_is_the_sum_of_its_parts() -> None:
    batch = make(6)
    batch.reset()
    ended = np.zeros(6, np.int64)
    arrived = np.zeros(6, np.int64)
    for tick in range(TICKS):
        step = batch.step(actions_of(np.arange(6), tick))
        np.testing.assert_allclose(step.reward, sum(step.parts.values()))
        arrived += step.info["arrived"]
        ended += sum(step.info[name] for name in COUNTS[1:])
        assert ((step.info["violation"] != 0) == (step.parts["violation"] < 0)).all()
    counters = batch._engine.counters
    assert (counters["arrived"] >= arrived).all()
    total = sum(counters[name] for name in COUNTS[1:])
    assert (counters["arrived"] == total + counters["outstanding"]).all()
    assert step.truncated.all()


def test_a_step_beyond_a_bound_is_no_change_and_says_so() -> None:
    batch = make(2)
    batch.reset()
    batch.step_settings([4, 1], [19, 1])
    step = batch.step(np.array([[2, 2], [0, 0]]))
    assert batch.replicas.tolist() == [4, 1]
    assert batch.threshold_steps.tolist() == [19, 1]
    assert step.info["clamped_replicas"].tolist() == [True, True]
    assert step.info["clamped_threshold"].tolist() == [True, True]
    assert step.parts["smooth"].tolist() == [-0.05, -0.05]  # what was chosen counts
    step = batch.step(np.array([[1, 1], [1, 1]]))
    assert not step.info["clamped_replicas"].any()
    assert step.parts["smooth"].tolist() == [0.1, 0.1]
    jumped = batch.step_settings([9, 2], [0, 25])
    assert batch.replicas.tolist() == [4, 2]
    assert batch.threshold_steps.tolist() == [1, 19]
    assert jumped.info["clamped_replicas"].tolist() == [True, False]
    assert batch.seen[:, FIELD_INDEX["breaker_threshold"]].tolist() == [0.05, 0.95]


def test_idle_replicas_are_billed_by_the_tick() -> None:
    quiet = Requests(np.array([390.0]), np.array([1]), np.array([1]), SPAN_S)
    batch = make(2, requests=[quiet])
    batch.reset(starts_s=np.full(2, 100.0))
    assert batch.step_settings([2, 4], [10, 10]).info["billed_replica_s"].tolist() == [30.0, 60.0]
    assert batch.step_settings([1, 4], [10, 10]).info["billed_replica_s"].tolist() == [15.0, 60.0]


def test_the_scenarios_own_limit_sheds_also_under_a_policy() -> None:
    batch = make(1, gateway=GatewaySpec(max_outstanding=0))
    batch.reset()
    step = batch.step(np.array([[1, 1]]))
    assert step.info["shed"][0] == step.info["arrived"][0] > 0
    step = batch.step_settings([2], [10], [None])
    assert step.info["shed"][0] == step.info["arrived"][0] > 0


def test_a_controllers_limit_lasts_one_tick() -> None:
    batch = make(1)
    batch.reset()
    assert batch.step_settings([2], [10], [0]).info["shed"][0] > 0
    assert batch.step_settings([2], [10]).info["shed"][0] == 0


def test_there_is_room_for_the_samples_of_a_long_warm_up() -> None:
    """First tokens are dropped from the state at the end of the warm-up, not before."""
    control = ControlSpec(episode_ticks=TICKS, warmup_s=390.0)
    batch = make(1, control=control, requests=[workload(0, 50.0)])
    room = batch._engine._state.samples.shape[1]
    assert room >= POOL + 49 * 390
    batch.reset()


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([[1, 1]], "1 actions for 2 gateways"),
        ([[1, 1], [1, 3]], "action index 3"),
        ([[1, 1], [-1, 1]], "action index -1"),
        ([1, 1], "shape"),
    ],
)
def test_malformed_actions_are_refused(actions: list[Any], message: str) -> None:
    batch = make(2)
    batch.reset()
    with pytest.raises(ValueError, match=message):
        batch.step(np.array(actions))


def test_what_cannot_be_built_is_refused() -> None:
    with pytest.raises(ValueError, match="n_envs is 0"):
        make(0)
    with pytest.raises(ScenarioError, match="an episode of 10 ticks takes 150 s"):
        make(1, requests=[workload(span_s=149.0)])
    empty = Requests(np.zeros(0), np.zeros(0, np.int32), np.zeros(0, np.int32), SPAN_S)
    with pytest.raises(ScenarioError, match="no request"):
        make(1, requests=[empty])


def test_the_contract_is_the_scenarios() -> None:
    batch = make(1, telemetry=TelemetrySpec(scrape_interval_s=5.0, window_s=30.0))
    assert batch.contract != make(1).contract
    assert batch.contract.fingerprint != make(1).contract.fingerprint
