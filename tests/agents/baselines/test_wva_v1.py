"""WVA V1: golden vectors worked out by hand, a second implementation, quirks and complaints."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.site import Site
from gatepilot.agents.baselines.wva_pods import Pod, Scale
from gatepilot.agents.baselines.wva_v1 import WvaV1, WvaV1Params, v1_target
from gatepilot.envs.schema.settings import GatewaySettings, Limits
from gatepilot.envs.schema.snapshot import MetricsSnapshot

from .suggesting import RandomSuggest

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("wva_v1_vectors.json").read_text(encoding="utf-8")
)
PARAMS = WvaV1Params()
LIMITS = Limits(1, 32)
IDLE = MetricsSnapshot(
    replicas_requested=4, breaker_threshold=0.5, replicas_ready=4, kv_usage=0.0, waiting=0
)


def vectors(group: str) -> pytest.MarkDecorator:
    cases = VECTORS[group]
    return pytest.mark.parametrize("vector", cases, ids=[case["name"] for case in cases])


def params_of(vector: dict[str, Any]) -> WvaV1Params:
    names = ("kv_threshold", "queue_threshold", "kv_spare_trigger", "queue_spare_trigger")
    given_ones = {name: vector[name] for name in (*names, "interval_s") if name in vector}
    return replace(PARAMS, **given_ones)


def controller(limits: Limits = LIMITS, tick_s: float = 15.0) -> WvaV1:
    return PARAMS.make(Site(limits, tick_s), seed=0)


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 60


@vectors("targets")
def test_target(vector: dict[str, Any]) -> None:
    pods = [Pod(kv, queue) for count, kv, queue in vector["pods"] for _ in range(count)]
    scale = Scale(vector["current"], vector.get("pending", 0), vector.get("desired", 0))
    assert v1_target(pods, scale, params_of(vector)) == vector["target"], vector["why"]


@vectors("histories")
def test_history(vector: dict[str, Any]) -> None:
    made = params_of(vector).make(Site(Limits(*vector["limits"]), 15.0), seed=0)
    in_force, sizes = GatewaySettings(vector["start"], 7, 90), []
    for tick in vector["ticks"]:
        snapshot = MetricsSnapshot(
            replicas_requested=in_force.replicas,
            breaker_threshold=0.35,
            replicas_ready=tick.get("ready", in_force.replicas),
            kv_usage=tick["kv"],
            waiting=tick.get("waiting", 0),
        )
        in_force = made.decide(snapshot, in_force)
        sizes.append(in_force.replicas)
    assert sizes == vector["sizes"], vector["why"]
    assert replace(in_force, replicas=1) == GatewaySettings(1, 7, 90)


# --- a second implementation: exact fractions, one table of the model ---------------------------


def reference(pods: list[tuple[Fraction, Fraction]], scale: Scale, params: WvaV1Params) -> set[int]:
    """Every size that rounding may give: both of a tie."""
    if not pods:
        return {scale.current}
    if scale.desired and scale.desired != scale.current:
        return {scale.desired}
    if scale.pending:
        return {scale.current}
    most = (Fraction(params.kv_threshold), Fraction(params.queue_threshold))
    least = (Fraction(params.kv_spare_trigger), Fraction(params.queue_spare_trigger))
    free = [pod for pod in pods if all(pod[i] < most[i] for i in (0, 1))]
    n = len(free)
    if n == 0:
        return {scale.current + 1}
    loads = [sum(pod[i] for pod in free) for i in (0, 1)]
    now = min(most[i] - Fraction(loads[i], n) - least[i] for i in (0, 1))
    after = min(most[i] - Fraction(loads[i], n - 1) - least[i] for i in (0, 1)) if n > 1 else -1
    near = Fraction(1, 10**9)
    sizes = set()
    if now < near:
        sizes.add(scale.current + 1)
    if now > -near:
        down = n > 1 and scale.current > 1
        if down and after > -near:
            sizes.add(scale.current - 1)
        if not down or after < near:
            sizes.add(scale.current)
    return sizes


sixteenths = st.integers(0, 20).map(lambda n: n / 16)
pods_strategy = st.lists(st.tuples(sixteenths, st.integers(0, 8).map(float)), max_size=9)
params_strategy = st.builds(
    WvaV1Params,
    st.integers(8, 16).map(lambda n: n / 16),
    st.integers(1, 9).map(float),
    st.integers(1, 8).map(lambda n: n / 16),
    st.integers(1, 6).map(float),
)
scales = st.builds(
    Scale, st.integers(1, 9), st.sampled_from([0, 0, 0, 1, 2]), st.sampled_from([0, 0, 0, 3, 5])
)


@settings(deadline=None, max_examples=300)
@given(pods_strategy, scales, params_strategy)
def test_targets_agree(pods: list[tuple[float, float]], scale: Scale, params: WvaV1Params) -> None:
    exact = [(Fraction(kv), Fraction(queue)) for kv, queue in pods]
    found = v1_target([Pod(*pod) for pod in pods], scale, params)
    assert found in reference(exact, scale, params)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(0, 32),
            st.none() | sixteenths,
            st.none() | st.integers(0, 60),
        ),
        max_size=12,
    ),
    st.integers(1, 33),
    st.sampled_from([15.0, 30.0, 50.0]),
)
def test_histories_agree(
    ticks: list[tuple[int | None, float | None, int | None]], start: int, interval_s: float
) -> None:
    limits = Limits(2, 24)
    made = replace(PARAMS, interval_s=interval_s).make(Site(limits, 15.0), seed=0)
    in_force = GatewaySettings(start)
    for i, (ready, kv, waiting) in enumerate(ticks):
        snapshot = replace(IDLE, replicas_ready=ready, kv_usage=kv, waiting=waiting)
        following = made.decide(snapshot, in_force)
        if i % int(np.ceil(interval_s / 15)) or not ready or (kv is None and waiting is None):
            assert following is in_force
            continue
        current = in_force.replicas
        pod = (Fraction(kv or 0), Fraction(waiting or 0, ready))
        scale = Scale(current, max(current - ready, 0), current)
        sizes = reference([pod] * ready, scale, PARAMS)
        assert following.replicas in {max(2, min(size, 24)) for size in sizes}
        in_force = following


# --- known quirks -------------------------------------------------------------------------------


def test_quirk_a_saturated_replica_does_not_stop_a_shrink_by_the_others() -> None:
    pods = [Pod(0.99, 50.0), Pod(0.2, 0.0), Pod(0.2, 0.0)]
    assert v1_target(pods, Scale(3), PARAMS) == 2


def test_quirk_one_replica_that_never_starts_blocks_every_change_for_good() -> None:
    made, in_force = controller(), GatewaySettings(4)
    for kv in [0.99, 0.0] * 500:
        snapshot = replace(IDLE, replicas_ready=3, kv_usage=kv, waiting=100 * kv)
        assert made.decide(snapshot, in_force) is in_force


def test_quirk_equal_loads_differ_by_a_binary_rounding() -> None:
    assert v1_target([Pod(0.35, 0.0)] * 2, Scale(2), PARAMS) == 1
    assert v1_target([Pod(0.3, 0.0), Pod(0.4, 0.0)], Scale(2), PARAMS) == 2


def test_quirk_a_missing_kv_usage_shrinks_as_an_idle_cache_does() -> None:
    """Upstream puts 0 for one missing gauge; only without both is nothing decided."""
    start = GatewaySettings(4)
    assert controller().decide(replace(IDLE, kv_usage=None), start).replicas == 3
    blind = replace(IDLE, kv_usage=None, waiting=None)
    assert controller().decide(blind, start) is start


def test_quirk_one_step_a_run_however_far_the_load_is_away() -> None:
    for pod, step in ((Pod(1.0, 1000.0), 1), (Pod(0.0, 0.0), -1)):
        assert v1_target([pod] * 20, Scale(20), PARAMS) == 20 + step


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


def test_llm_d_autoscaling_368_readings_of_deleted_pods_do_not_raise_the_size() -> None:
    """Saturated readings that stay behind leave the means; the size is not counted from them."""
    fresh = [Pod(0.5, 1.0), Pod(0.4, 1.0)]
    alone = v1_target(fresh, Scale(2), PARAMS)
    for stale in range(1, 20):
        assert v1_target([*fresh, *[Pod(0.95, 9.0)] * stale], Scale(2), PARAMS) == alone == 2


def test_llm_d_autoscaling_368_idle_readings_of_deleted_pods_still_hide_a_full_one() -> None:
    """Upstream's part of the fault: they are averaged in like living ones."""
    assert v1_target([Pod(0.75, 0.0)], Scale(1), PARAMS) == 2
    assert v1_target([Pod(0.75, 0.0), Pod(0.0, 0.0)], Scale(1), PARAMS) == 1


