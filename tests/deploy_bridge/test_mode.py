"""BOOT, FROZEN, NORMAL: doubt freezes at once, trust takes K good ticks in a row."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gatepilot.deploy_bridge.mode import ModeState, advanced


def test_trust_takes_k_good_ticks_and_the_kth_is_normal() -> None:
    state = ModeState()
    seen = []
    for tick in range(4):
        state = advanced(state, [], needed=3, now_s=float(tick))
        seen.append((state.mode, state.good_ticks, state.reason, state.since_s))
    assert seen == [
        ("FROZEN", 1, "starting", 0.0),
        ("FROZEN", 2, "starting", 0.0),
        ("NORMAL", 3, "", 2.0),
        ("NORMAL", 3, "", 2.0),
    ]


def test_one_doubt_freezes_and_its_reason_stays_until_normal() -> None:
    state = ModeState("NORMAL", 3, "", 0.0)
    state = advanced(state, ["stale: gateway_up: down", "clock: jumped"], needed=3, now_s=5.0)
    assert state == ModeState("FROZEN", 0, "stale: gateway_up: down; clock: jumped", 5.0)
    state = advanced(state, [], needed=3, now_s=10.0)
    assert (state.reason, state.since_s) == ("stale: gateway_up: down; clock: jumped", 5.0)
    assert advanced(state, ["again"], needed=3, now_s=15.0) == ModeState("FROZEN", 0, "again", 5.0)


def test_a_doubt_between_ticks_leaves_the_time_of_the_tick() -> None:
    state = advanced(ModeState("NORMAL", 3, "", 7.0), ["ledger"], needed=3, now_s=None)
    assert state == ModeState("FROZEN", 0, "ledger", 7.0)


@given(doubts=st.lists(st.booleans(), max_size=40), needed=st.integers(1, 5))
def test_normal_exactly_after_k_good_ticks_in_a_row(doubts: list[bool], needed: int) -> None:
    state, in_a_row = ModeState(), 0
    for tick, doubtful in enumerate(doubts):
        state = advanced(state, ["why"] * doubtful, needed=needed, now_s=float(tick))
        in_a_row = 0 if doubtful else in_a_row + 1
        assert (state.mode == "NORMAL") == (in_a_row >= needed)
        assert (state.reason == "") == (state.mode == "NORMAL")
