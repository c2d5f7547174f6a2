"""Fits the coefficients of a step model to times a token that were measured in closed loops.

Non-negative least squares of the relative errors: a coefficient below 0 would let an iteration take
less than no time, and a row of 10 ms counts as much as one of 100 ms.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from .keys import ProfileError
from .step import StepModel, closed_loop_columns

Floats = NDArray[np.float64]
COLUMNS: Final = ("concurrency", "prompt_tokens", "output_tokens", "tpot_s")
"""Columns of a file of measured rows; `ttft_s` may stand beside them."""
LEAST_ROWS: Final = 5
"""Fewest rows that say anything about four coefficients."""


class FitError(ProfileError):
    """Measured rows that nothing can be fitted to: one line."""


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One closed-loop run on real hardware."""

    concurrency: int
    """Requests in flight at one replica."""
    prompt_tokens: int
    output_tokens: int
    tpot_s: float
    """Mean time between two tokens of an answer."""
    ttft_s: float
    """Mean time to the first token; NaN: not measured."""


def fit_step(
    rows: Sequence[MeasuredRow],
    *,
    tpot_s: Floats | None = None,
    length_share: float = 1.0,
    expert_share: float = 0.0,
) -> StepModel:
    """Fits a step model by the closed-loop identity.

    Args:
        rows: At least `LEAST_ROWS`.
        tpot_s: `(n,)`: times to fit instead of the measured ones.
        length_share: Mean length of prompts and answers as a share of the rows' lengths.
        expert_share: Share of the experts a token activates; 0: a dense model.

    Returns:
        The model, no coefficient below 0.

    Raises:
        FitError: Too few rows, or rows whose times no iteration can explain.
    """
    if len(rows) < LEAST_ROWS:
        msg = f"{len(rows)} rows: a fit of four coefficients needs {LEAST_ROWS} or more"
        raise FitError(msg)
    target = np.array([row.tpot_s for row in rows]) if tpot_s is None else tpot_s
    columns = closed_loop_columns(
        [row.concurrency for row in rows],
        [length_share * row.prompt_tokens for row in rows],
        [length_share * row.output_tokens for row in rows],
        expert_share,
    )
    times, _ = nnls(columns / target[:, None], np.ones(len(rows)))
    if times[0] == 0 and 0 in (times[1], times[3]):
        msg = (
            "the rows leave an iteration without a duration (base and another coefficient are 0); "
            "expected rows of low and high concurrency, of short and long prompts"
        )
        raise FitError(msg)
    return StepModel.of_coefficients(times, expert_share)


def load_rows(path: Path) -> tuple[MeasuredRow, ...]:
    """Reads measured rows from a CSV file.

    Args:
        path: Columns `COLUMNS`, in any order, and `ttft_s` if it was measured; others are ignored.

    Raises:
        FitError: The file cannot be read, a column is missing or a value is out of range: one line
            with file, line, column, value and what would be right.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a text file"
        msg = f"{path}: cannot be read ({why})"
        raise FitError(msg) from error
    reader = csv.DictReader(io.StringIO(text))
    missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        msg = f"{path}: no column {missing[0]}; expected {', '.join(COLUMNS)} and maybe ttft_s"
        raise FitError(msg)
    return tuple(_row(line, f"{path}: line {reader.line_num}") for line in reader)


def _row(line: dict[str, str | None], where: str) -> MeasuredRow:
    """One line of the file."""
    counts = [_above_zero(line, name, where) for name in COLUMNS[:3]]
    for name, count in zip(COLUMNS[:3], counts, strict=True):
        if not count.is_integer():
            msg = f"{where}: {name}: {count:g} is not a whole number"
            raise FitError(msg)
    ttft_s = _above_zero(line, "ttft_s", where) if line.get("ttft_s") else float("nan")
    concurrency, prompt, output = (int(count) for count in counts)
    return MeasuredRow(concurrency, prompt, output, _above_zero(line, "tpot_s", where), ttft_s)


def _above_zero(line: dict[str, str | None], name: str, where: str) -> float:
    text = line.get(name)
    try:
        value = float(text or "")
    except ValueError:
        value = float("nan")
    if not (value > 0 and np.isfinite(value)):
        msg = f"{where}: {name}: {text!r} is not a number above 0"
        raise FitError(msg)
    return value