def test_llm_d_autoscaling_1302_pods_and_replicas_in_other_units_do_not_block() -> None:
    """Two pods a replica: until pull request 1303 this was "in transition" for good."""
    assert v1_target([Pod(0.95, 9.0)] * 4, Scale(2, 0, 2), PARAMS) == 3
    assert v1_target([Pod(0.1, 0.0)] * 4, Scale(2, 0, 2), PARAMS) == 1


def test_llm_d_autoscaling_1302_a_usage_in_percent_is_not_noticed() -> None:
    """Upstream's part of the fault: 30 % as 30.0 is saturated, so it grows without load."""
    assert v1_target([Pod(30.0, 0.0)] * 2, Scale(2), PARAMS) == 3
    with pytest.raises(ValueError, match=r"kv_threshold is 80, expected .* at most 1\.0"):
        WvaV1Params(kv_threshold=80)


def test_llm_d_autoscaling_681_the_baseline_is_the_published_defaults() -> None:
    assert WvaV1Params() == WvaV1Params(0.80, 5.0, 0.10, 3.0, 15.0)


# --- parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kv_threshold": 0.0}, "kv_threshold is 0.0"),
        ({"kv_threshold": 1.5}, "kv_threshold is 1.5"),
        ({"kv_spare_trigger": 0.9}, "kv_spare_trigger is 0.9, expected a number above 0 and at"),
        ({"queue_threshold": -1.0}, "queue_threshold is -1.0"),
        ({"queue_threshold": float("nan")}, "queue_threshold is nan"),
        ({"queue_spare_trigger": float("inf")}, "queue_spare_trigger is inf"),
        ({"interval_s": 0.0}, "interval_s is 0.0"),
    ],
)
def test_what_upstream_would_not_take_is_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WvaV1Params(**changes)


def test_a_search_draws_five_values() -> None:
    suggest = RandomSuggest(np.random.default_rng(0))
    WvaV1Params.suggested(suggest, Site(LIMITS))
    assert len(suggest.asked) == 5
