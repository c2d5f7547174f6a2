"""How many replicas are worth their price, where load and capacity are known only about.

Formula: a size is judged by what a tick under it costs in the documented reward,

    late(n) = highest over the loads of P(T > (ln(n c) - ln load) / s)
    cost(n) = replica_price * n + w * violation_penalty * late(n)

with c the work that a replica bears, s the spread of load and capacity together (natural
logarithms), T distributed as Student's t with three degrees of freedom (loads jump: a normal tail
would call that impossible), w the weight of a violation. The size is the cheapest of those that
bear every load as expected; where none does, the largest: cost(n) alone would give up there, since
no size helps and the smallest is the cheapest.

The rule is the newsvendor's: what is too little costs other than what is too much (Arrow, Harris
and Marschak 1951). P is Abramowitz and Stegun, 26.7.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ....reward.documented import default_reward

Floats = NDArray[np.float64]

_ROOT_3: Final = math.sqrt(3)
_MOST_SPREADS: Final = 1e9
"""Distance, in spreads, from which on a load is surely borne or surely not."""


@dataclass(frozen=True, slots=True)
class Load:
    """A load that must be borne."""

    log: Floats
    """`(n,)`: natural logarithm of the work, replicas kept busy."""
    spread: Floats | float
    """How far it may be off, load and capacity together: natural logarithm of a factor, above 0."""


def late_share(spreads: Floats) -> Floats:
    """Probability that a load is not borne.

    Args:
        spreads: How far what is borne lies above the load, in spreads; any shape.
    """
    x = spreads / _ROOT_3
    share: Floats = 0.5 - (x / (1 + x * x) + np.arctan(x)) / math.pi
    return share


def cheapest_sizes(
    loads: Sequence[Load],
    borne: Floats,
    least: NDArray[np.int64],
    most: NDArray[np.int64],
    violation_weight: Floats | float,
) -> NDArray[np.int64]:
    """The size that costs least, `(n,)`.

    Args:
        loads: What is to be borne, one or more.
        borne: Work that a replica bears, `(n,)`; infinite where any load is borne.
        least: Fewest replicas allowed, `(n,)`, at least 1.
        most: Most replicas allowed, `(n,)`, no fewer.
        violation_weight: Price of a violating tick, as a multiple of the documented one; of
            each, `(n,)`, or of all.
    """
    sizes = np.arange(1, most.max(initial=1) + 1)
    capacity_log = np.log(borne[:, None] * sizes)
    can_be = (sizes >= least[:, None]) & (sizes <= most[:, None])
    nearest = np.full(capacity_log.shape, _MOST_SPREADS)
    for load in loads:
        margin = capacity_log - load.log[:, None]
        can_be &= margin >= 0
        nearest = np.minimum(nearest, margin / np.asarray(load.spread)[..., None])
    late = late_share(np.maximum(nearest, -_MOST_SPREADS))  # highest where the margin is least
    reward = default_reward
    penalty = np.asarray(violation_weight)[..., None] * reward.violation_penalty
    cost = reward.replica_price * sizes + penalty * late
    cost = np.where(can_be, cost, np.inf)
    cheapest: NDArray[np.int64] = sizes[cost.argmin(axis=1)]
    return np.where(can_be.any(axis=1), cheapest, most)
