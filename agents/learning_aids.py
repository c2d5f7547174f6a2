"""Terms that help learning and are never reported: policies are judged by the reward itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..envs.reward_fn import RewardFn
from ..envs.schema.fields import FIELD_INDEX, Rows
from ..envs.schema.settings import START_THRESHOLD_STEPS, THRESHOLD_STEP

AID_PART: Final = "threshold_rest"
"""Name of the part that `ThresholdRest` adds; whoever reports a return leaves it out."""
_TROUBLE_COLUMNS: Final = [
    FIELD_INDEX["error_rate"],
    FIELD_INDEX["replicas_ejected"],
    FIELD_INDEX["replica_error_spread"],
]
_THRESHOLD_COLUMN: Final = FIELD_INDEX["breaker_threshold"]


@dataclass(frozen=True, slots=True)
class ThresholdRest:
    """A reward with a small pull of the breaker's threshold back to its start while nothing fails.

        threshold_rest = -weight * |threshold - start| / 0.05   if no error, ejection or spread
                       = 0                                      else

    In clean traffic every threshold earns the same, so nothing holds it: it drifts over its whole
    range, and the next fault meets it anywhere. The term costs at most `weight * 9` a tick from a
    start of 0.5, and only in ticks in which the breaker has nothing to decide; with the default
    of 0.002 that is less than one replica (0.03).
    """

    base: RewardFn
    """The reward that is learned."""
    weight: float
    """Price of one step of 0.05 away from the start, a tick."""
    rest_steps: int = START_THRESHOLD_STEPS
    """The threshold the scenario starts with, in steps."""

    def __call__(
        self, before: Rows, scale_choice: NDArray[np.int64], after: Rows
    ) -> dict[str, NDArray[np.float64]]:
        """The parts of the base reward and `threshold_rest`.

        Args:
            before: Shape `(n, F)`, the plant's own snapshot before the tick.
            scale_choice: Shape `(n,)`, the replica step the agent chose.
            after: Shape `(n, F)`, the plant's own snapshot after the tick; missing shares count as
                0.

        Returns:
            The parts by name, each `(n,)`.
        """
        distance = np.abs(after[:, _THRESHOLD_COLUMN] / THRESHOLD_STEP - self.rest_steps)
        quiet = (np.nan_to_num(after[:, _TROUBLE_COLUMNS]) == 0).all(axis=1)
        parts = dict(self.base(before, scale_choice, after))
        parts[AID_PART] = np.where(quiet, -self.weight * distance, 0.0)
        return parts

    def violates(self, rows: Rows) -> NDArray[np.bool_]:
        """Where the base's objective is broken, `(n, F)` to `(n,)`."""
        return self.base.violates(rows)
