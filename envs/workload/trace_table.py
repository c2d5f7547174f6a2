"""Tables from csv, csv.gz and parquet files: the columns wanted, or one line with what is wrong."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from .text_files import UNREADABLE, is_gzip, one_line, open_text
from .trace_columns import TraceError

_ZONE = re.compile(r"(?:Z|[+-]\d\d:?\d\d)$")


@dataclass(frozen=True)
class TableFormat:
    """Column names of one public format."""

    arrival: str
    """Column of arrivals."""
    prompt: str
    """Column of prompt tokens."""
    output: str
    """Column of output tokens."""
    wall_clock: bool
    """Whether arrivals are dates with a time of day."""
    optional: tuple[str, ...] = ()
    """Columns that are read where they are there."""
    texts: tuple[str, ...] = ()
    """Those of the optional ones that may hold text."""

    @property
    def columns(self) -> tuple[str, str, str]:
        """The columns that must be there."""
        return (self.arrival, self.prompt, self.output)

    def wanted(self, names: list[str]) -> list[str]:
        """The columns to read out of those that are there."""
        return [*self.columns, *(name for name in self.optional if name in names)]


def read_table(
    path: Path, choose: Callable[[list[str]], TableFormat]
) -> tuple[pa.Table, TableFormat]:
    """Reads the needed columns of a file.

    Args:
        path: A csv, csv.gz or parquet file.
        choose: The format of a file with these columns.

    Raises:
        TraceError: The file cannot be read, or a column is missing.
    """
    read = _read_parquet if path.suffix.lower() == ".parquet" else _read_csv
    return read(path, choose)


def _checked(
    path: Path, names: list[str], choose: Callable[[list[str]], TableFormat]
) -> TableFormat:
    """The format of a file whose columns are all there, once each."""
    columns = choose(names)
    for name in columns.columns:
        if name not in names:
            found = ", ".join(names) or "none"
            raise TraceError(
                f"{path}: column {name} is missing; expected {', '.join(columns.columns)}, "
                f"found {found}"
            )
    for name in columns.wanted(names):
        if names.count(name) > 1:
            raise TraceError(f"{path}: column {name} appears twice; each name may appear once")
    return columns


def _read_parquet(
    path: Path, choose: Callable[[list[str]], TableFormat]
) -> tuple[pa.Table, TableFormat]:
    """Reads the needed columns of a parquet file."""
    try:
        names = pq.read_schema(path).names
        columns = _checked(path, names, choose)
        return pq.read_table(path, columns=columns.wanted(names)), columns
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"{path}: not a readable parquet file ({one_line(error)})") from error


def _read_csv(
    path: Path, choose: Callable[[list[str]], TableFormat]
) -> tuple[pa.Table, TableFormat]:
    """Reads the needed columns of a csv file, typed; falls back to text to find a bad row."""
    try:
        with open_text(path) as file:
            rows = csv.reader(file)
            names = [name.strip() for name in next(rows, [])]
            first = next(rows, [])
    except (*UNREADABLE, csv.Error) as error:
        raise TraceError(f"{path}: not a readable csv file ({one_line(error)})") from error
    if not names:
        expected = ", ".join(choose(names).columns)
        raise TraceError(f"{path}: the file is empty; expected {expected}")
    columns = _checked(path, names, choose)
    types: dict[str, pa.DataType] = dict.fromkeys(columns.wanted(names), pa.float64())
    if columns.wall_clock:
        position = names.index(columns.arrival)
        zoned = len(first) > position and _ZONE.search(first[position].strip()[10:])
        types[columns.arrival] = pa.timestamp("ns", tz="UTC" if zoned else None)
    types |= {name: pa.string() for name in columns.texts if name in types}
    try:
        try:
            return _parse_csv(path, names, types), columns
        except pa.ArrowInvalid:
            text = _parse_csv(path, names, dict.fromkeys(types, pa.binary()))
    except (OSError, pa.ArrowException) as error:  # e.g. a gzip file that was cut short
        raise TraceError(f"{path}: not a readable csv file ({one_line(error)})") from error
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
        pa.input_stream(str(path), compression="gzip" if is_gzip(path) else None),
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
    with open_text(path) as file:
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
    if _reads_as(text, kind):
        return
    first, last = 0, len(text)  # the first bad one is among these
    while last - first > 1:
        middle = (first + last) // 2
        if _reads_as(text.slice(first, middle - first), kind):
            first = middle
        else:
            last = middle
    what = "a date and time" if pa.types.is_timestamp(kind) else "a number"
    value = text[first].as_py().decode(errors="replace")
    raise TraceError(f"{path}: row {first + 1}, {name}: {value!r} is not {what}")


def _reads_as(text: pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Whether every text of a column reads as a type."""
    try:
        pc.cast(pc.cast(text, pa.string()), kind)
    except pa.ArrowException:
        return False
    return True
