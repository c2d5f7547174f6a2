"""The self-healing loop: golden vectors, a second implementation, its quirks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.self_healing import SelfHealingParams
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import GatewaySettings, Limits

from .looks import each, look, played, vectors_of

VECTORS = vectors_of("self_healing")
LIMITS = Limits(1, 6)
Row = list[float | None]


def looks_of(rows: list[Row]) -> list[Any]:
    names = ("cpu_utilization", "error_rate", "ttft_p95_s", "replicas_ready")
    return [look(dict(zip(names, row, strict=True))) for row in rows]


def laid_out(runs: list[list[Any]]) -> list[Any]:
    return [value for count, value in runs for _ in range(count)]


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 25


@each(VECTORS["histories"])
def test_history(vector: dict[str, Any]) -> None:
    site = Site(LIMITS, vector["tick_s"], vector["window_s"])
    controller = SelfHealingParams(**vector["params"]).make(site, seed=0)
    start = GatewaySettings(vector["start"], 7, 50)
    found = played(controller, looks_of(laid_out(vector["runs"])), start)
    assert [one.replicas for one in found] == laid_out(vector["sizes"]), vector["why"]
    assert {(one.threshold_steps, one.max_outstanding) for one in found} == {(7, 50)}
    if "phase" in vector:
        assert controller.state.phase == vector["phase"]


# --- a second implementation --------------------------------------------------------------------


def reference(rows: list[Row], start: int) -> list[int]:
    """One plan after the other: finds its look, then the look that ends it, by searching ahead."""
    sizes: list[int] = []
    size, now = start, 0
    while len(sizes) < len(rows):
        plan = None
        for i in range(now + 4, len(rows)):
            busy = all((row[0] or 0) > 0.9 for row in rows[i - 4 : i + 1])
            if busy and (rows[i][1] or 0) > 0.05 and size < LIMITS.max_replicas:
                plan = i
                break
        if plan is None:
            return sizes + [size] * (len(rows) - len(sizes))
        sizes += [size] * (plan - len(sizes))
        size += 1
        ready = next((i for i in range(plan + 1, len(rows)) if (rows[i][3] or 0) >= size), None)
        if ready is None:
            return sizes + [size] * (len(rows) - len(sizes))
        well, end = 0, len(rows)
        for i in range(ready + 4, len(rows)):
            _, errors, seconds, _ = rows[i]
            if errors is None or not seconds:
                continue
            if errors > 0.05 or seconds > 0.21:
                sizes += [size] * (i - len(sizes))
                size -= 1
                end = i
                break
            well += 1
            if well == 20:
                end = i
                break
        if end == len(rows):
            return sizes + [size] * (len(rows) - len(sizes))
        sizes += [size] * (end + 1 - len(sizes))
        now = end + 1
    return sizes


BUSY: Row = [0.95, 0.1, 5.0, None]
CALM: Row = [0.5, 0.0, 0.1, 6]
STRETCHES = st.lists(
    st.tuples(
        st.integers(1, 12),
        st.sampled_from(
            [
                *(BUSY, BUSY, [0.95, 0.1, 5.0, 6], [0.95, 0.0, 0.1, 6], CALM, CALM, CALM),
                *([None, 0.1, 5.0, 3], [0.95, None, 5.0, 2], [0.5, 0.0, None, 6]),
            ]
        ),
    ),
    max_size=14,
)


@settings(deadline=None, max_examples=300)
@given(STRETCHES, st.integers(1, 6))
def test_histories_agree(stretches: list[tuple[int, Row]], start: int) -> None:
    rows = laid_out([list(one) for one in stretches])
    controller = SelfHealingParams().make(Site(LIMITS), seed=0)
    found = played(controller, looks_of(rows), GatewaySettings(start))
    assert [one.replicas for one in found] == reference(rows, start)


# --- known quirks -------------------------------------------------------------------------------


def test_quirk_it_never_removes_more_than_its_own_replica() -> None:
    controller = SelfHealingParams().make(Site(LIMITS), seed=0)
    found = played(controller, looks_of([CALM] * 500), GatewaySettings(5))
    assert {one.replicas for one in found} == {5}


def test_quirk_a_gateway_that_is_slow_alone_is_left_alone() -> None:
    controller = SelfHealingParams().make(Site(LIMITS), seed=0)
    found = played(controller, looks_of([[1.0, 0.0, 60.0, 4]] * 200), GatewaySettings(4))
    assert {one.replicas for one in found} == {4}


def test_quirk_an_llm_never_meets_its_200_ms_so_every_plan_is_rolled_back() -> None:
    """praxis-proxy/ai#90: bounds made for HTTP, here on the time to the first token."""
    controller = SelfHealingParams().make(Site(LIMITS), seed=0)
    rows = laid_out([[5, [0.95, 0.1, 5.0, 4]], [200, [0.6, 0.0, 0.5, 5]]])
    found = played(controller, looks_of(rows), GatewaySettings(4))
    assert found[4].replicas == 5
    assert found[-1].replicas == 4


def test_dynamo_14251_it_waits_for_ever_for_a_replica_that_never_gets_ready() -> None:
    controller = SelfHealingParams().make(Site(LIMITS), seed=0)
    stuck: Row = [0.95, 0.9, 60.0, 4]
    found = played(controller, looks_of([stuck] * 1000), GatewaySettings(4))
    assert {one.replicas for one in found[4:]} == {5}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cpu_limit": 1.1}, r"cpu_limit is 1\.1"),
        ({"error_limit": -0.1}, r"error_limit is -0\.1"),
        ({"busy_s": 0.0}, r"busy_s is 0\.0"),
        ({"latency_limit_s": 0.0}, r"latency_limit_s is 0\.0"),
        ({"verify_s": float("inf")}, "verify_s is inf"),
    ],
)
def test_what_means_nothing_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SelfHealingParams(**changes)
