"""Parameters of several gateways side by side, so that one formula serves all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, fields, is_dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Table: TypeAlias = NDArray[np.void]
"""A field for each parameter: `table["headroom"]`, `table["forecast"]["damping"]`."""


def table_of(params: Sequence[Any]) -> Table:
    """The numbers of each, `(k,)`.

    Args:
        params: One or more of one dataclass, whose fields are numbers or again dataclasses.
    """
    return np.array([astuple(one) for one in params], _types(params[0]))


def _types(params: Any) -> list[tuple[str, Any]]:  # noqa: ANN401  # of any dataclass
    """Name and type of each field, nested ones within; a whole number may stand for a float."""
    found: list[tuple[str, Any]] = []
    for field in fields(params):
        value = getattr(params, field.name)
        plain = np.int64 if field.type == "int" else np.float64
        found.append((field.name, _types(value) if is_dataclass(value) else plain))
    return found
