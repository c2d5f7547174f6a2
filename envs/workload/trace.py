"""Request traces from files: the plain three columns, and the public Azure LLM format.

| format | columns | files |
|---|---|---|
| plain | `arrival_s, prompt_tokens, output_tokens` | csv, csv.gz, parquet |
| Azure LLM inference trace | `TIMESTAMP, ContextTokens, GeneratedTokens` | csv, csv.gz, parquet |

Other columns are ignored. Azure's wall-clock times become seconds from the first request.
"""

from __future__ import annotations

import csv
import gzip
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from .request import MAX_TOKENS, Requests


class TraceError(ValueError):
    """A trace file that cannot be used: one line with file, place and what would be right."""


@dataclass(frozen=True)
class _Format:
    """Column names of one public format."""

    arrival: str
    prompt: str
    output: str
    wall_clock: bool
    """Whether arrivals are dates with a time of day."""

    @property
    def columns(self) -> tuple[str, str, str]:
        return (self.arrival, self.prompt, self.output)


PLAIN = _Format("arrival_s", "prompt_tokens", "output_tokens", wall_clock=False)
AZURE = _Format("TIMESTAMP", "ContextTokens", "GeneratedTokens", wall_clock=True)

_SUFFIXES = (".csv", ".csv.gz", ".parquet")
_ZONE = re.compile(r"(?:Z|[+-]\d\d:?\d\d)$")


def load_trace(path: str | Path) -> Requests:
    """Reads a request trace.

    The span is the last arrival rounded up to a whole second (the next one if it falls on a
    whole second), so a day's trace spans 86,400 s.

    Args:
        path: A csv, csv.gz or parquet file in one of the module's formats.

    Returns:
        The requests, in file order.

    Raises:
        TraceError: The file is missing or malformed.
    """
    path = Path(path)
    if not path.name.lower().endswith(_SUFFIXES):
        raise TraceError(f"{path}: expected a file ending in {', '.join(_SUFFIXES)}")
    if not path.is_file():
        raise TraceError(f"{path}: no such file")
    table, columns = _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
    if table.num_rows == 0:
        raise TraceError(f"{path}: no data rows; at least two requests are needed")
    if table.num_rows == 1:
        raise TraceError(f"{path}: one request has no time span; at least two are needed")
    if columns.wall_clock:
        arrival_s = _relative_s(path, columns.arrival, table[columns.arrival])
    else:
        arrival_s = _numbers(path, columns.arrival, table[columns.arrival])
    _check_arrivals(path, columns.arrival, arrival_s)
    prompt_tokens = _tokens(path, columns.prompt, table[columns.prompt])
    output_tokens = _tokens(path, columns.output, table[columns.output])
    return Requests(arrival_s, prompt_tokens, output_tokens, math.floor(arrival_s[-1]) + 1.0)


def _choose_format(path: Path, names: list[str]) -> _Format:
    """Picks the format whose columns are present."""
    columns = AZURE if AZURE.arrival in names else PLAIN
    for name in columns.columns:
        if name not in names:
            found = ", ".join(names) or "none"
            raise TraceError(
                f"{path}: column {name} is missing; expected {', '.join(columns.columns)}, "
                f"found {found}"
            )
        if names.count(name) > 1:
            raise TraceError(f"{path}: column {name} appears twice; each name may appear once")
    return columns


def _read_parquet(path: Path) -> tuple[pa.Table, _Format]:
    """Reads the needed columns of a parquet file."""
    try:
        columns = _choose_format(path, pq.read_schema(path).names)
        return pq.read_table(path, columns=list(columns.columns)), columns
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"{path}: not a readable parquet file ({_one_line(error)})") from error


def _read_csv(path: Path) -> tuple[pa.Table, _Format]:
    """Reads the needed columns of a csv file, typed; falls back to text to find a bad row."""
    try:
        with _open_text(path) as file:
            rows = csv.reader(file)
            names = [name.strip() for name in next(rows, [])]
            first = next(rows, [])
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"{path}: not a readable csv file ({_one_line(error)})") from error
    if not names:
        raise TraceError(f"{path}: the file is empty; expected {', '.join(PLAIN.columns)}")
    columns = _choose_format(path, names)
    types: dict[str, pa.DataType] = dict.fromkeys(columns.columns, pa.float64())
    if columns.wall_clock:
        position = names.index(columns.arrival)
        zoned = len(first) > position and _ZONE.search(first[position].strip()[10:])
        types[columns.arrival] = pa.timestamp("ns", tz="UTC" if zoned else None)
    try:
        try:
            return _parse_csv(path, names, types), columns
        except pa.ArrowInvalid:
            text = _parse_csv(path, names, dict.fromkeys(columns.columns, pa.binary()))
    except (OSError, pa.ArrowException) as error:  # e.g. a gzip file that was cut short
        raise TraceError(f"{path}: not a readable csv file ({_one_line(error)})") from error
    for name, kind in types.items():
        _report_bad_text(path, name, text[name], kind)
    raise TraceError(f"{path}: not a readable csv file")


