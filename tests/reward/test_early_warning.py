"""What the way to the limit costs: known values, no cliff, nothing for what is not known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepilot.envs.schema.snapshot import MetricsSnapshot
from gatepilot.reward.documented import DocumentedReward, default_reward
from gatepilot.reward.early_warning import EarlyWarningReward

from .test_documented import GOOD, parts_of

REWARD = EarlyWarningReward()


def approach(after: MetricsSnapshot) -> float:
    return parts_of(after, reward=REWARD)["approach"]


@pytest.mark.parametrize(
    ("ttft_p95_s", "price"), [(0.8, 5.0), (0.7, 0.5), (0.6, 0.05), (0.5, 0.005), (0.0, 5e-8)]
)
def test_a_tenth_for_each_eighth_of_the_limit(ttft_p95_s: float, price: float) -> None:
    assert approach(replace(GOOD, ttft_p95_s=ttft_p95_s)) == pytest.approx(-price)


def test_a_violation_costs_what_it_costs_and_no_more() -> None:
    parts = parts_of(replace(GOOD, ttft_p95_s=0.81), reward=REWARD)
    assert (parts["violation"], parts["approach"]) == (-5.0, 0.0)
    errors = parts_of(replace(GOOD, ttft_p95_s=0.79, error_rate=0.5), reward=REWARD)
    assert (errors["violation"], errors["approach"]) == (-5.0, 0.0)


def test_without_a_p95_there_is_no_warning() -> None:
    idle = replace(GOOD, ttft_p95_s=None, request_rate_rps=0, samples=0, error_rate=None)
    parts = parts_of(idle, reward=REWARD)
    assert (parts["violation"], parts["approach"]) == (0.0, 0.0)


@given(st.floats(0.0, 60.0), st.floats(0.0, 60.0))
def test_a_longer_wait_never_earns_more(one: float, other: float) -> None:
    low, high = sorted((one, other))
    totals = [
        sum(parts_of(replace(GOOD, ttft_p95_s=p), reward=REWARD).values()) for p in (low, high)
    ]
    assert totals[1] <= totals[0] + 1e-12


def test_everything_else_is_the_documented_reward() -> None:
    parts = parts_of(GOOD, reward=REWARD)
    del parts["approach"]
    assert parts == parts_of(GOOD, reward=default_reward)
    dear = EarlyWarningReward(DocumentedReward(violation_penalty=15.0))
    assert parts_of(replace(GOOD, ttft_p95_s=0.7), reward=dear)["approach"] == pytest.approx(-1.5)


@pytest.mark.parametrize("share", [0.0, -1.0, float("nan")])
def test_a_share_that_is_not_above_0_is_named(share: float) -> None:
    with pytest.raises(ValueError, match=f"decade_share is {share}"):
        EarlyWarningReward(decade_share=share)


def test_rows_are_rated_on_their_own() -> None:
    rows = np.stack([replace(GOOD, ttft_p95_s=p).to_row() for p in (0.6, 0.7)])
    parts = REWARD(rows, np.zeros(2, np.int64), rows)
    np.testing.assert_allclose(parts["approach"], [-0.05, -0.5])
