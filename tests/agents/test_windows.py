"""Windows are disjoint, inside the range, evenly spread and deterministic."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepilot.agents.windows import MAX_DEFAULT_WINDOWS, WindowError, plan_windows


@given(
    range_s=st.floats(100, 1e6),
    share=st.floats(0.001, 1.0),
    asked=st.none() | st.integers(1, 50),
    can_redraw=st.booleans(),
)
def test_windows_of_a_round_are_disjoint_and_inside(
    range_s: float, share: float, asked: int | None, can_redraw: bool
) -> None:
    episode_s = range_s * share
    plan = plan_windows(range_s, episode_s, seed=1, asked=asked, can_redraw=can_redraw)
    for number in range(plan.rounds):
        starts = [window.start_s for window in plan.in_round(number)]
        assert starts
        assert starts[0] >= 0
        assert starts[-1] + episode_s <= range_s * (1 + 1e-9)
        for first, second in itertools.pairwise(starts):
            assert second - first >= episode_s * (1 - 1e-9)
    assert [window.index for window in plan.windows] == list(range(len(plan.windows)))
    assert len({window.seed for window in plan.windows}) == len(plan.windows)


def test_without_a_wish_all_that_fit_are_taken_up_to_64() -> None:
    assert len(plan_windows(28_800, 3600, seed=0).windows) == 8
    plan = plan_windows(604_800, 3600, seed=0)
    assert len(plan.windows) == MAX_DEFAULT_WINDOWS
    assert plan.fitting == 168
    assert plan.windows[1].start_s == 9450.0  # 604,800 / 64: spread evenly


def test_more_than_fit_takes_further_rounds_where_the_load_can_be_drawn_anew() -> None:
    plan = plan_windows(28_800, 3600, seed=0, asked=20, can_redraw=True)
    assert [len(plan.in_round(number)) for number in range(plan.rounds)] == [8, 8, 4]
    assert [window.position for window in plan.in_round(2)] == [0, 2, 4, 6]
    assert plan.in_round(1)[3].start_s == plan.in_round(0)[3].start_s
    assert len(set(plan.request_seeds)) == 3


def test_more_than_fit_takes_what_fits_where_it_cannot() -> None:
    plan = plan_windows(28_800, 3600, seed=0, asked=20)
    assert len(plan.windows) == 8
    assert plan.rounds == 1
    assert plan.asked == 20


def test_an_episode_that_does_not_fit_is_refused() -> None:
    with pytest.raises(
        WindowError, match=r"x\.csv, split test holds 584 s, an episode takes 3600 s"
    ):
        plan_windows(584, 3600, seed=0, where="x.csv, split test")


def test_an_episode_as_long_as_the_range_fits() -> None:
    assert plan_windows(450.0, 450.0, seed=0).windows[0].start_s == 0.0
    assert plan_windows(0.3, 0.1, seed=0).fitting == 3


def test_equal_seeds_give_equal_plans_and_others_do_not() -> None:
    first = plan_windows(28_800, 3600, seed=3)
    assert plan_windows(28_800, 3600, seed=3) == first
    assert plan_windows(28_800, 3600, seed=4).windows[0].seed != first.windows[0].seed