def _parse_csv(path: Path, names: list[str], types: dict[str, pa.DataType]) -> pa.Table:
    """Parses a csv file (gzip by its ending) with Arrow.

    Raises:
        TraceError: A row has too many or too few columns.
        pa.ArrowException: A value does not have the column's type.
    """
    ragged: list[pa_csv.InvalidRow] = []

    def remember(row: pa_csv.InvalidRow) -> str:
        ragged.append(row)
        return "skip"

    table = pa_csv.read_csv(
        path,
        read_options=pa_csv.ReadOptions(column_names=names, skip_rows=1),
        parse_options=pa_csv.ParseOptions(invalid_row_handler=remember),
        convert_options=pa_csv.ConvertOptions(
            column_types=types, include_columns=list(types), strings_can_be_null=True
        ),
    )
    if ragged:
        raise TraceError(_ragged_row(path, len(names)))
    return table


def _ragged_row(path: Path, expected: int) -> str:
    """Finds the first row with a wrong number of columns (the parallel parser cannot say)."""
    with _open_text(path) as file:
        rows = csv.reader(file)
        next(rows)
        number = 0
        for row in rows:
            number += bool(row)  # blank lines are no rows
            if row and len(row) != expected:
                return f"{path}: row {number} has {len(row)} columns; expected {expected}"
    return f"{path}: a row has not {expected} columns"


def _report_bad_text(path: Path, name: str, text: pa.ChunkedArray, kind: pa.DataType) -> None:
    """Raises TraceError for the first text that does not read as the wanted type."""
    what = "a date and time" if pa.types.is_timestamp(kind) else "a number"
    for row, raw in enumerate(text.to_pylist(), start=1):
        value = None if raw is None else raw.decode(errors="replace")
        try:
            pc.cast(pa.scalar(value, pa.string()), kind)
        except pa.ArrowException as error:
            raise TraceError(f"{path}: row {row}, {name}: {value!r} is not {what}") from error


def _numbers(path: Path, name: str, column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Brings a column to float64, without holes."""
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise TraceError(f"{path}: column {name} holds {column.type}; expected numbers")
    _check_no_holes(path, name, column, "a number")
    return _flat(pc.cast(column, pa.float64(), safe=False))


def _relative_s(path: Path, name: str, column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Turns wall-clock times into seconds from the first."""
    if not pa.types.is_timestamp(column.type):
        raise TraceError(f"{path}: column {name} holds {column.type}; expected dates with times")
    _check_no_holes(path, name, column, "a date and time")
    time_ns = pc.cast(pc.cast(column, pa.timestamp("ns", tz=column.type.tz)), pa.int64())
    values = time_ns.combine_chunks().to_numpy(zero_copy_only=False)
    relative: NDArray[np.float64] = (values - values[0]) / 1e9
    return relative


def _tokens(path: Path, name: str, column: pa.ChunkedArray) -> NDArray[np.int32]:
    """Brings a column to int32 and checks that every value is a whole number of at least 1."""
    values = _numbers(path, name, column)
    good = (values >= 1) & (values <= MAX_TOKENS) & (np.floor(values) == values)
    if not good.all():
        row = int(np.argmin(good))
        raise TraceError(
            f"{path}: row {row + 1}, {name}: {values[row]:g} is not a whole number of at least 1"
        )
    return values.astype(np.int32)


def _check_no_holes(path: Path, name: str, column: pa.ChunkedArray, what: str) -> None:
    """Raises TraceError at the first missing value."""
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise TraceError(f"{path}: row {row + 1}, {name}: no value; expected {what}")


def _check_arrivals(path: Path, name: str, arrival_s: NDArray[np.float64]) -> None:
    """Raises TraceError at the first arrival that is negative, not finite or out of order."""
    good = np.isfinite(arrival_s)
    good[1:] &= arrival_s[1:] >= arrival_s[:-1]
    good &= arrival_s >= 0
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
    raise TraceError(f"{where}: {value:g} is negative; expected seconds from the start")


def _flat(column: pa.ChunkedArray) -> NDArray[np.float64]:
    values: NDArray[np.float64] = column.combine_chunks().to_numpy(zero_copy_only=False)
    return values


def _open_text(path: Path) -> IO[str]:
    """Opens a csv or csv.gz file as text; a byte order mark is dropped."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _one_line(error: Exception) -> str:
    """The first line of an error's message."""
    return (str(error).splitlines() or [type(error).__name__])[0]
