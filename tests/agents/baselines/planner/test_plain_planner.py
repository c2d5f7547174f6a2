"""The planner against a second one of another shape, and what it remembers."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.agents.baselines.planner.planner import Plan, Planner
from gatepilot.agents.baselines.site import ReplicaSpec, Site
from gatepilot.envs.profiles.step import StepModel
from gatepilot.envs.schema.fields import FIELD_INDEX, FIELDS, Rows
from gatepilot.envs.schema.settings import Limits
from gatepilot.envs.schema.snapshot import MetricsSnapshot

from .plain_planner import PlainPlanner

REPLICA = ReplicaSpec(StepModel(0.0128, 5e-5, 3e-8, 7.5e-5), 40.0)
SITE = Site(Limits(1, 16), replica=REPLICA)
FLOATS = ("prefill_work", "decode_work", "work_peak", "work_mean", "threshold_steps")


def snapshot(**values: float | None) -> MetricsSnapshot:
    plain = {
        "replicas_requested": 4.0,
        "breaker_threshold": 0.5,
        "replicas_ready": 4.0,
        "replicas_ejected": 0.0,
        "request_rate_rps": 20.0,
        "samples": 1200.0,
        "prompt_token_rate_tps": 20_000.0,
        "output_token_rate_tps": 2000.0,
        "prompt_tokens_p50": 800.0,
        "prompt_tokens_p95": 2500.0,
        "waiting": 0.0,
        "ttft_p95_s": 0.4,
    }
    return MetricsSnapshot(**{**plain, **values})  # type: ignore[arg-type]


def rows_of(*snapshots: MetricsSnapshot) -> Rows:
    return np.stack([one.to_row() for one in snapshots])


def maybe(low: float, high: float) -> st.SearchStrategy[float | None]:
    return st.none() | st.floats(low, high)


moments = st.builds(
    snapshot,
    replicas_requested=st.integers(1, 16).map(float),
    replicas_ready=st.none() | st.integers(0, 16).map(float),
    replicas_ejected=st.none() | st.integers(0, 3).map(float),
    request_rate_rps=st.just(0.0) | maybe(0.1, 60),
    samples=st.just(0.0) | maybe(1, 4000),
    prompt_token_rate_tps=st.just(0.0) | maybe(10, 1e5),
    output_token_rate_tps=maybe(10, 1e4),
    prompt_tokens_p50=maybe(10, 4000),
    prompt_tokens_p95=maybe(10, 20_000),
    waiting=maybe(0, 300),
    ttft_p95_s=maybe(0.01, 20),
    replica_error_spread=maybe(0, 1),
)


@settings(deadline=None, max_examples=60)
@given(
    seen=st.lists(moments, min_size=1, max_size=50),
    hold_ticks=st.integers(0, 6),
    bias_weight=st.floats(0, 1),
    errors=st.floats(0, 2),
    floor_replicas=st.integers(0, 18),
)
def test_any_history_leads_where_the_plain_planner_goes(
    seen: list[MetricsSnapshot],
    hold_ticks: int,
    bias_weight: float,
    errors: float,
    floor_replicas: int,
) -> None:
    params = PlannerParams(
        hold_ticks=hold_ticks,
        bias_weight=bias_weight,
        errors=errors,
        floor_replicas=floor_replicas,
    )
    planner, plain = Planner([SITE], params), PlainPlanner(SITE, params)
    for at in seen:
        plan, expected = planner.see(rows_of(at)), plain.see(at)
        assert (plan.replicas[0], plan.need[0]) == (expected.replicas, expected.need)
        for name in FLOATS:
            found, wanted = float(getattr(plan, name)[0]), getattr(expected, name)
            if wanted is None:
                assert math.isnan(found), name
            else:
                assert found == pytest.approx(wanted, rel=1e-9, abs=1e-12), name


def test_replicas_that_never_come_are_made_up_for_once() -> None:
    """Two of six never come: two more are needed."""
    planner, plain = Planner([SITE], PlannerParams()), PlainPlanner(SITE, PlannerParams())
    needs = []
    for _ in range(20):
        at = snapshot(replicas_requested=6.0, replicas_ready=4.0)
        needs.append(int(planner.see(rows_of(at)).need[0]))
        assert needs[-1] == plain.see(at).need
    calm = plans(Planner([SITE], PlannerParams()), [20.0] * 20)[-1].need[0]
    assert needs[-1] == calm + 2


# --- peak and mean ------------------------------------------------------------------------------


def plans(planner: Planner, rates: list[float | None]) -> list[Plan]:
    return [planner.see(rows_of(snapshot(request_rate_rps=rate))) for rate in rates]


def test_the_peak_is_that_of_thirty_ticks_and_what_is_not_known_is_not_0() -> None:
    unit = plans(Planner([SITE], PlannerParams()), [1.0])[0].work_peak[0]
    found = plans(Planner([SITE], PlannerParams()), [None, 30.0, *[10.0] * 29, 10.0, 20.0])
    peaks = [plan.work_peak[0] / unit for plan in found]
    assert math.isnan(peaks[0])
    assert peaks[1:31] == pytest.approx([30.0] * 30)
    assert peaks[31:] == pytest.approx([10.0, 20.0])
    gap = plans(Planner([SITE], PlannerParams()), [5.0, *[None] * 30])
    assert gap[-2].work_peak[0] / unit == pytest.approx(5.0)
    assert math.isnan(gap[-1].work_peak[0])


def test_the_mean_is_plain_at_first_and_of_half_an_hour_later() -> None:
    planner = Planner([SITE], PlannerParams())
    unit = plans(Planner([SITE], PlannerParams()), [1.0])[0].work_mean[0]
    found = plans(planner, [None, 10.0, 20.0, 30.0, None])
    means = [plan.work_mean[0] / unit for plan in found]
    assert math.isnan(means[0])
    assert means[1:] == pytest.approx([10.0, 15.0, 20.0, 20.0])
    plans(planner, [20.0] * 1000)
    stepped = plans(planner, [40.0] * 120)[-1]  # 1800 s: 1 - 1/e of the way
    assert stepped.work_mean[0] / unit == pytest.approx(40 - 20 / math.e, rel=1e-3)


# --- state --------------------------------------------------------------------------------------


def walk(planner: Planner, ticks: int, seed: int = 0) -> list[Plan]:
    rng, n = np.random.default_rng(seed), len(planner.state.ticks)
    found = []
    for _ in range(ticks):
        rates = rng.uniform(1, 40, n)
        rows = rows_of(*(snapshot(request_rate_rps=rate) for rate in rates.tolist()))
        rows[:, FIELD_INDEX["ttft_p95_s"]] = rng.uniform(0.1, 2, n)
        rows[rng.random(n) < 0.2, FIELD_INDEX["request_rate_rps"]] = np.nan
        found.append(planner.see(rows))
    return found


def same(plan: Plan, other: Plan, ours: Any = ..., theirs: Any = ...) -> None:  # noqa: ANN401
    for name in ("replicas", "need", *FLOATS):
        np.testing.assert_array_equal(getattr(plan, name)[ours], getattr(other, name)[theirs])


def test_what_is_written_down_is_json_and_goes_on_to_the_bit() -> None:
    planner, other = Planner([SITE], PlannerParams(), 3), Planner([SITE], PlannerParams(), 3)
    walk(planner, 17)
    text = json.dumps(planner.state.saved(), allow_nan=False)
    other.state.restore(json.loads(text))
    assert json.dumps(other.state.saved(), allow_nan=False) == text
    for plan, expected in zip(walk(other, 40, 1), walk(planner, 40, 1), strict=True):
        same(plan, expected)


def test_a_gateway_that_is_copied_goes_on_as_its_source() -> None:
    planner, there = Planner([SITE], PlannerParams(), 4), Planner([SITE], PlannerParams(), 2)
    walk(planner, 50)
    walk(there, 20, 3)
    planner.copy_rows(np.array([0, 0]), np.array([1, 2]))
    planner.copy_rows(np.array([1]), np.array([3]), there)
    for tick in range(40):
        row = snapshot(request_rate_rps=float(tick))
        plan, origin = planner.see(rows_of(*[row] * 4)), there.see(rows_of(row, row))
        same(plan, plan, [1, 2], [0, 0])
        same(plan, origin, [3], [1])


# --- what no plant shows ------------------------------------------------------------------------


def test_a_row_of_nothing_changes_nothing_but_the_time() -> None:
    planner = Planner([SITE], PlannerParams(hold_ticks=3))
    before = plans(planner, [40.0] * 5)[-1]
    blind = planner.see(np.full((1, len(FIELDS)), np.nan))
    assert blind.need[0] == before.need[0]
    assert math.isnan(blind.prefill_work[0])
    assert blind.work_peak[0] == before.work_peak[0]
    assert blind.work_mean[0] == before.work_mean[0]
    level = planner.state.forecast.level.copy()
    for _ in range(40):
        blind = planner.see(np.full((1, len(FIELDS)), np.nan))
    assert blind.need[0] == before.need[0]
    assert math.isnan(blind.work_peak[0])
    assert planner.state.forecast.level == level


def test_a_row_of_nothing_may_come_first() -> None:
    planner = Planner([SITE], PlannerParams())
    planner.see(np.full((1, len(FIELDS)), np.nan))
    plan, fresh = (plans(p, [20.0])[0] for p in (planner, Planner([SITE], PlannerParams())))
    same(plan, fresh)


@pytest.mark.parametrize("name", [field.name for field in FIELDS if field.unit != "0-1"])
@pytest.mark.parametrize("value", [1e12, 1.7e308])
def test_a_number_that_no_plant_shows_does_no_lasting_harm(name: str, value: float) -> None:
    params = PlannerParams(hold_ticks=2, peak_share=0.0, bias_weight=0.0)
    planner, calm = Planner([SITE], params), Planner([SITE], params)
    plans(planner, [20.0] * 5)
    for _ in range(3):
        plan = planner.see(rows_of(snapshot(**{name: value})))
        assert 1 <= plan.need[0] <= 16 or name == "replicas_requested"
    after, expected = plans(planner, [20.0] * 200)[-1], plans(calm, [20.0] * 200)[-1]
    assert np.isfinite(after.prefill_work).all()
    assert after.need[0] == expected.need[0]


def test_next_to_no_replica_is_as_busy_as_can_be() -> None:
    planner = Planner([SITE], PlannerParams())
    for _ in range(20):
        planner.see(rows_of(snapshot(replicas_ready=5e-324, replicas_requested=0.0)))
    assert np.isfinite(planner.state.bias).all()


def test_next_to_no_sample_is_no_length() -> None:
    planner = Planner([SITE], PlannerParams())
    plan = planner.see(rows_of(snapshot(samples=1e-300)))
    assert math.isnan(plan.prefill_work[0])
