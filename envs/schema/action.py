"""What a policy may choose: a step of replicas, a step of the threshold, both or neither."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

ACTION_DIMS: Final = (3, 3)
"""Choices of the scaling head and of the threshold head (`MultiDiscrete`)."""
STEPS: Final = (-1, 0, 1)
"""What index 0, 1 and 2 of either head mean. Index 1 is "no change": index 0, which an argmax over
NaN yields, must not look harmless."""
NO_CHANGE: Final = (1, 1)
"""The action that changes nothing."""
DISCRETE_ACTIONS: Final = ACTION_DIMS[0] * ACTION_DIMS[1]
"""Size of the flat table that DQN uses."""

Ints: TypeAlias = NDArray[np.integer[Any]]


def decode(actions: Ints) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Turns head indices into steps.

    Args:
        actions: Shape `(n, 2)`, each entry 0, 1 or 2: scaling head, threshold head.

    Returns:
        Replica steps and threshold steps, each `(n,)` in {-1, 0, 1}.

    Raises:
        ValueError: Another shape, a non-integer type or an index outside the table.
    """
    array = np.asarray(actions)
    if array.ndim != 2 or array.shape[1] != len(ACTION_DIMS):
        msg = f"actions have shape {array.shape}, expected (n, {len(ACTION_DIMS)})"
        raise ValueError(msg)
    if not np.issubdtype(array.dtype, np.integer):
        msg = f"actions have type {array.dtype}, expected integers"
        raise ValueError(msg)
    outside = (array < 0) | (array >= len(STEPS))
    if outside.any():
        msg = f"action index {array[outside][0]} is not in the table 0-{len(STEPS) - 1}"
        raise ValueError(msg)
    steps = array.astype(np.int64) - 1
    return steps[:, 0], steps[:, 1]


def to_discrete(actions: Ints) -> NDArray[np.int64]:
    """Head indices `(n, 2)` as one index `(n,)` of the table of nine: `3 * scaling + threshold`."""
    scale, threshold = decode(actions)
    return (scale + 1) * ACTION_DIMS[1] + threshold + 1


def from_discrete(indices: Ints) -> NDArray[np.int64]:
    """The inverse of `to_discrete`: `(n,)` to `(n, 2)`.

    Raises:
        ValueError: Another shape, a non-integer type or an index outside 0-8.
    """
    array = np.asarray(indices)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        msg = f"indices have shape {array.shape} and type {array.dtype}, expected integers (n,)"
        raise ValueError(msg)
    outside = (array < 0) | (array >= DISCRETE_ACTIONS)
    if outside.any():
        msg = f"action index {array[outside][0]} is not in the table 0-{DISCRETE_ACTIONS - 1}"
        raise ValueError(msg)
    return np.stack(np.divmod(array.astype(np.int64), ACTION_DIMS[1]), axis=-1)
