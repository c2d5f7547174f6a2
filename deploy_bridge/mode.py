"""How far the bridge trusts what it sees: a mode can only take authority away.

    BOOT -> FROZEN <-> NORMAL

BOOT lasts until the first tick. Any doubt freezes at once; NORMAL returns after K good ticks in a
row, the K-th included. What is seen outside NORMAL is recorded, but is no evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Mode = Literal["BOOT", "FROZEN", "NORMAL"]
"""Before the first tick; holding; trusting."""


@dataclass(frozen=True, slots=True)
class ModeState:
    """The mode and how it came about."""

    mode: Mode = "BOOT"
    good_ticks: int = 0
    """Good ticks in a row, counted up to K."""
    reason: str = "starting"
    """Why it is not NORMAL: the latest doubt, or the start. Empty in NORMAL."""
    since_s: float | None = None
    """Wall time of the tick at which this mode began, seconds since the epoch."""


def advanced(
    state: ModeState, doubts: Sequence[str], *, needed: int, now_s: float | None
) -> ModeState:
    """The mode after one tick.

    Args:
        state: The mode before.
        doubts: Reasons not to trust this tick, one line each; none: a good tick.
        needed: K, good ticks in a row that NORMAL takes.
        now_s: The tick's wall time; `None`: as before, for a doubt between two ticks.
    """
    if doubts:
        since_s = state.since_s if state.mode == "FROZEN" or now_s is None else now_s
        return ModeState("FROZEN", 0, "; ".join(doubts), since_s)
    good = min(state.good_ticks + 1, needed)
    if good < needed:
        since_s = state.since_s if state.mode == "FROZEN" else now_s
        return ModeState("FROZEN", good, state.reason, since_s)
    return ModeState("NORMAL", good, "", state.since_s if state.mode == "NORMAL" else now_s)
