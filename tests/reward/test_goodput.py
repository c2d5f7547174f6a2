"""Goodput: known values, no cliff at the limits, the documented violations and no others."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepilot.envs.schema.snapshot import MetricsSnapshot
from gatepilot.reward.documented import default_reward
from gatepilot.reward.goodput import GoodputReward

from .test_documented import GOOD, SHED, parts_of

REWARD = GoodputReward()


def parts(after: MetricsSnapshot) -> dict[str, float]:
    return parts_of(after, reward=REWARD)


def total(after: MetricsSnapshot) -> float:
    return sum(parts(after).values())


def test_ten_requests_a_second_within_the_limits_earn_what_ten_replicas_cost() -> None:
    assert parts(replace(GOOD, error_rate=0.0)) == pytest.approx(
        {"goodput": 0.3, "violation": 0.0, "cost": -0.12, "smooth": 0.1}
    )


def test_half_of_them_late_at_twice_the_limit() -> None:
    assert parts(replace(GOOD, error_rate=0.0, ttft_p95_s=1.6)) == pytest.approx(
        {"goodput": 0.15, "violation": -1.5, "cost": -0.12, "smooth": 0.1}
    )


def test_a_tenth_fails_of_which_two_in_a_hundred_are_allowed() -> None:
    found = parts(replace(GOOD, error_rate=0.1))
    assert found["goodput"] == pytest.approx(0.27)
    assert found["violation"] == pytest.approx(-3.0 * 0.08)


def test_twice_the_traffic_counts_twice() -> None:
    broken = replace(GOOD, ttft_p95_s=1.2, error_rate=0.3)
    one, two = parts(broken), parts(replace(broken, request_rate_rps=20))
    for name in ("goodput", "violation"):
        assert two[name] == pytest.approx(2 * one[name])


def test_who_hangs_while_nobody_comes_costs() -> None:
    hanging = replace(GOOD, request_rate_rps=0.0, samples=0.0, ttft_p95_s=None, waiting=12.0)
    assert default_reward.violates(rows := hanging.to_row()[np.newaxis]).all()
    assert REWARD.violates(rows).all()
    assert parts(hanging)["violation"] == pytest.approx(-3.0 * 1.0 / 10.0)


@pytest.mark.parametrize("key", ["ttft_p95_s", "error_rate"])
def test_there_is_no_cliff(key: str) -> None:
    at = {"ttft_p95_s": 0.8, "error_rate": 0.02}[key]
    below, above = (replace(GOOD, **{key: at * (1 + step)}) for step in (-1e-9, 1e-9))
    assert total(above) == pytest.approx(total(below), abs=1e-6)


@given(p95_s=st.floats(0, 60), share=st.floats(0, 1), known=st.booleans())
def test_it_violates_where_the_documented_reward_does(
    *, p95_s: float, share: float, known: bool
) -> None:
    after = replace(GOOD, ttft_p95_s=p95_s if known else None, error_rate=share)
    expected = parts_of(after, reward=default_reward)["violation"] < 0
    assert (parts(after)["violation"] < 0) == expected


@given(st.floats(0, 60), st.floats(0, 60))
def test_a_longer_wait_never_earns_more(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert total(replace(GOOD, ttft_p95_s=high)) <= total(replace(GOOD, ttft_p95_s=low)) + 1e-12


def test_to_shed_everything_pays_for_every_request() -> None:
    assert total(SHED) < total(replace(GOOD, ttft_p95_s=80.0)) < total(GOOD)


def test_a_night_without_requests_costs_replicas_only() -> None:
    idle = replace(GOOD, ttft_p95_s=None, request_rate_rps=0, samples=0, error_rate=None)
    assert parts(idle) == pytest.approx(
        {"goodput": 0.0, "violation": 0.0, "cost": -0.12, "smooth": 0.1}
    )


@pytest.mark.parametrize(
    ("name", "value"), [("value", -1.0), ("price", float("nan")), ("per_rps", 0.0)]
)
def test_weights_that_turn_it_around_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        GoodputReward(**{name: value})  # type: ignore[arg-type]


def test_a_vector_is_rated_row_by_row() -> None:
    rows = np.stack([GOOD.to_row(), SHED.to_row()])
    both = REWARD(rows, np.zeros(2, np.int64), rows)
    for name, values in both.items():
        assert values.tolist() == [parts(GOOD)[name], parts(SHED)[name]]
