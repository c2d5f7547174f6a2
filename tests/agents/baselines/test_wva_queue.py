"""WVA's queue sizing as a controller: golden vectors, quirks and complaints."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.site import ReplicaSpec, Site
from gatepilot.agents.baselines.wva_queue import (
    WvaQueue,
    WvaQueueParams,
    queue_size,
    step_times,
)
from gatepilot.agents.baselines.wva_queue_model import LatencyTargets, RequestSize
from gatepilot.envs.profiles.step import StepModel
from gatepilot.envs.schema.settings import GatewaySettings, Limits
from gatepilot.envs.schema.snapshot import MetricsSnapshot

from .queue_reference import QueueReference
from .suggesting import REPLICA, RandomSuggest

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("wva_queue_vectors.json").read_text(encoding="utf-8")
)
PARAMS = WvaQueueParams()
UNIT = ReplicaSpec(StepModel(1.0, 1.0, 0.0, 1.0), cold_start_s=60.0, max_num_seqs=1)
"""A batch of one, no queue: with prompts of 1 and answers of 2 it takes 1/45 at a TTFT of 5.6."""
UNIT_PARAMS = WvaQueueParams(LatencyTargets(5.6), queue_per_batch=0)


def vectors(group: str) -> pytest.MarkDecorator:
    cases = VECTORS[group]
    return pytest.mark.parametrize("vector", cases, ids=[case["name"] for case in cases])


def snapshot_of(tick: dict[str, Any]) -> MetricsSnapshot:
    """One first token a second."""
    return MetricsSnapshot(
        replicas_requested=4,
        breaker_threshold=0.35,
        replicas_ready=tick.get("ready", 4),
        request_rate_rps=tick["rps"],
        samples=tick.get("samples", 60),
        prompt_token_rate_tps=tick.get("prompt", 1),
        output_token_rate_tps=tick.get("answer", 2),
    )


def controller(limits: Limits, replica: ReplicaSpec = REPLICA) -> WvaQueue:
    return PARAMS.make(Site(limits, 15.0, replica=replica), seed=0)


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 70


@vectors("mappings")
def test_mapping(vector: dict[str, Any]) -> None:
    found = step_times(StepModel(*vector["step"]), RequestSize(*vector["size"]), vector["batch"])
    times = [found.alpha_s, found.beta_s, found.gamma_s]
    assert times == pytest.approx(vector["times"], rel=1e-14), vector["why"]


@vectors("sizes")
def test_size(vector: dict[str, Any]) -> None:
    targets = None if vector["targets"] is None else LatencyTargets(*vector["targets"])
    params = replace(UNIT_PARAMS, targets=targets)
    found = queue_size(params, UNIT, vector["rate"], *vector["tokens"])
    assert found == vector["size"], vector["why"]


@vectors("histories")
def test_history(vector: dict[str, Any]) -> None:
    targets = LatencyTargets(*vector.get("targets", [5.6]))
    interval_s = vector.get("interval_s", 15.0)
    params = replace(UNIT_PARAMS, targets=targets, interval_s=interval_s)
    made = params.make(Site(Limits(*vector["limits"]), 15.0, replica=UNIT), seed=0)
    in_force, sizes = GatewaySettings(vector["start"], 7, 90), []
    for tick in vector["ticks"]:
        in_force = made.decide(snapshot_of(tick), in_force)
        sizes.append(in_force.replicas)
    assert sizes == vector["sizes"], vector["why"]
    assert replace(in_force, replicas=1) == GatewaySettings(1, 7, 90)


# --- a second implementation --------------------------------------------------------------------


SMALL = replace(REPLICA, max_num_seqs=8)
SMALL_PARAMS = WvaQueueParams(queue_per_batch=2)


def second_rate(prompt: int, output: int) -> float | None:
    """What SMALL can take at the inferred targets, from its step model's numbers."""
    both = prompt + output
    beta = (6e-5 * prompt + 5e-5 * output) / both
    targets = (
        0.036 + (beta + 3e-8) * prompt,
        0.036 + beta + 3e-8 * (prompt + (output + 1) / 2),
    )
    return QueueReference(0.012, beta, 3e-8, prompt, output, 8, 16).largest_throughput(targets)


