"""The HPA against a second implementation, written from the documented formula in another shape.

The controller walks lists of pods and keeps a short memory; the second implementation counts pods
by kind, works with arrays or in closed form, keeps the whole history and scans it each time.
"""

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.hpa import HpaParams, MetricTarget
from gatepilot.agents.baselines.hpa_behavior import HpaBehavior, ScalingPolicy, ScalingRules
from gatepilot.agents.baselines.hpa_replicas import (
    Pod,
    Tolerance,
    average_value_replicas,
    utilization_replicas,
)
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import GatewaySettings, Limits
from gatepilot.envs.schema.snapshot import MetricsSnapshot

from .hpa_reference import HpaReference, near_1

FAST, FULL = 500, 10_000


# --- one metric ---------------------------------------------------------------------------------


def pods_reference(pods: list[Pod], current: int, target: int, *, is_cpu: bool) -> int | None:
    value = np.array([-1 if p.value_milli is None else p.value_milli for p in pods], np.int64)
    request = np.array([p.request_milli for p in pods], np.int64)
    pending = np.array([p.is_pending for p in pods], bool)
    missing = ~pending & (value < 0)
    unready = pending | (~missing & is_cpu & np.array([not p.is_ready for p in pods], bool))
    ready = ~missing & ~unready
    if not ready.any():
        return None

    def ratio(values: np.ndarray, counted: np.ndarray) -> float:
        total = int(values[counted].sum())
        if is_cpu:
            return math.floor(Fraction(100 * total, int(request[counted].sum()))) / target
        return math.floor(Fraction(total, int(counted.sum()))) / target

    first = ratio(value, ready)
    direction = np.sign(first - 1.0)
    stands = (missing if direction else np.zeros_like(missing)) | (unready & (direction > 0))
    if not missing.any() and not stands.any():
        return current if near_1(first) else math.ceil(first * int(ready.sum()))
    if direction > 0:
        filled = np.where(ready, value, 0)
    else:
        at_target = request * max(100, target) // 100 if is_cpu else np.full_like(value, target)
        filled = np.where(ready, value, at_target)
    counted = ready | stands
    second = ratio(filled, counted)
    wanted = math.ceil(second * int(counted.sum()))
    if near_1(second) or direction * np.sign(second - 1.0) < 0:
        return current
    return max(wanted, current) if second > 1.0 else min(wanted, current)


pods_strategy = st.lists(
    st.builds(
        Pod,
        st.none() | st.integers(0, 3000),
        is_ready=st.booleans(),
        is_pending=st.sampled_from([False, False, False, True]),
        request_milli=st.sampled_from([1000, 1000, 500, 333]),
    ),
    max_size=8,
)


@settings(deadline=None, max_examples=FAST)
@given(pods_strategy, st.integers(1, 12), st.integers(1, 250))
def test_utilization_agrees(pods: list[Pod], current: int, target: int) -> None:
    ours = utilization_replicas(pods, current, target, Tolerance())
    assert ours == pods_reference(pods, current, target, is_cpu=True)


@settings(deadline=None, max_examples=FAST)
@given(pods_strategy, st.integers(1, 12), st.integers(1, 2500))
def test_average_value_agrees(pods: list[Pod], current: int, target: int) -> None:
    ours = average_value_replicas(pods, current, target, Tolerance())
    assert ours == pods_reference(pods, current, target, is_cpu=False)


# --- whole histories ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Tick:
    cpu: float | None
    kv: float | None
    running: int | None
    waiting: int | None
    starting: int | None


@dataclass(frozen=True)
class History:
    metrics: tuple[MetricTarget, ...]
    behavior: HpaBehavior | None
    limits: Limits
    start: int
    tick_s: int
    ticks: list[Tick]


def snapshot_of(tick: Tick, current: int) -> MetricsSnapshot:
    starting = tick.starting
    return MetricsSnapshot(
        replicas_requested=current,
        breaker_threshold=0.5,
        cpu_utilization=tick.cpu,
        kv_usage=tick.kv,
        running=tick.running,
        waiting=tick.waiting,
        replicas_starting=starting,
        replicas_ready=None if starting is None else max(current - starting, 0),
    )


