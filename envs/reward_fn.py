"""What an environment asks of a reward. Rewards themselves live one floor up and are injected."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .schema.fields import Rows


class RewardFn(Protocol):
    """A pure function of two moments of the plant and the choice between them.

    It also says what a violation is, whatever it costs: `info["violation"]` and every evaluation's
    violation rate are that.
    """

    def __call__(
        self, before: Rows, scale_choice: NDArray[np.int64], after: Rows
    ) -> dict[str, NDArray[np.float64]]:
        """Rates a tick of n gateways.

        Args:
            before: Shape `(n, F)`, the plant's own snapshot before the tick; NaN is missing.
            scale_choice: Shape `(n,)`: the replica step the agent chose, clamped or not; for
                controllers that jump, its sign.
            after: Shape `(n, F)`, the plant's own snapshot after the tick.

        Returns:
            The parts by name, each `(n,)`; the reward is their sum.
        """
        ...

    def violates(self, rows: Rows) -> NDArray[np.bool_]:
        """Where the objective is broken: rows of the plant `(n, F)`, NaN is missing, to `(n,)`."""
        ...
