"""The named terms that rewards are made of; each is vectorised over gateways."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..envs.schema.fields import FIELD_INDEX, Rows
from .slo import Slo

_BILLED_COLUMNS = [FIELD_INDEX["replicas_requested"], FIELD_INDEX["replicas_draining"]]


def billed_replicas(rows: Rows) -> NDArray[np.float64]:
    """Replicas that cost money: requested plus draining, rows `(..., F)` to `(...)`.

    Raises:
        ValueError: One of the two is missing. The plant always knows them.
    """
    billed: NDArray[np.float64] = rows[..., _BILLED_COLUMNS].sum(axis=-1)
    if np.isnan(billed).any():
        msg = "replicas_requested or replicas_draining is missing, but the plant always knows them"
        raise ValueError(msg)
    return billed


def cost(after: Rows, *, weight: float, per_replicas: float) -> NDArray[np.float64]:
    """`-weight * replicas / per_replicas`, over the billed replicas."""
    return -weight * billed_replicas(after) / per_replicas


def violation(after: Rows, slo: Slo, *, penalty: float) -> NDArray[np.float64]:
    """Minus `penalty` where the SLO is violated, once however many limits are broken; else 0."""
    return np.where(slo.violates(after), -penalty, 0.0)


def smooth(
    scale_choice: NDArray[np.integer[Any]], *, hold_bonus: float, change_penalty: float
) -> NDArray[np.float64]:
    """`hold_bonus` where the scaling head chose no change, else minus `change_penalty`.

    Looks at the choice alone, executed or clamped at a bound; the threshold head does not count.
    """
    return np.where(scale_choice == 0, hold_bonus, -change_penalty)
