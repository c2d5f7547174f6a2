"""How much a window asks for: known amounts of work, and plans that are always in time."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gatepilot.agents.oracles.demand import bins_ahead, planned_replicas, replicas_worth
from gatepilot.envs.profiles.profile import load_profile
from gatepilot.envs.scenario import Scenario
from gatepilot.envs.workload.request import Requests

Counts = NDArray[np.int64]


def requests(arrivals: list[float], prompt: int, output: int) -> Requests:
    n = len(arrivals)
    return Requests(
        np.array(arrivals), np.full(n, prompt, np.int32), np.full(n, output, np.int32), 100.0
    )


def test_prefill_takes_its_share_of_full_iterations(small: Scenario) -> None:
    profile, chunk = load_profile(small.profile), small.cluster.chunk_tokens
    # ten prompts of ten iterations each in ten seconds, next to nothing to answer
    load = requests([20.0 + i for i in range(10)], prompt=10 * chunk, output=1)
    iteration_s = profile.base_s + chunk * profile.per_prefill_token_s
    worth = replicas_worth(small, load, start_s=20.0, bins=3, bin_s=10.0)
    assert worth[0] == pytest.approx(10 * iteration_s, rel=0.01)
    assert worth[1:].tolist() == [0.0, 0.0]


def test_long_answers_hold_places_in_the_batch(small: Scenario) -> None:
    profile, places = load_profile(small.profile), small.cluster.max_num_seqs
    roomy = replace(small, cluster=replace(small.cluster, kv_blocks=15_000))
    load = requests([0.0] * 1000, prompt=1, output=1000)
    context = 1 + 500
    iteration_s = profile.base_s + places * (profile.per_seq_s + profile.per_ctx_token_s * context)
    worth = replicas_worth(roomy, load, start_s=0.0, bins=1, bin_s=100.0)
    assert worth[0] == pytest.approx(1000 * 1000 * iteration_s / places / 100.0)


def test_a_small_cache_is_what_runs_out_first(small: Scenario) -> None:
    load = requests([0.0] * 10, prompt=2000, output=100)
    scarce = replace(small, cluster=replace(small.cluster, kv_blocks=400))
    roomy = replace(small, cluster=replace(small.cluster, kv_blocks=800))
    few, many = (
        replicas_worth(s, load, start_s=0.0, bins=1, bin_s=10.0)[0] for s in (scarce, roomy)
    )
    assert few == pytest.approx(2 * many)


def planned(need: list[int], lost: list[int], ahead: int, hold: int) -> list[int]:
    plan = planned_replicas(
        np.array(need, float), np.array(lost), target=1.0, ahead=ahead, hold=hold
    )
    found: list[int] = plan.tolist()
    return found


def test_an_order_is_one_cold_start_early_and_kept_up_for_a_while() -> None:
    assert planned([1, 1, 1, 4, 1, 1, 1], [0] * 7, ahead=2, hold=1) == [1, 4, 4, 4, 4, 1, 1]


def test_a_replica_that_is_ill_is_replaced() -> None:
    assert planned([2, 2, 2], [0, 1, 0], ahead=0, hold=0) == [2, 3, 2]


def test_a_lower_target_asks_for_more_and_nothing_asks_for_one() -> None:
    worth = np.array([0.0, 1.2])
    plan = planned_replicas(worth, np.zeros(2, np.int64), target=0.5, ahead=0, hold=0)
    assert plan.tolist() == [1, 3]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(0, 5), st.integers(0, 5))
def test_no_need_is_met_late_or_dropped_early(need: list[int], ahead: int, hold: int) -> None:
    plan = planned(need, [0] * len(need), ahead, hold)
    for i, asked in enumerate(plan):
        seen = need[max(0, i - hold) : i + ahead + 1]
        assert asked == max(1, *seen)


def test_a_cold_start_counts_at_its_longest(small: Scenario) -> None:
    cluster = replace(small.cluster, cold_start_s=100.0, cold_start_spread=0.1)
    assert bins_ahead(replace(small, cluster=cluster)) == 8  # 110 s in ticks of 15 s
