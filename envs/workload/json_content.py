"""Checking JSON content piece by piece; errors are one line with file and key."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class ContentError(ValueError):
    """A JSON file that cannot be used: one line with file, key and what would be right."""


def parse_json(text: str | bytes, where: str) -> Any:  # noqa: ANN401
    """The content of a JSON file.

    Raises:
        ContentError: It is none, no text or nested beyond all bounds.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ContentError(f"{where}: not a JSON file ({error})") from error


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


def finite_number(value: Any, where: str, key: str) -> float:  # noqa: ANN401
    """A finite number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) <= sys.float_info.max:
        raise ContentError(f"{where}: {key}: {value!r} is not a number")
    return float(value)


def number_array(values: Any, where: str, key: str) -> NDArray[np.float64]:  # noqa: ANN401
    """A list of numbers as an array."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ContentError(f"{where}: {key}: expected a list of numbers") from error
    if array.ndim != 1:
        raise ContentError(f"{where}: {key}: expected a list of numbers")
    return array


def plain_numbers(values: NDArray[np.float64]) -> list[float]:
    """Numbers for JSON, whole ones without a fraction."""
    return [int(value) if value == int(value) else float(value) for value in values]
