"""A copied gateway is the gateway: same rows, same chance, to the bit, whatever is going on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gatepilot.envs.batch import BatchStep, GatewayBatch, NotResetError
from gatepilot.envs.scenario import ClusterSpec, Scenario, Splits, load_scenario, scenario_names
from gatepilot.envs.sim.engine import compile_engine
from gatepilot.envs.workload.request import Requests
from gatepilot.reward.documented import default_reward

from .batch_kit import EVERYTHING, make, scenario, workload

pytestmark = pytest.mark.timeout(10, func_only=True)
TICKS = 24
EPISODE_S = TICKS * 15.0


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    compile_engine()


def shown(batch: GatewayBatch, step: BatchStep, i: int) -> bytes:
    """All that a gateway shows of a tick."""
    parts = [step.observation[i], step.reward[i], step.truncated[i], batch.seen[i], batch.truth[i]]
    parts += [batch.replicas[i], batch.threshold_steps[i], batch.ready_in_s[i]]
    parts += [values[i] for values in (*step.info.values(), *step.parts.values())]
    rows, ttft_s = batch.first_tokens()
    return b"".join(np.asarray(part).tobytes() for part in (*parts, np.sort(ttft_s[rows == i])))


def random_settings(batch: GatewayBatch, rng: np.random.Generator) -> NDArray[np.int64]:
    """Any replicas and any threshold, for every gateway, `(2, n)`."""
    replicas = rng.integers(batch.min_replicas, batch.max_replicas + 1, batch.n_envs)
    return np.stack([replicas, rng.integers(1, 20, batch.n_envs)])


def twin_rows(batch: GatewayBatch, seed: int, branchings: tuple[int, ...]) -> int:
    """Rows 3 to 5 are branched off rows 0 to 2 now and then; how many ticks they then agreed in.

    Before the first time they live lives of their own, so what they leave behind must not matter.
    """
    rng = np.random.default_rng(seed)
    sources, targets = np.arange(3), np.arange(3, 6)
    agreed = 0
    for tick in range(TICKS):
        chosen = random_settings(batch, rng)
        if tick in branchings:
            batch.branch(sources, targets)
        if tick >= branchings[0]:
            chosen[:, targets] = chosen[:, sources]
        step = batch.step_settings(*chosen)
        if tick >= branchings[0]:
            for source, target in ((0, 3), (1, 4), (2, 5)):
                assert shown(batch, step, source) == shown(batch, step, target)
                assert batch.fingerprint(source) == batch.fingerprint(target)
            agreed += 1
    return agreed


SUITE: dict[str, Scenario] = {name: load_scenario(name) for name in scenario_names()}


@pytest.mark.parametrize("name", SUITE)
def test_in_every_scenario_of_the_suite_a_copy_goes_on_as_its_origin(name: str) -> None:
    chosen = SUITE[name]
    from_s = chosen.split_range("test")[0]
    spec = replace(chosen.workload, trace=None, from_s=from_s, to_s=from_s + 2 * EPISODE_S)
    requests = replace(chosen, workload=spec, splits=Splits()).requests(None, seed=1)
    batch = GatewayBatch(
        chosen, 6, reward_fn=default_reward, requests=[requests], episode_ticks=TICKS
    )
    batch.reset(seeds=np.arange(6))
    assert twin_rows(batch, seed=2, branchings=(7, 15)) == TICKS - 7


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    branchings=st.sets(st.integers(0, TICKS - 1), min_size=1, max_size=5),
    rate_rps=st.sampled_from([0.5, 12.0, 40.0]),
)
def test_with_every_fault_and_feature_on_a_copy_goes_on_as_its_origin(
    seed: int, branchings: set[int], rate_rps: float
) -> None:
    batch = make(6, requests=[workload(seed, rate_rps)], seed=seed, **EVERYTHING)
    batch.reset()
    when = tuple(sorted(branchings))
    assert twin_rows(batch, seed, when) == TICKS - when[0]


def test_prefix_caches_are_copied() -> None:
    plain = workload(3, rate_rps=12.0)
    place = np.arange(len(plain))
    hits = np.where(place % 3 > 0, np.minimum(plain.prompt_tokens - 1, 64), 0).astype(np.int32)
    parents = np.where(hits > 0, place - 1, -1)
    prefixed = replace(plain, prefix_hit_tokens=hits, prefix_parent=parents)
    batch = make(6, requests=[prefixed], faults=())
    batch.reset()
    assert twin_rows(batch, 4, (5, 11)) == TICKS - 5
    assert (batch._engine.counters["prefix_hit_tokens"] > 0).all()


def test_a_copy_goes_its_own_way_under_other_settings_and_leaves_its_origin_alone() -> None:
    alone, batch = make(1), make(3)
    alone.reset(seeds=np.array([5]))
    batch.reset(seeds=np.array([5, 6, 7]))
    for tick in range(TICKS):
        replicas = 1 + tick % 4
        if tick == 4:
            batch.branch(np.array([0, 0]), np.array([1, 2]))
        expected = alone.step_settings([replicas], [10])
        step = batch.step_settings([replicas, 1, 4], [10, 10, 10])
        assert shown(alone, expected, 0) == shown(batch, step, 0)
    assert len({shown(batch, step, i) for i in range(3)}) == 3


def test_gateways_of_another_batch_can_be_copied_and_need_no_reset() -> None:
    origin, batch = make(2), make(5)
    origin.reset(seeds=np.array([5, 6]))
    origin.step_settings([2, 3], [10, 1])
    batch.branch(np.array([1, 0, 0, 1, 1]), np.arange(5), origin)
    assert batch.replicas.tolist() == [3, 2, 2, 3, 3]
    step = batch.step_settings([3, 2, 2, 3, 3], [1, 10, 10, 1, 1])
    expected = origin.step_settings([2, 3], [10, 1])
    for i, source in enumerate([1, 0, 0, 1, 1]):
        assert shown(batch, step, i) == shown(origin, expected, source)


def test_only_the_threshold_in_force_may_differ_where_fingerprints_are_equal() -> None:
    batch = make(3, faults=(), requests=[workload(rate_rps=3.0)])
    batch.reset(seeds=np.array([5, 5, 6]))
    batch.branch(np.array([0]), np.array([1]))
    batch.step_settings([2, 2, 2], [10, 3, 10])
    prints = [batch.fingerprint(i) for i in range(3)]
    assert prints[0] == prints[1] != prints[2]
    batch.step_settings([2, 3, 2], [10, 10, 10])
    assert batch.fingerprint(0) != batch.fingerprint(1)


def test_how_long_a_replica_still_takes_to_be_ready_is_known() -> None:
    batch = make(1, faults=(), cluster=ClusterSpec(4, 4, cold_start_s=20.0, cold_start_spread=0.0))
    batch.reset()
    assert np.sort(batch.ready_in_s[0]).tolist() == [0.0] * 4 + [np.inf] * 4
    growing = make(1, faults=())
    growing.reset()
    growing.step_settings([4], [10])
    waits = np.sort(growing.ready_in_s[0])
    assert waits[:2].tolist() == [0.0, 0.0]
    assert (waits[2:4] >= 20.0 * 0.9 - 15.0).all()
    assert (waits[2:4] <= 20.0 * 1.1 - 15.0).all()


def refused(batch: GatewayBatch, *arguments: Any) -> str:  # noqa: ANN401
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the caller looks at the message
        batch.branch(*arguments)
    return str(caught.value)


def test_copies_that_would_depend_on_their_order_are_refused() -> None:
    batch = make(4)
    batch.reset()
    for sources, targets, named in (([0, 1], [2, 2], 2), ([0, 1], [1, 2], 1), ([3], [3], 3)):
        message = refused(batch, np.array(sources), np.array(targets))
        assert message.startswith(f"gateway {named} would be two at once: expected each target")


def test_the_gateway_of_another_plant_is_refused() -> None:
    batch = make(2)
    batch.reset()
    zero, one = np.array([0]), np.array([1])
    others: tuple[dict[str, Any], ...] = (
        {"cluster": ClusterSpec(max_replicas=5, cold_start_s=20.0)},
        {"cluster": replace(scenario().cluster, kv_blocks=601)},
        {"requests": [workload(rate_rps=13.0)]},
        {"faults": ()},
    )
    for changes in others:
        other = make(2, **changes)
        other.reset()
        assert refused(batch, zero, one, other).startswith("origin: expected a")


def test_what_was_never_reset_is_not_copied() -> None:
    with pytest.raises(NotResetError, match="gateway 1 was never reset"):
        make(3).branch(np.array([1]), np.array([2]))


def test_a_quiet_gateway_is_a_gateway_too() -> None:
    quiet = Requests(np.array([390.0]), np.array([1]), np.array([1]), 400.0)
    batch = make(6, requests=[quiet], faults=())
    batch.reset()
    assert twin_rows(batch, 1, (0,)) == TICKS
