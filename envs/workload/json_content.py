"""Checking JSON content piece by piece; errors are one line with file and key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class ContentError(ValueError):
    """A JSON file that cannot be used: one line with file, key and what would be right."""


def check_keys(content: Any, keys: tuple[str, ...], where: str, prefix: str) -> None:  # noqa: ANN401
    """Raises ContentError at an unknown or missing key."""
    if not isinstance(content, Mapping):
        raise ContentError(f"{where}: {prefix or 'the file '}must be an object")
    for key in content:
        if key not in keys:
            raise ContentError(f"{where}: {prefix}{key}: unknown key; known: {', '.join(keys)}")
    for key in keys:
        if key not in content:
            raise ContentError(f"{where}: {prefix}{key}: missing key")


def number_array(values: Any, where: str, key: str) -> NDArray[np.float64]:  # noqa: ANN401
    """A list of numbers as an array."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ContentError(f"{where}: {key}: expected a list of numbers") from error
    if array.ndim != 1:
        raise ContentError(f"{where}: {key}: expected a list of numbers")
    return array


def plain_numbers(values: NDArray[np.float64]) -> list[float]:
    """Numbers for JSON, whole ones without a fraction."""
    return [int(value) if value == int(value) else float(value) for value in values]
