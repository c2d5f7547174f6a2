"""Columns of a trace file, checked row by row: one line with file, row, column and value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .prefix import check_prefixes
from .request import MAX_TOKENS

LAST_ARRIVAL_S = 1e8
"""Latest arrival of a trace, three years: Unix time has been beyond it since 1973."""


class TraceError(ValueError):
    """A trace file that cannot be used: one line with file, place and what would be right."""


def numbers(path: Path, name: str, column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Brings a column to float64, without holes."""
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise TraceError(f"{path}: column {name} holds {column.type}; expected numbers")
    _check_no_holes(path, name, column, "a number")
    values: NDArray[np.float64] = (
        pc.cast(column, pa.float64(), safe=False).combine_chunks().to_numpy(zero_copy_only=False)
    )
    return values


def relative_s(path: Path, name: str, column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Turns wall-clock times into seconds from the first."""
    if not pa.types.is_timestamp(column.type):
        raise TraceError(f"{path}: column {name} holds {column.type}; expected dates with times")
    _check_no_holes(path, name, column, "a date and time")
    time_ns = pc.cast(pc.cast(column, pa.timestamp("ns", tz=column.type.tz)), pa.int64())
    values = time_ns.combine_chunks().to_numpy(zero_copy_only=False)
    relative: NDArray[np.float64] = (values - values[0]) / 1e9
    return relative


def whole_numbers(
    path: Path, name: str, values: NDArray[np.float64], lowest: int
) -> NDArray[np.int64]:
    """Checks that every value is a whole number of at least `lowest` that fits int32."""
    good = (values >= lowest) & (values <= MAX_TOKENS) & (np.floor(values) == values)
    if not good.all():
        row = int(np.argmin(good))
        raise TraceError(
            f"{path}: row {row + 1}, {name}: {values[row]:g} is not a whole number from {lowest} "
            f"to {MAX_TOKENS:,}"
        )
    return values.astype(np.int64)


def tenants(
    path: Path, name: str, column: pa.ChunkedArray
) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Numbers the tenants of a column of whole numbers or texts; digits sort as numbers."""
    _check_no_holes(path, name, column, "a tenant")
    if pa.types.is_integer(column.type):
        labels, client = np.unique(column.to_numpy(), return_inverse=True)
        return client.astype(np.int32), tuple(str(label) for label in labels)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise TraceError(
            f"{path}: column {name} holds {column.type}; expected whole numbers or texts"
        )
    coded = pc.dictionary_encode(column).combine_chunks()
    names = coded.dictionary.to_pylist()
    digits = all(name.isdecimal() for name in names)
    order = sorted(range(len(names)), key=lambda i: int(names[i]) if digits else names[i])
    place = np.empty(len(names), dtype=np.int32)
    place[order] = np.arange(len(names))
    return place[coded.indices.to_numpy()], tuple(names[i] for i in order)


def prefix_columns(
    path: Path,
    hit_tokens: NDArray[np.float64],
    parent: NDArray[np.float64],
    prompt_tokens: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Checks the columns of prefix reuse; a wholly known prompt still computes its last token.

    Raises:
        TraceError: A hit or a parent that cannot be.
    """
    hit = whole_numbers(path, "prefix_hit_tokens", hit_tokens, 0)
    above = whole_numbers(path, "prefix_parent", parent, -1)
    hit = np.where(hit == prompt_tokens, hit - 1, hit)
    above = np.where(hit == 0, -1, above)
    try:
        check_prefixes(hit.astype(np.int32), above, prompt_tokens)
    except ValueError as error:
        raise TraceError(f"{path}: {error} (rows are numbered from 0)") from error
    return hit.astype(np.int32), above


def check_arrivals(path: Path, name: str, arrival_s: NDArray[np.float64]) -> None:
    """Raises TraceError at the first arrival that cannot be.

    It is negative, not finite, out of order or so late that its time is no time since the start.
    """
    good = np.isfinite(arrival_s)
    good[1:] &= arrival_s[1:] >= arrival_s[:-1]
    good &= (arrival_s >= 0) & (arrival_s <= LAST_ARRIVAL_S)
    if good.all():
        return
    row = int(np.argmin(good))
    value = arrival_s[row]
    where = f"{path}: row {row + 1}, {name}"
    if not np.isfinite(value):
        raise TraceError(f"{where}: {value} is not a finite number")
    if row > 0 and value < arrival_s[row - 1]:
        raise TraceError(
            f"{where}: {value:g} s comes before the previous row's {arrival_s[row - 1]:g} s; "
            "rows must be sorted by arrival"
        )
    if value > LAST_ARRIVAL_S:
        raise TraceError(
            f"{where}: {value:.10g} s is more than three years from the start; "
            "if it is Unix time, subtract the first request's"
        )
    raise TraceError(f"{where}: {value:g} is negative; expected seconds from the start")


def _check_no_holes(path: Path, name: str, column: pa.ChunkedArray, what: str) -> None:
    """Raises TraceError at the first missing value."""
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise TraceError(f"{path}: row {row + 1}, {name}: no value; expected {what}")
