"""What users of Dynamo's planner complain of: which of it the controllers have, as upstream has it.

Named after issue or pull request of ai-dynamo/dynamo.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from gatepilot.agents.baselines.dynamo_capacity import Targets
from gatepilot.agents.baselines.dynamo_load import DynamoLoad
from gatepilot.envs.schema.settings import GatewaySettings

from .dynamo_snapshots import (
    KV_TOKENS,
    easy,
    full,
    idle,
    lasts_s,
    overloaded,
    planner,
    shown_by,
    size_after,
    snapshot_of,
    traffic,
    trained,
)

# --- throughput-based ---------------------------------------------------------------------------


def test_dynamo_4420_throughput_replicas_added_behind_its_back_are_never_taken_back() -> None:
    """The fault is there: it compares its wish with what was requested, not with what runs."""
    controller, settings = planner(), GatewaySettings(1)
    controller.decide(traffic(1, 5.0), settings)
    for _ in range(500):
        edited = traffic(1, 0.0, replicas_ready=2)
        assert controller.decide(edited, settings) is settings


def test_dynamo_4420_throughput_an_edit_of_what_is_requested_is_taken_back() -> None:
    controller = planner()
    size_after(controller, 1, traffic(1, 5.0))
    assert size_after(controller, 9, traffic(9, 5.0)) == 1


def test_dynamo_14251_throughput_a_replica_that_never_gets_ready_stops_all_planning() -> None:
    """The fault is there: even when traffic is over, nothing is taken back."""
    controller, settings = planner(), GatewaySettings(3)
    controller.decide(traffic(3, 25.0), settings)
    for _ in range(500):
        assert controller.decide(traffic(3, 0.0, replicas_ready=2), settings) is settings
    assert controller.decide(traffic(3, 0.0), settings).replicas == 1


def test_dynamo_12591_throughput_a_lost_series_holds_for_ever_and_says_nothing() -> None:
    """The fault is there, of the kind that was complained of."""
    controller, settings = planner(), GatewaySettings(1)
    for _ in range(500):
        assert controller.decide(traffic(1, 99.0, samples=None), settings) is settings


@pytest.mark.parametrize("ttft_s", [1e-4, 0.5])
def test_dynamo_pr11624_throughput_a_target_out_of_reach_does_not_keep_it_up_when_traffic_is_over(
    ttft_s: float,
) -> None:
    """The fault was that of prefill engines; the aggregated mode never had their floor."""
    controller = planner(targets=Targets(ttft_s=ttft_s))
    size_after(controller, 1, traffic(1, 65.0))
    assert size_after(controller, 1, traffic(1, 65.0)) == 7
    assert size_after(controller, 7, traffic(7, 0.0)) == 1


def test_dynamo_6985_throughput_it_shrinks_when_traffic_is_over() -> None:
    controller = planner()
    size_after(controller, 8, traffic(8, 75.0))
    assert size_after(controller, 8, traffic(8, 75.0)) == 8
    over = snapshot_of(8, request_rate_rps=0.0)
    assert size_after(controller, 8, over) == 1


def test_dynamo_7622_throughput_advice_alone_changes_nothing() -> None:
    """What it is given stays as it was, and two asked alike answer alike."""
    first, second = planner(), planner()
    settings, shown = GatewaySettings(2, 9), traffic(2, 45.0)
    for _ in range(4):
        advice = first.decide(shown, settings)
        assert advice == second.decide(shown, settings)
    assert (settings, shown) == (GatewaySettings(2, 9), traffic(2, 45.0))
    assert advice == GatewaySettings(5, 9)


# --- load-based ---------------------------------------------------------------------------------


def test_dynamo_4420_load_replicas_added_behind_its_back_are_never_taken_back() -> None:
    """The fault is there: what runs is not what was requested, so it waits for ever."""
    for controller in (easy(), trained(full())):
        settings = GatewaySettings(1)
        for _ in range(500):
            assert controller.decide(idle(1, replicas_ready=2), settings) is settings


def test_dynamo_4420_load_an_edit_of_what_is_requested_is_taken_back_step_by_step() -> None:
    controller, settings, sizes = easy(), GatewaySettings(9), []
    for _ in range(10):
        settings = controller.decide(idle(settings.replicas), settings)
        sizes.append(settings.replicas)
    assert sizes == [8, 7, 6, 5, 4, 3, 2, 1, 1, 1]


def test_dynamo_14251_load_a_replica_that_never_gets_ready_stops_everything() -> None:
    """The fault is there: even when traffic is over, the wish for more is not taken back."""
    for controller in (easy(), trained(full())):
        settings = controller.decide(overloaded(2), GatewaySettings(2))
        assert settings.replicas == 3
        for _ in range(500):
            assert controller.decide(idle(3, replicas_ready=2), settings) is settings
        assert easy().decide(idle(3), settings).replicas == 2


def test_dynamo_12591_load_lost_reports_hold_for_ever_and_nothing_is_said() -> None:
    """The fault is there: a hold for want of data looks like any other."""
    for controller in (easy(), trained(full())):
        settings = GatewaySettings(2)
        for _ in range(500):
            assert controller.decide(overloaded(2, kv_usage=None), settings) is settings


def flapping(controller: DynamoLoad, kv_tokens: float, sizes: list[int]) -> int:
    """Changes of direction under a constant load; `sizes` are filled."""
    settings, rng = GatewaySettings(2), np.random.default_rng(0)
    for _ in range(200):
        n = settings.replicas
        prefill = rng.uniform(45, 55) * 2 / n
        held = kv_tokens / n
        usage = min(1.0, held / KV_TOKENS)
        shown = shown_by(n, prefill, 40 / n, held, lasts_s(prefill, held))
        queued = max(0.0, held - KV_TOKENS) / 100  # prompts of 100 tokens
        shown = replace(shown, kv_usage=usage, waiting=queued * n)
        settings = controller.decide(shown, settings)
        sizes.append(settings.replicas)
    moves = [b - a for a, b in pairwise(sizes) if a != b]
    return sum(a * b < 0 for a, b in pairwise(moves))


def test_dynamo_pr9294_load_easy_mode_flaps_between_two_and_one() -> None:
    """The fault is there: the mending was for full mode only."""
    sizes: list[int] = []
    assert flapping(easy(), 110_000, sizes) > 190
    assert set(sizes) == {1, 2}


def test_dynamo_pr9294_load_full_mode_stays_where_one_would_be_too_few() -> None:
    """ITL is 25 ms at two, below 80 % of the target, and would be 45 ms at one."""
    controller = trained(full(itl_s=0.04))
    assert lasts_s(50, 60_000) < 0.8 * 0.04 < 0.04 < lasts_s(100, 110_000)
    sizes: list[int] = []
    assert flapping(controller, 110_000, sizes) == 0
    assert set(sizes) == {2}


def test_dynamo_pr9294_load_full_mode_shrinks_where_one_is_enough() -> None:
    sizes: list[int] = []
    assert flapping(trained(full(itl_s=0.04)), 40_000, sizes) == 0
    assert sizes[-1] == 1


def test_dynamo_pr11624_load_a_target_out_of_reach_makes_full_mode_grow_while_idle() -> None:
    """A fault of that kind is there: an empty replica misses the target, so it asks for more."""
    controller, settings = trained(full(itl_s=5e-4)), GatewaySettings(2)
    for _ in range(200):
        settings = controller.decide(idle(settings.replicas), settings)
    assert settings.replicas == 11  # then nothing is typical any more, and it stays


def test_dynamo_pr11624_load_a_target_in_reach_lets_it_shrink_when_traffic_is_over() -> None:
    controller, settings = trained(full()), GatewaySettings(8)
    for _ in range(20):
        settings = controller.decide(idle(settings.replicas), settings)
    assert settings.replicas == 1


def test_dynamo_7622_load_advice_alone_changes_nothing() -> None:
    """What it is given stays as it was, and two asked alike answer alike."""
    first, second = easy(), easy()
    settings, shown = GatewaySettings(2, 9), overloaded(2)
    for _ in range(5):
        assert first.decide(shown, settings) == GatewaySettings(3, 9)
        assert second.decide(shown, settings) == GatewaySettings(3, 9)
    assert (settings, shown) == (GatewaySettings(2, 9), overloaded(2))
