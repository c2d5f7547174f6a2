"""What the policy is shown is what the simulator shows; blind ticks are rows of NaN."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gatepilot.agents.baselines.planner.advisor import PlannerAdvisor
from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.agents.baselines.planner.planner import Planner
from gatepilot.deploy_bridge.sight import Sight, adopted
from gatepilot.envs.schema.fields import FIELDS
from gatepilot.envs.schema.observation import ObservationSpec, encode
from gatepilot.envs.schema.settings import GatewaySettings
from gatepilot.envs.schema.snapshot import MetricsSnapshot

from .kit import GOOD_VALUES
from .tiny_artifact import SITE

SPEC = ObservationSpec("extended", frame_stack=2)


def snapshot(**changes: float) -> MetricsSnapshot:
    return MetricsSnapshot(**{**GOOD_VALUES, **changes})


def see(sight: Sight, at: MetricsSnapshot) -> np.ndarray:
    return sight.see(at, adopted(at)[0])


def test_blind_ticks_are_rows_of_nan_and_nothing_is_carried_over() -> None:
    sight = Sight(SPEC, 5.0)
    see(sight, snapshot(request_rate_rps=10.0))
    sight.blind()
    shown = see(sight, snapshot(request_rate_rps=30.0))
    rows = np.full((SPEC.history_ticks, len(sight.history[0])), np.nan)
    rows[-3], rows[-1] = snapshot(request_rate_rps=10.0).to_row(), snapshot().to_row()
    rows[-1] = snapshot(request_rate_rps=30.0).to_row()
    np.testing.assert_array_equal(sight.history, rows)
    np.testing.assert_array_equal(shown, encode(rows[None], np.array([2]), SPEC)[0])


def test_the_age_of_the_last_change_is_counted_as_in_training() -> None:
    sight = Sight(SPEC, 5.0)
    ages = []
    for replicas in (4, 4, 4, 5, 5, None, 5, None, 6, 6):
        if replicas is None:
            sight.blind()
        else:
            see(sight, snapshot(replicas_requested=replicas))
        ages.append(sight.since_change)
    assert ages == [0, 1, 2, 0, 1, 2, 3, 4, 0, 1]


def test_ticks_that_were_left_out_are_rows_of_nan_too() -> None:
    sight = Sight(SPEC, 5.0)
    sight.pass_time(100.0, 50.0)
    see(sight, snapshot())
    doubts = sight.pass_time(115.2, 65.2)
    assert [doubt.kind for doubt in doubts] == ["overrun"]
    assert "2 left out before it" in doubts[0].detail
    assert np.isnan(sight.history[-2:]).all()
    assert not np.isnan(sight.history[-3, 0])
    assert sight.since_change == 2


@pytest.mark.parametrize("jump_s", [5.1, -5.1, 3600.0, -1e6])
def test_a_jump_of_the_wall_clock_is_doubtful_and_forgets(jump_s: float) -> None:
    sight = Sight(SPEC, 5.0)
    sight.pass_time(100.0, 50.0)
    see(sight, snapshot())
    doubts = sight.pass_time(105.0 + jump_s, 55.0)
    assert [doubt.kind for doubt in doubts] == ["clock"]
    assert np.isnan(sight.history).all()
    assert sight.replicas is None


@pytest.mark.parametrize("drift_s", [4.9, -4.9, 0.0])
def test_less_than_a_tick_is_no_jump(drift_s: float) -> None:
    sight = Sight(SPEC, 5.0)
    sight.pass_time(100.0, 50.0)
    assert sight.pass_time(105.0 + drift_s, 55.0) == ()


def test_a_monotonic_clock_that_stands_still_is_doubtful() -> None:
    sight = Sight(SPEC, 5.0)
    sight.pass_time(100.0, 50.0)
    assert [doubt.kind for doubt in sight.pass_time(100.0, 50.0)] == ["clock"]


def test_what_is_saved_is_restored_to_the_bit() -> None:
    sight, other = Sight(SPEC, 5.0), Sight(SPEC, 5.0)
    sight.pass_time(100.1, 50.3)
    see(sight, snapshot(request_rate_rps=0.1 + 0.2))
    sight.blind()
    other.restore(sight.saved())
    np.testing.assert_array_equal(other.history, sight.history)
    assert other.saved() == sight.saved()


# --- advice -------------------------------------------------------------------------------------

ADVISED = ObservationSpec("advised")
FULL = {
    "replicas_ejected": 0.0,
    "prompt_token_rate_tps": 20_000.0,
    "output_token_rate_tps": 4000.0,
    "prompt_tokens_p50": 800.0,
    "prompt_tokens_p95": 2500.0,
}


def advised_sight() -> Sight:
    return Sight(ADVISED, 5.0, PlannerAdvisor([SITE], PlannerParams()))


def told(shown: np.ndarray) -> list[float]:
    """The advice in an observation, and its flags."""
    found: list[float] = shown[ADVISED.entries.index("ticks_since_change") + 1 :].tolist()
    return found


def test_the_advisor_is_told_of_every_tick_and_of_blind_ones_by_a_row_of_nan() -> None:
    sight, planner = advised_sight(), Planner([SITE], PlannerParams())
    rates = [20.0, 40.0, None, None, 30.0, 90.0, None, 10.0]
    for tick, rate in enumerate(rates):
        at = None if rate is None else snapshot(request_rate_rps=rate, **FULL)
        row = np.full(len(FIELDS), np.nan) if at is None else at.to_row()
        plan = planner.see(row[None])
        if at is None:
            sight.blind()
            continue
        shown = see(sight, at)
        assert shown[ADVISED.entries.index("replicas_wanted")] == np.float32(plan.replicas[0] / 32)
        work = shown[ADVISED.entries.index("work_mean")]
        assert work == pytest.approx(np.log1p(2 * plan.work_mean[0]) / np.log1p(128), rel=1e-6), (
            tick
        )


def test_ticks_left_out_are_blind_ones_to_the_advisor_and_a_jump_starts_it_anew() -> None:
    one, other, fresh = advised_sight(), advised_sight(), advised_sight()
    at = snapshot(request_rate_rps=60.0, **FULL)
    for sight in (one, other):
        sight.pass_time(100.0, 50.0)
        see(sight, at)
    one.pass_time(115.0, 65.0)
    for _ in range(2):
        other.blind()
    low = snapshot(request_rate_rps=5.0, **FULL)
    assert told(see(one, low)) == told(see(other, low))
    assert told(see(fresh, low)) != told(see(one, low))
    other.pass_time(1e6, 70.0)
    assert told(see(other, low)) == told(see(advised_sight(), low))


def test_a_gap_of_days_is_over_at_once() -> None:
    sight = advised_sight()
    sight.pass_time(100.0, 50.0)
    see(sight, snapshot(**FULL))
    (doubt,) = sight.pass_time(100.0 + 5e6, 50.0 + 5e6)
    assert doubt.kind == "overrun"
    assert sight.since_change == 999_999
    assert np.isfinite(see(sight, snapshot(**FULL))).all()


@pytest.mark.parametrize("seen", [0, 1, 7])
def test_an_advised_sight_that_is_restored_goes_on_to_the_bit(seen: int) -> None:
    sight, other = advised_sight(), advised_sight()
    see(other, snapshot(request_rate_rps=77.0, **FULL))  # is to be forgotten
    rng = np.random.default_rng(0)
    for _ in range(seen):
        see(sight, snapshot(request_rate_rps=rng.uniform(1, 60), **FULL))
        sight.blind()
    content = json.dumps(sight.saved(), allow_nan=False)
    other.restore(json.loads(content))
    assert json.dumps(other.saved(), allow_nan=False) == content
    for rate in rng.uniform(1, 60, 20):
        at = snapshot(request_rate_rps=rate, **FULL)
        np.testing.assert_array_equal(see(other, at), see(sight, at))


@pytest.mark.parametrize(
    ("threshold", "steps", "is_noted"),
    [(0.5, 10, False), (0.85, 17, False), (0.07, 1, True), (0.0, 1, True), (1.0, 19, True)],
)
def test_a_threshold_in_force_becomes_the_nearest_step(
    threshold: float, steps: int, is_noted: bool
) -> None:
    settings, notes = adopted(snapshot(breaker_threshold=threshold))
    assert settings == GatewaySettings(4, steps)
    assert bool(notes) == is_noted
    assert all(f"breaker_threshold {threshold:g} taken as" in note for note in notes)


def test_part_of_a_replica_is_rounded_and_said() -> None:
    settings, notes = adopted(snapshot(replicas_requested=3.6))
    assert settings.replicas == 4
    assert notes == ("replicas_requested 3.6 taken as 4",)
