"""Measured closed-loop runs from a CSV file, checked cell by cell."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Final

from .fit import FitError, MeasuredRow

COLUMNS: Final = ("concurrency", "prompt_tokens", "output_tokens", "tpot_s")
"""Columns of a file of measured rows; `ttft_s` may stand beside them."""
_MILLISECONDS: Final = "; times are in seconds, is it in milliseconds?"
_BOUNDS: Final[dict[str, tuple[float, float, str]]] = {
    "concurrency": (1, 100_000, ""),
    "prompt_tokens": (1, 10_000_000, ""),
    "output_tokens": (2, 10_000_000, "; with one token there is no time between two"),
    "tpot_s": (1e-6, 10, _MILLISECONDS),
    "ttft_s": (1e-6, 3600, _MILLISECONDS),
}
"""By column: least, most, and what to say of a value outside. Far beyond what engines do."""


def load_rows(path: Path) -> tuple[MeasuredRow, ...]:
    """Reads measured rows from a CSV file; a byte order mark and spaces around cells are dropped.

    Args:
        path: Columns `COLUMNS`, in any order, and `ttft_s` if it was measured; others are ignored.

    Raises:
        FitError: The file cannot be read, a column is missing, a line has too many or too few
            values or one is out of range: one line with file, line, column, value and what would
            be right.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a text file"
        msg = f"{path}: cannot be read ({why})"
        raise FitError(msg) from error
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    try:
        names = [name.strip() for name in next(reader, [])]
        _check_names(path, names)
        return tuple(
            _row(names, [cell.strip() for cell in cells], f"{path}: line {reader.line_num}")
            for cells in reader
            if any(cell.strip() for cell in cells)
        )
    except csv.Error as error:
        msg = f"{path}: line {reader.line_num}: not a line of a CSV file ({error})"
        raise FitError(msg) from error


def _check_names(path: Path, names: list[str]) -> None:
    """Raises FitError where a column is missing or there twice."""
    for name in COLUMNS:
        if name not in names:
            msg = f"{path}: no column {name}; expected {', '.join(COLUMNS)} and maybe ttft_s"
            raise FitError(msg)
    for name in (*COLUMNS, "ttft_s"):
        if names.count(name) > 1:
            msg = f"{path}: column {name} appears twice; each name may appear once"
            raise FitError(msg)


def _row(names: list[str], cells: list[str], where: str) -> MeasuredRow:
    """One line of the file."""
    if len(cells) != len(names):
        msg = f"{where}: {len(cells)} values for {len(names)} columns"
        raise FitError(msg)
    line = dict(zip(names, cells, strict=True))
    counts = [_within(line[name], name, where) for name in COLUMNS[:3]]
    for name, count in zip(COLUMNS[:3], counts, strict=True):
        if not count.is_integer():
            msg = f"{where}: {name}: {count:g} is not a whole number"
            raise FitError(msg)
    ttft_s = _within(line["ttft_s"], "ttft_s", where) if line.get("ttft_s") else float("nan")
    concurrency, prompt, output = (int(count) for count in counts)
    return MeasuredRow(
        concurrency, prompt, output, _within(line["tpot_s"], "tpot_s", where), ttft_s
    )


def _within(text: str, name: str, where: str) -> float:
    """A number within the bounds of its column."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not value > 0:
        msg = f"{where}: {name}: {text!r} is not a number above 0"
        raise FitError(msg)
    least, most, hint = _BOUNDS[name]
    if not least <= value <= most:
        msg = f"{where}: {name}: {text} is not from {least:,} to {most:,}{hint}"
        raise FitError(msg)
    return value
