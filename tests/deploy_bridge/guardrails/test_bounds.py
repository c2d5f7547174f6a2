"""No proposal leaves the limits, moves more than a step, or is enlarged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepilot.deploy_bridge.decision import Proposal, Verdict
from gatepilot.deploy_bridge.guardrails.bounds import Bounds, BoundsParams
from gatepilot.deploy_bridge.guardrails.guardrail import Context

from ..kit import LIMITS


def verdict(
    proposal: Proposal | None, now: Proposal | None, params: BoundsParams | None = None
) -> Verdict:
    context = Context({}, (), LIMITS, in_force=now)
    return Bounds(params or BoundsParams()).judge(proposal, context, None)[0]


@pytest.mark.parametrize(
    ("now", "wanted", "left"),
    [
        ((4, 10), (5, 11), (5, 11)),
        ((8, 19), (9, 20), (8, 19)),
        ((1, 1), (0, 0), (1, 1)),
        ((12, 10), (13, 10), (12, 10)),  # outside: no further out
        ((12, 10), (11, 10), (11, 10)),  # back by one step, not by a jump to 8
        ((0, 10), (-1, 10), (0, 10)),
        ((4, 10), (8, 4), (5, 9)),  # more than a step is cut to one
    ],
)
def test_known_answers(
    now: tuple[int, int], wanted: tuple[int, int], left: tuple[int, int]
) -> None:
    found = verdict(Proposal(*wanted), Proposal(*now))
    assert found.after == Proposal(*left)
    assert found.result == ("pass" if wanted == left else "clamp")
    assert (found.reason == "") == (wanted == left)


def test_a_floor_and_a_ceiling_of_the_threshold() -> None:
    params = BoundsParams(min_threshold=0.2, max_threshold=0.6)
    assert verdict(Proposal(4, 3), Proposal(4, 4), params).after == Proposal(4, 4)
    assert verdict(Proposal(4, 13), Proposal(4, 12), params).after == Proposal(4, 12)
    assert verdict(Proposal(4, 2), Proposal(4, 1), params).after == Proposal(4, 2)


def test_without_a_proposal_there_is_nothing_to_bound() -> None:
    assert verdict(None, Proposal(4, 10)).after is None
    assert verdict(None, None).result == "pass"


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (0.0, 0.95, "min_threshold is 0, expected 0.05 to 0.95"),
        (0.07, 0.95, "in steps of 0.05"),
        (0.5, 0.4, "min_threshold 0.5 is above max_threshold"),
        (0.05, 1.0, "max_threshold is 1,"),
    ],
)
def test_bounds_that_are_none_are_refused(low: float, high: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BoundsParams(low, high)


@given(
    now=st.tuples(st.integers(0, 40), st.integers(1, 19)),
    step=st.tuples(st.integers(-5, 5), st.integers(-5, 5)),
    floor=st.integers(1, 19),
    ceiling=st.integers(1, 19),
)
def test_it_never_enlarges_a_change_and_never_leaves_the_limits(
    now: tuple[int, int], step: tuple[int, int], floor: int, ceiling: int
) -> None:
    low, high = min(floor, ceiling), max(floor, ceiling)
    params = BoundsParams(round(low * 0.05, 2), round(high * 0.05, 2))
    wanted = Proposal(now[0] + step[0], now[1] + step[1])
    left = verdict(wanted, Proposal(*now), params).after
    assert left is not None
    for knob, here, there, bounds in (
        (left.replicas, now[0], wanted.replicas, (LIMITS.min_replicas, LIMITS.max_replicas)),
        (left.threshold_steps, now[1], wanted.threshold_steps, (low, high)),
    ):
        assert abs(knob - here) <= min(1, abs(there - here))
        assert (knob - here) * (there - here) >= 0
        assert min(bounds[0], here) <= knob <= max(bounds[1], here)
