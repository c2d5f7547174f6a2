"""Terms that help learning and are never reported: policies are judged by the reward itself."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..envs.schema.fields import FIELD_INDEX, Rows
from ..envs.schema.settings import THRESHOLD_STEP

_TROUBLE_COLUMNS: Final = [
    FIELD_INDEX["error_rate"],
    FIELD_INDEX["replicas_ejected"],
    FIELD_INDEX["replica_error_spread"],
]
_THRESHOLD_COLUMN: Final = FIELD_INDEX["breaker_threshold"]


def threshold_rest(
    after: Rows, rest_steps: NDArray[np.int64], *, weight: float
) -> NDArray[np.float64]:
    """A small pull of the breaker's threshold back to its start while nothing fails, `(n,)`.

        -weight * |threshold - start| / 0.05   if no error, ejection or spread
        0                                      else

    In clean traffic every threshold earns the same, so nothing holds it: it drifts over its whole
    range, and the next fault meets it anywhere. The term costs at most `weight * 9` a tick from a
    start of 0.5, and only in ticks in which the breaker has nothing to decide.

    Args:
        after: Shape `(n, F)`, the plant's own snapshot after the tick; missing shares count as 0.
        rest_steps: Shape `(n,)`: the threshold each episode began with, in steps.
        weight: Price of one step of 0.05 away from it, a tick.
    """
    distance = np.abs(after[:, _THRESHOLD_COLUMN] / THRESHOLD_STEP - rest_steps)
    quiet = (np.nan_to_num(after[:, _TROUBLE_COLUMNS]) == 0).all(axis=1)
    return np.where(quiet, -weight * distance, 0.0)
