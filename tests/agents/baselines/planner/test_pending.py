"""Who is lost and which latency is a debt, by hand, for gateways of another patience each."""

import numpy as np

from gatepilot.agents.baselines.planner.pending import count_lost, is_settled
from gatepilot.agents.baselines.planner.state import PlannerState

PATIENCE = np.array([2, 3, 5])


def state() -> PlannerState:
    return PlannerState.start(
        error_priors=np.zeros(3),
        longest_hold_ticks=1,
        window_ticks=2,
        longest_ahead_ticks=1,
        longest_patience_ticks=6,
        patience_ticks=PATIENCE,
    )


def lost(of: PlannerState, absent: float) -> list[int]:
    """After one more tick, at which each misses so many."""
    found = count_lost(of, np.full(3, absent), PATIENCE)
    of.ticks += 1
    return [int(each) for each in found]


def test_lost_is_who_was_absent_as_long_as_each_waits() -> None:
    of = state()
    assert [lost(of, 2) for _ in range(6)] == [
        *([0, 0, 0], [2, 0, 0], [2, 2, 0], [2, 2, 0], [2, 2, 2], [2, 2, 2])
    ]
    assert lost(of, 1) == [1, 1, 1]
    assert lost(of, -3) == [0, 0, 0]  # more than were asked for
    assert [lost(of, 4) for _ in range(2)] == [[0, 0, 0], [4, 0, 0]]


def test_what_is_not_known_is_no_absence() -> None:
    of = state()
    assert [lost(of, absent) for absent in (2, np.nan, 2, 2, 2)] == [
        *([0, 0, 0], [0, 0, 0], [0, 0, 0], [2, 0, 0], [2, 2, 0])
    ]


def test_settled_is_a_whole_window_with_all_who_will_come_and_without_a_debt() -> None:
    of, found = state(), []
    ticks = [  # absent, backlog, whether it is more than can be taken in
        *((0, 0.0, False), (0, 0.0, False), (1, 0.0, False), (0, 0.0, False), (0, 0.0, False)),
        *((0, 9.0, True), (0, 9.0, True), (0, 3.0, False), (0, 0.0, False)),
    ]
    for absent, backlog, is_behind in ticks:
        gone = count_lost(of, np.full(3, float(absent)), PATIENCE)
        behind = np.full(3, is_behind)
        found.append(is_settled(of, np.full(3, backlog), behind, gone, PATIENCE).tolist())
        of.ticks += 1
    assert found == [
        [False] * 3,  # of the tick before nothing is known
        [True] * 3,
        [False] * 3,  # one is to come
        [False] * 3,
        [True] * 3,
        [True] * 3,  # it grows with all there
        [False] * 3,  # it does not: it is being worked off
        [False] * 3,
        [True] * 3,
    ]
