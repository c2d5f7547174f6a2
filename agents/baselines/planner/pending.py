"""What is still to come: replicas that were asked for, and work that waits.

A replica that was absent at every tick for as long as one is waited for is lost. While others are
still to come, or waiting requests are being worked off, a latency says nothing of how fast replicas
are: it is a debt.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .forecast import Floats
from .state import UNKNOWN, Counts, PlannerState


def count_lost(state: PlannerState, absent: Floats, patience_ticks: Counts) -> Counts:
    """Takes in who is absent, and says how many are lost, `(n,)`.

    Args:
        state: Of n gateways.
        absent: Replicas asked for and not ready, `(n,)`; NaN where that is not known.
        patience_ticks: How long one is waited for, `(n,)`.
    """
    newest = np.where(np.isnan(absent), UNKNOWN, np.maximum(absent, 0.0)).astype(np.int64)
    state.absent[np.arange(len(absent)), state.ticks % patience_ticks] = newest
    found: Counts = np.maximum(state.absent.min(axis=1), 0)
    return found


def is_settled(
    state: PlannerState,
    backlog: Floats,
    is_behind: NDArray[np.bool_],
    lost: Counts,
    patience_ticks: Counts,
) -> NDArray[np.bool_]:
    """Where for a whole window nobody was to come and no debt was being worked off, `(n,)`.

    A backlog that grows with all replicas there is no debt: they are slower than expected.

    Args:
        state: Of n gateways; `count_lost` has taken in the same tick.
        backlog: Work that waits, `(n,)`.
        is_behind: Whether that is more than can be taken in at once, `(n,)`.
        lost: Replicas that will not come, `(n,)`.
        patience_ticks: How long one is waited for, `(n,)`; no fewer than a window's.
    """
    window_ticks = state.behind.shape[1]
    state.behind[np.arange(len(lost)), state.ticks % window_ticks] = is_behind
    slots = (state.ticks[:, None] - np.arange(window_ticks)) % patience_ticks[:, None]
    is_as_expected = state.absent[np.arange(len(lost))[:, None], slots] == lost[:, None]
    grows = backlog > state.backlog
    state.backlog[:] = backlog
    settled: NDArray[np.bool_] = is_as_expected.all(axis=1) & (grows | ~state.behind.any(axis=1))
    return settled