def milli(value: float) -> int:
    return int((Decimal(repr(value)) * 1000).to_integral_value(ROUND_CEILING))


def wish(metric: MetricTarget, tick: Tick, current: int) -> int | None:
    """In closed form: all ready replicas stand at one value."""
    if metric.metric == "outstanding":
        if tick.running is None or tick.waiting is None:
            return None
        per_replica = Fraction(Decimal(str(metric.target)))
        total = tick.running + tick.waiting
        if near_1(float(total / (per_replica * current))):
            return current
        return math.ceil(total / float(per_replica))
    value = tick.cpu if metric.metric == "cpu" else tick.kv
    if value is None or tick.starting is None or (ready := max(current - tick.starting, 0)) == 0:
        return None
    used, others = milli(value) * ready, tick.starting
    if metric.metric == "cpu":
        target = round(metric.target * 100)
        first = used * 100 // (ready * 1000) / target
        if first <= 1.0:
            others = 0
        second = used * 100 // ((ready + others) * 1000) / target
    else:
        target = round(metric.target * 1000)
        first = used // ready / target
        if first < 1.0:
            used += others * target
        elif first == 1.0:
            others = 0
        second = used // (ready + others) / target
    size = math.ceil(second * (ready + others))
    if near_1(second) or (first - 1.0) * (second - 1.0) < 0:
        return current
    if tick.starting == 0 or (metric.metric == "cpu" and first <= 1.0):
        return size
    return max(size, current) if second > 1.0 else min(size, current)


def reference(history: History) -> list[int]:
    hpa, current, sizes = HpaReference(history.limits, history.behavior), history.start, []
    for i, tick in enumerate(history.ticks):

        def wanted(size: int, tick: Tick = tick) -> int | None:
            each = [wish(metric, tick, size) for metric in history.metrics]
            known = [w for w in each if w is not None]
            if not known or (None in each and max(known) < size):
                return None
            return max(known)

        current = hpa.synced(i * history.tick_s, current, wanted)
        sizes.append(current)
    return sizes


def controlled(history: History) -> list[int]:
    params = HpaParams(metrics=history.metrics, behavior=history.behavior)
    controller = params.make(Site(history.limits, history.tick_s), seed=0)
    in_force, sizes = GatewaySettings(history.start), []
    for tick in history.ticks:
        in_force = controller.decide(snapshot_of(tick, in_force.replicas), in_force)
        sizes.append(in_force.replicas)
    return sizes


shares = st.none() | st.integers(0, 12_000).map(lambda n: n / 10_000)
counts = st.none() | st.integers(0, 200)
rules = st.builds(
    ScalingRules,
    st.sampled_from([0.0, 60.0, 300.0]),
    st.lists(
        st.builds(
            ScalingPolicy,
            st.sampled_from(["pods", "percent"]),
            st.integers(1, 100),
            st.sampled_from([15.0, 60.0, 200.0]),
        ),
        min_size=1,
        max_size=2,
    ).map(tuple),
    st.sampled_from(["max", "max", "min", "disabled"]),
)
histories = st.builds(
    History,
    st.lists(
        st.builds(MetricTarget, st.sampled_from(["cpu", "kv"]), st.sampled_from([0.3, 0.5, 0.8]))
        | st.builds(MetricTarget, st.just("outstanding"), st.sampled_from([0.5, 2.0, 8.0, 16.0])),
        min_size=1,
        max_size=3,
    ).map(tuple),
    st.none() | st.just(HpaBehavior()) | st.builds(HpaBehavior, rules, rules),
    st.tuples(st.integers(1, 4), st.integers(4, 32)).map(lambda pair: Limits(*pair)),
    st.integers(1, 33),
    st.sampled_from([15, 60, 100]),
    st.lists(
        st.builds(Tick, shares, shares, counts, counts, st.none() | st.integers(0, 3)),
        min_size=1,
        max_size=10,
    ),
)


@settings(deadline=None, max_examples=FAST)
@given(histories)
def test_histories_agree(history: History) -> None:
    assert controlled(history) == reference(history)


@pytest.mark.slow
@pytest.mark.timeout(300)
@settings(deadline=None, max_examples=FULL)
@given(histories)
def test_ten_thousand_histories_agree(history: History) -> None:
    assert controlled(history) == reference(history)
