"""The documented reward with the way to the latency limit priced, too: for training alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..envs.schema.fields import FIELD_INDEX, Rows
from .documented import DocumentedReward


@dataclass(frozen=True, slots=True)
class EarlyWarningReward:
    """The documented reward and, below the limit, a price that grows tenfold per `decade_share`.

        approach = -penalty * 10 ** ((P95 - limit) / (decade_share * limit))   below the limit
                 = 0                                   over it (a violation), or P95 not known

    The document's -5 is a cliff: 0.79 s costs nothing, 0.81 s as much as 80 s. A learner meets it a
    few times an hour and learns slowly how near it may come. The price is what a violation costs
    times a guess at how soon one follows: 1 % at three quarters of the limit, 10 % at seven
    eighths, all of it at the limit, where both meet.
    """

    base: DocumentedReward = field(default_factory=DocumentedReward)
    """What is reported, whatever is trained on."""
    decade_share: float = 0.125
    """Share of the limit over which the price falls to a tenth."""

    def __post_init__(self) -> None:
        """Refuses a share that would make the price fall the other way.

        Raises:
            ValueError: `decade_share` is not above 0.
        """
        if not self.decade_share > 0:
            msg = f"decade_share is {self.decade_share}, expected a number above 0"
            raise ValueError(msg)

    def __call__(
        self, before: Rows, scale_choice: NDArray[np.int64], after: Rows
    ) -> dict[str, NDArray[np.float64]]:
        """Rates a tick of n gateways.

        Args:
            before: Not looked at.
            scale_choice: Shape `(n,)`: the replica step the agent chose, clamped or not.
            after: Shape `(n, F)`: the plant's own snapshot after the tick; NaN is missing.

        Returns:
            The base's parts and `approach`, each `(n,)`.

        Raises:
            ValueError: The replicas after the tick are missing.
        """
        parts = self.base(before, scale_choice, after)
        slo = self.base.slo
        decades = (after[:, FIELD_INDEX[slo.latency]] / slo.latency_limit_s - 1) / self.decade_share
        price = self.base.violation_penalty * 10.0 ** np.minimum(decades, 0.0)
        spared = slo.violates(after) | np.isnan(decades)
        return {**parts, "approach": np.where(spared, 0.0, -price)}

    def violates(self, rows: Rows) -> NDArray[np.bool_]:
        """Where the base's SLO is broken, `(n, F)` to `(n,)`."""
        return self.base.violates(rows)
