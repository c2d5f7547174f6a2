"""WVA V2: golden vectors worked out by hand, known quirks and complaints."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gatepilot.agents.baselines.site import ReplicaSpec, Site
from gatepilot.agents.baselines.wva_capacity import (
    CapacityMemory,
    EngineSpec,
    Reading,
    capacity_tokens,
    demand_tokens,
    median_tokens,
    output_class,
    used_tokens,
)
from gatepilot.agents.baselines.wva_pods import Scale
from gatepilot.agents.baselines.wva_v2 import (
    WvaV2,
    WvaV2Params,
    balance_of,
    replicas_after,
    v2_target,
)
from gatepilot.envs.profiles.step import StepModel
from gatepilot.envs.schema.settings import GatewaySettings, Limits
from gatepilot.envs.schema.snapshot import MetricsSnapshot

from .suggesting import RandomSuggest

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("wva_v2_vectors.json").read_text(encoding="utf-8")
)
PARAMS = WvaV2Params()
REPLICA = ReplicaSpec(
    StepModel(0.012, 5e-5, 3e-8, 6e-5),
    cold_start_s=110.0,
    max_num_seqs=128,
    chunk_tokens=512,
    kv_capacity_tokens=100_000,
)
IDLE = MetricsSnapshot(
    replicas_requested=4,
    breaker_threshold=0.5,
    replicas_ready=4,
    kv_usage=0.0,
    waiting=0,
    samples=0,
    prompt_token_rate_tps=0.0,
    output_token_rate_tps=0.0,
)


def vectors(group: str) -> pytest.MarkDecorator:
    cases = VECTORS[group]
    return pytest.mark.parametrize("vector", cases, ids=[case["name"] for case in cases])


def controller(limits: Limits, params: WvaV2Params = PARAMS) -> WvaV2:
    return params.make(Site(limits, 15.0, replica=REPLICA), seed=0)


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 80


@vectors("balances")
def test_balance(vector: dict[str, Any]) -> None:
    params = replace(
        PARAMS,
        scale_up_threshold=vector.get("up", 0.85),
        scale_down_boundary=vector.get("down", 0.70),
    )
    pending = vector.get("pending", 0)
    scale = Scale(vector["ready"] + pending, pending)
    balance = balance_of(vector["per_replica"], vector["demand"], scale, params)
    assert balance.required == pytest.approx(vector["required"], abs=1e-6), vector["why"]
    assert balance.spare == pytest.approx(vector["spare"], abs=1e-6), vector["why"]
    assert replicas_after(balance, scale.current) == vector["size"], vector["why"]


@vectors("capacities")
def test_capacity(vector: dict[str, Any]) -> None:
    remembered = vector.get("remembered", {})
    memory = CapacityMemory({key: list(tokens) for key, tokens in remembered.items()})
    reading = Reading(*vector["reading"])
    capacity = capacity_tokens(
        reading,
        EngineSpec(*vector["engine"]),
        memory,
        kv_threshold=vector.get("kv_threshold", 0.80),
        queue_threshold=vector.get("queue_threshold", 5.0),
    )
    assert capacity == vector["capacity"], vector["why"]
    assert demand_tokens(reading) == pytest.approx(vector["demand"], rel=1e-12), vector["why"]
    assert memory.observed == vector.get("observed", remembered), vector["why"]


@vectors("pieces")
def test_piece(vector: dict[str, Any]) -> None:
    pieces: dict[str, Callable[..., object]] = {
        "class": output_class,
        "median": median_tokens,
        "used": used_tokens,
    }
    assert pieces[vector["piece"]](*vector["of"]) == vector["is"], vector["why"]


@vectors("runs")
def test_runs(vector: dict[str, Any]) -> None:
    memory, size, sizes = CapacityMemory(), vector["start"], []
    for run in vector["runs"]:
        readings = [Reading(*rest) for count, *rest in run["readings"] for _ in range(count)]
        scale = Scale(size, run.get("pending", 0))
        size = v2_target(readings, scale, EngineSpec(*vector["engine"]), memory, PARAMS)
        sizes.append(size)
    assert sizes == vector["sizes"], vector["why"]


@vectors("histories")
def test_history(vector: dict[str, Any]) -> None:
    params = replace(PARAMS, interval_s=vector.get("interval_s", 15.0))
    made = controller(Limits(*vector["limits"]), params)
    in_force, sizes = GatewaySettings(vector["start"], 7, 90), []
    for tick in vector["ticks"]:
        snapshot = MetricsSnapshot(
            replicas_requested=in_force.replicas,
            breaker_threshold=0.35,
            replicas_ready=tick.get("ready", in_force.replicas),
            kv_usage=tick["kv"],
            waiting=tick.get("waiting", 0),
            samples=tick.get("samples", 600),
            prompt_token_rate_tps=tick.get("prompt_tps", 10_000.0),
            output_token_rate_tps=tick.get("output_tps", 2_500.0),
        )
        in_force = made.decide(snapshot, in_force)
        sizes.append(in_force.replicas)
    assert sizes == vector["sizes"], vector["why"]
    assert replace(in_force, replicas=1) == GatewaySettings(1, 7, 90)


def busy(tick: int, ready: int) -> MetricsSnapshot:
    queueing = tick % 7 in (2, 3)
    return replace(
        IDLE,
        replicas_ready=ready,
        kv_usage=0.2 + 0.05 * (tick % 11),
        waiting=6.0 * ready if queueing else 1.0,
        samples=300,
        prompt_token_rate_tps=4_000.0,
        output_token_rate_tps=(200.0, 1_200.0, 4_000.0)[tick % 3],
    )


@pytest.mark.parametrize("half", [0, 1, 20, 33])
def test_it_goes_on_where_another_stopped(half: int) -> None:
    """Through JSON, with all three classes of answers observed, in a loop of two ticks."""
    params = replace(PARAMS, interval_s=30.0)
    whole, first, second = (controller(Limits(1, 20), params) for _ in range(3))
    size, sizes = GatewaySettings(4), []
    for tick in range(60):
        if tick == half:
            second.restore(json.loads(json.dumps(first.saved())))
        snapshot = busy(tick, size.replicas)
        other = (first if tick < half else second).decide(snapshot, size)
        size = whole.decide(snapshot, size)
        assert other == size
        sizes.append(size.replicas)
    assert second.saved() == whole.saved()
    assert {len(kept) for kept in whole.state.memory.observed.values()} == {10}
    assert len(set(sizes)) > 5


# --- known quirks -------------------------------------------------------------------------------

ENGINE = EngineSpec(100_000, 512, 128)


def after(readings: list[Reading], scale: Scale, memory: CapacityMemory | None = None) -> int:
    return v2_target(readings, scale, ENGINE, memory or CapacityMemory(), PARAMS)


def test_quirk_pending_replicas_do_not_stop_a_shrink_and_are_removed_first() -> None:
    assert after([Reading(1_000, 0, 0, 0)] * 4, Scale(6, 2)) == 3  # 320,000 - 5,714: three


def test_quirk_the_order_of_the_pods_matters() -> None:
    """Upstream reads them from a map, in no order."""
    full, others = Reading(60_000, 5, 0, 250), [Reading(1_000, 0, 0, 250)] * 2
    assert after([full, *others], Scale(3)) == 2
    assert after([*others, full], Scale(3)) == 5


def test_quirk_1500_a_prefill_bound_queue_leaves_a_small_capacity_behind() -> None:
    memory = CapacityMemory()
    queueing, calm = Reading(8_000, 5, 4_000, 100), Reading(8_000, 0, 4_000, 100)
    assert after([queueing] * 4, Scale(4), memory) == 17  # 112,000 / 0.85 - 32,000 at c = 8,000
    assert after([calm] * 17, Scale(17), memory) == 20  # at 8 % of the cache, for good


def test_quirk_1456_a_waiting_answer_costs_nothing() -> None:
    assert demand_tokens(Reading(0, 10, 100, 8_000)) == 1_000


def test_quirk_a_missing_kv_usage_shrinks_to_the_last_one() -> None:
    made, start = controller(Limits(1, 32)), GatewaySettings(9)
    assert made.decide(replace(IDLE, replicas_ready=9, kv_usage=None), start).replicas == 1


def test_quirk_the_queue_threshold_is_cut_here_and_not_in_v1() -> None:
    limits = {"kv_threshold": 0.8, "queue_threshold": 5.9}
    assert capacity_tokens(Reading(9, 5, 0, 0), ENGINE, CapacityMemory(), **limits) == 9


# --- complaints ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kv", [0.0, None])
def test_llm_d_autoscaling_380_no_growth_without_load(kv: float | None) -> None:
    made, in_force = controller(Limits(2, 32)), GatewaySettings(12)
    for _ in range(10_000):
        snapshot = replace(IDLE, replicas_ready=in_force.replicas, kv_usage=kv)
        following = made.decide(snapshot, in_force)
        assert following.replicas <= in_force.replicas
        in_force = following
    assert in_force.replicas == 2


def test_llm_d_autoscaling_368_readings_of_deleted_pods_still_count_as_demand() -> None:
    """Upstream has the fault: supply is counted from the replicas, demand from the readings."""
    fresh = [Reading(60_000, 0, 0, 0)] * 2
    assert after(fresh, Scale(2)) == 2
    assert after([*fresh, Reading(60_000, 0, 0, 0)], Scale(2)) == 3


def test_llm_d_autoscaling_368_idle_readings_of_deleted_pods_change_nothing() -> None:
    fresh = [Reading(60_000, 0, 0, 0)] * 2
    for stale in range(9):
        assert after([*fresh, *[Reading(0, 0, 0, 0)] * stale], Scale(2)) == 2


def test_llm_d_autoscaling_1302_pods_and_replicas_in_other_units_do_not_block() -> None:
    """Two pods a replica: it acts, though capacity is a pod's and the size counts replicas."""
    assert after([Reading(70_000, 0, 0, 0)] * 4, Scale(2)) == 5
    assert after([Reading(0, 0, 0, 0)] * 4, Scale(2)) == 1


