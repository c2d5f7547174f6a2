"""One test with a known value for every decision of the documented reward."""

import importlib
import math
from dataclasses import replace

import numpy as np
import pytest

from gatepilot.envs.reward_fn import RewardFn
from gatepilot.envs.schema.fields import FIELD_INDEX, Rows
from gatepilot.envs.schema.snapshot import MetricsSnapshot
from gatepilot.reward.documented import DocumentedReward, default_reward
from gatepilot.reward.presets import REWARDS
from gatepilot.reward.slo import Slo

GOOD = MetricsSnapshot(
    replicas_requested=4,
    replicas_draining=0,
    breaker_threshold=0.5,
    ttft_p95_s=0.5,
    error_rate=0.01,
    request_rate_rps=10,
    waiting=0,
    samples=600,
)
SHED = replace(GOOD, replicas_requested=1, ttft_p95_s=None, error_rate=1.0, samples=0)


def parts_of(
    after: MetricsSnapshot,
    choice: int = 0,
    before: MetricsSnapshot = GOOD,
    reward: RewardFn = default_reward,
) -> dict[str, float]:
    parts = reward(before.to_row()[None], np.array([choice]), after.to_row()[None])
    return {name: value.item() for name, value in parts.items()}


def total_of(after: MetricsSnapshot, choice: int = 0) -> float:
    return sum(parts_of(after, choice).values())


def test_the_parts_are_named_and_sum_to_the_reward() -> None:
    assert parts_of(GOOD) == {"cost": -0.3 * 4 / 10, "violation": 0.0, "smooth": 0.1}
    assert total_of(GOOD) == pytest.approx(-0.02)


def test_what_is_billed_is_requested_plus_draining() -> None:
    after = replace(GOOD, replicas_requested=4, replicas_draining=3, replicas_ready=2)
    assert parts_of(after)["cost"] == pytest.approx(-0.21)
    assert default_reward.replica_price == pytest.approx(0.03)


@pytest.mark.parametrize(("choice", "smooth"), [(0, 0.1), (1, -0.05), (-1, -0.05)])
def test_smooth_looks_at_the_choice(choice: int, smooth: float) -> None:
    assert parts_of(GOOD, choice)["smooth"] == smooth


def test_smooth_looks_at_the_choice_alone_clamped_or_not() -> None:
    at_the_top = replace(GOOD, replicas_requested=16)
    assert parts_of(at_the_top, 1, before=at_the_top)["smooth"] == -0.05
    grew_without_a_choice = replace(GOOD, replicas_requested=5)
    assert parts_of(grew_without_a_choice, 0)["smooth"] == 0.1


def test_the_threshold_head_costs_nothing() -> None:
    assert parts_of(replace(GOOD, breaker_threshold=0.55)) == parts_of(GOOD)


def test_a_violation_is_counted_once_also_when_both_limits_are_broken() -> None:
    late = replace(GOOD, ttft_p95_s=0.801)
    failing = replace(GOOD, error_rate=0.021)
    both = replace(GOOD, ttft_p95_s=80.0, error_rate=1.0)
    for after in (late, failing, both):
        assert parts_of(after)["violation"] == -5.0


def test_at_the_limits_there_is_no_violation() -> None:
    assert parts_of(replace(GOOD, ttft_p95_s=0.8, error_rate=0.02))["violation"] == 0.0


def test_arrivals_without_any_answer_violate() -> None:
    silent = replace(GOOD, ttft_p95_s=None, error_rate=None, samples=0)
    assert parts_of(silent)["violation"] == -5.0


def test_no_traffic_does_not_violate() -> None:
    idle = replace(GOOD, ttft_p95_s=None, error_rate=None, samples=0, request_rate_rps=0)
    assert parts_of(idle)["violation"] == 0.0


def test_it_looks_at_the_state_after_the_step_alone() -> None:
    terrible = replace(GOOD, ttft_p95_s=60.0, error_rate=1.0, replicas_requested=16)
    assert parts_of(GOOD, before=terrible) == parts_of(GOOD)
    assert parts_of(terrible)["violation"] == -5.0


def test_shedding_all_on_one_replica_scores_worse_than_serving_all_on_sixteen() -> None:
    assert total_of(SHED) < total_of(replace(GOOD, replicas_requested=16, replicas_draining=16), 1)


def test_the_worst_service_at_least_replicas_loses_to_any_kept_promise() -> None:
    for replicas in range(1, 33):
        kept = replace(GOOD, replicas_requested=replicas)
        assert total_of(SHED, 0) < total_of(kept, 1)


@pytest.mark.parametrize("name", ["replicas_requested", "replicas_draining"])
def test_replicas_that_are_missing_are_an_error(name: str) -> None:
    rows = np.stack([GOOD.to_row(), GOOD.to_row()])
    rows[1, FIELD_INDEX[name]] = math.nan
    with pytest.raises(ValueError, match="replicas_requested or replicas_draining is missing"):
        default_reward(rows, np.zeros(2, np.int64), rows)


def test_the_economics_are_the_documents() -> None:
    one_more = replace(GOOD, replicas_requested=5)
    assert total_of(GOOD) - total_of(one_more) == pytest.approx(0.03)
    assert total_of(GOOD, 0) - total_of(GOOD, 1) == pytest.approx(0.15)
    broken = replace(GOOD, ttft_p95_s=1.0)
    per_replica_tick = 0.03
    assert (total_of(GOOD) - total_of(broken)) / per_replica_tick == pytest.approx(166.7, abs=0.1)


def test_a_batch_is_its_rows() -> None:
    generator = np.random.default_rng(0)
    snapshots = [GOOD, SHED, replace(GOOD, ttft_p95_s=2.0), replace(GOOD, replicas_draining=2)]
    rows: Rows = np.stack([snapshots[i].to_row() for i in generator.integers(0, 4, 50)])
    choices = generator.integers(-1, 2, 50)
    batched = default_reward(rows, choices, rows)
    for i in range(50):
        alone = default_reward(rows[i : i + 1], choices[i : i + 1], rows[i : i + 1])
        for name, values in batched.items():
            assert values.shape == (50,)
            assert values[i] == alone[name].item()


def test_it_is_pure() -> None:
    rows, choices = GOOD.to_row()[None], np.array([1])
    kept = rows.copy()
    first = default_reward(rows, choices, rows)
    second = default_reward(rows, choices, rows)
    assert first == second
    np.testing.assert_array_equal(rows, kept)


def test_weights_and_limits_are_configuration() -> None:
    reward = DocumentedReward(
        Slo(latency_limit_s=0.4), cost_weight=1.0, violation_penalty=2.0, change_penalty=0.0
    )
    assert parts_of(GOOD, 1, reward=reward) == {"cost": -0.4, "violation": -2.0, "smooth": 0.0}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cost_weight", -0.3),
        ("violation_penalty", -5.0),
        ("hold_bonus", math.nan),
        ("change_penalty", math.inf),
        ("cost_per_replicas", 0.0),
        ("cost_per_replicas", math.nan),
    ],
)
def test_weights_that_turn_the_reward_around_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        DocumentedReward(**{name: value})  # type: ignore[arg-type]


def test_the_registered_string_resolves_to_the_documented_reward() -> None:
    module, _, name = "gatepilot.reward.documented:default_reward".partition(":")
    assert getattr(importlib.import_module(module), name) == DocumentedReward()


def test_presets_are_made_by_name() -> None:
    assert REWARDS["documented"]() == default_reward
    assert REWARDS["cautious"]() == DocumentedReward(violation_penalty=15.0)