@settings(deadline=None, max_examples=80)
@given(
    st.lists(
        st.tuples(
            st.none() | st.floats(0, 30),
            st.none() | st.sampled_from([0, 10, 700.5, 1800]) | st.floats(0, 2000),
            st.none() | st.sampled_from([0, 0.5, 1, 250]) | st.floats(0, 500),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_histories_agree(
    ticks: list[tuple[float | None, float | None, float | None]],
) -> None:
    site = Site(Limits(2, 24), 15.0, replica=SMALL)
    made, in_force = SMALL_PARAMS.make(site, seed=0), GatewaySettings(5)
    for rps, prompt, answer in ticks:
        snapshot = snapshot_of({"rps": rps, "prompt": prompt, "answer": answer})
        following = made.decide(snapshot, in_force)
        if rps is None or prompt is None or answer is None:
            assert following is in_force
            continue
        whole = [math.floor(mean) for mean in (prompt, answer)]
        each = second_rate(whole[0], whole[1]) if whole[1] else None
        if rps == 0 or whole[1] == 0:
            assert following.replicas == 2
        elif each is None:
            assert following is in_force
        else:
            sizes = {math.ceil(rps / each * (1 + edge)) for edge in (-1e-3, 0, 1e-3)}
            assert following.replicas in {min(max(size, 2), 24) for size in sizes}
        in_force = following


# --- the step model -----------------------------------------------------------------------------


@given(st.floats(0, 1e-3), st.floats(0, 1e-3), st.integers(0, 10_000), st.integers(1, 4000))
def test_a_request_keeps_its_work(seq_s: float, prefill_s: float, prompt: int, output: int) -> None:
    times = step_times(StepModel(0.01, seq_s, 0.0, prefill_s), RequestSize(prompt, output), 64)
    work = prefill_s * prompt + seq_s * output
    assert times.beta_s * (prompt + output) == pytest.approx(work, rel=1e-12)


# --- known quirks -------------------------------------------------------------------------------


def test_quirk_an_unreachable_target_holds_however_high_the_load() -> None:
    params = WvaQueueParams(LatencyTargets(0.001, 0.001))
    made = params.make(Site(Limits(1, 32), 15.0, replica=REPLICA), seed=0)
    start = GatewaySettings(2)
    for rps in (0.1, 10.0, 1000.0):
        tick = {"rps": rps, "prompt": 1000, "answer": 250}
        assert made.decide(snapshot_of(tick), start) is start
    assert made.decide(snapshot_of({"rps": 0.0}), start).replicas == 1


def test_quirk_a_stall_looks_like_no_load() -> None:
    stalled = {"rps": 40.0, "prompt": 1000, "answer": 0}
    start = GatewaySettings(20)
    assert controller(Limits(1, 32)).decide(snapshot_of(stalled), start).replicas == 1


def test_quirk_the_kv_cache_plays_no_part() -> None:
    tick = snapshot_of({"rps": 20.0, "prompt": 3000, "answer": 500})
    sizes = {
        controller(Limits(1, 32), replace(REPLICA, kv_capacity_tokens=tokens))
        .decide(tick, GatewaySettings(1))
        .replicas
        for tokens in (2_000, 400_000, None)
    }
    assert len(sizes) == 1


# --- complaints ---------------------------------------------------------------------------------


def test_llm_d_autoscaling_380_no_growth_without_load() -> None:
    made, in_force = controller(Limits(2, 32)), GatewaySettings(12)
    idle = snapshot_of({"rps": 0.0})
    for _ in range(10_000):
        following = made.decide(idle, in_force)
        assert following.replicas <= in_force.replicas
        in_force = following
    assert in_force.replicas == 2


def test_llm_d_autoscaling_368_what_deleted_pods_left_behind_is_not_read() -> None:
    tick = {"rps": 20.0, "prompt": 1000, "answer": 250}
    fresh = controller(Limits(1, 32)).decide(snapshot_of(tick), GatewaySettings(4))
    stale = replace(snapshot_of(tick), kv_usage=0.99, waiting=500, replicas_draining=9)
    assert controller(Limits(1, 32)).decide(stale, GatewaySettings(4)) == fresh


def test_llm_d_autoscaling_681_the_baseline_is_the_published_defaults() -> None:
    assert WvaQueueParams() == WvaQueueParams(None, 3.0, 10, 15.0)


# --- parameters ---------------------------------------------------------------------------------


def test_what_it_must_know_of_the_replica() -> None:
    with pytest.raises(ValueError, match="wva_queue needs to know what a replica can do"):
        PARAMS.make(Site(Limits(1, 8)), seed=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slo_multiplier": 1.0}, "slo_multiplier is 1.0"),
        ({"slo_multiplier": math.inf}, "slo_multiplier is inf"),
        ({"queue_per_batch": -1}, "queue_per_batch is -1"),
        ({"interval_s": -1.0}, "interval_s is -1.0"),
    ],
)
def test_what_upstream_would_not_take_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WvaQueueParams(**changes)


@pytest.mark.parametrize("seed", range(6))
def test_a_search_draws_targets_or_a_multiplier(seed: int) -> None:
    suggest = RandomSuggest(np.random.default_rng(seed))
    params = WvaQueueParams.suggested(suggest, Site(Limits(1, 8)))
    assert len(suggest.asked) == (3 if params.targets is None else 4)