def test_llm_d_autoscaling_1302_a_usage_in_percent_is_a_full_cache() -> None:
    """Upstream's part of the fault: 30 % as 30.0 is clamped to all tokens, so it grows."""
    assert used_tokens(30.0, 100_000) == 100_000
    made = controller(Limits(1, 32))
    assert made.decide(replace(IDLE, kv_usage=30.0), GatewaySettings(4)).replicas == 6
    with pytest.raises(ValueError, match=r"scale_up_threshold is 85, expected .* at most 1"):
        WvaV2Params(scale_up_threshold=85)


def test_llm_d_autoscaling_681_the_baseline_is_the_published_defaults() -> None:
    assert WvaV2Params() == WvaV2Params(0.80, 5.0, 0.85, 0.70, 15.0)


# --- parameters ---------------------------------------------------------------------------------


def test_what_it_must_know_of_the_replica() -> None:
    with pytest.raises(ValueError, match="wva_v2 needs to know what a replica can do"):
        PARAMS.make(Site(Limits(1, 8)), seed=0)
    unknown = replace(REPLICA, kv_capacity_tokens=None)
    with pytest.raises(ValueError, match="wva_v2 needs to know the replica's KV capacity"):
        PARAMS.make(Site(Limits(1, 8), replica=unknown), seed=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kv_threshold": 0.0}, "kv_threshold is 0.0"),
        ({"scale_down_boundary": 1.5}, "scale_down_boundary is 1.5"),
        ({"scale_down_boundary": 0.85}, "scale_down_boundary is 0.85, expected a number below"),
        ({"queue_threshold": 0.0}, "queue_threshold is 0.0"),
        ({"scale_up_threshold": float("nan")}, "scale_up_threshold is nan"),
        ({"interval_s": float("inf")}, "interval_s is inf"),
    ],
)
def test_what_upstream_would_not_take_is_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WvaV2Params(**changes)


def test_a_search_draws_five_values() -> None:
    suggest = RandomSuggest(np.random.default_rng(0))
    WvaV2Params.suggested(suggest, Site(Limits(1, 8)))
    assert len(suggest.asked) == 5
