"""Fits the coefficients of a step model to times a token that were measured in closed loops.

Non-negative least squares of the relative errors: a coefficient below 0 would let an iteration take
less than no time, and a row of 10 ms counts as much as one of 100 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from .keys import ProfileError
from .step import StepModel, closed_loop_columns

Floats = NDArray[np.float64]
LEAST_ROWS: Final = 5
"""Fewest rows that say anything about four coefficients."""
_MOST_CONDITION: Final = 1e4
"""Condition of the scaled columns beyond which errors of a thousandth decide. Published sets of
rows have 4 to 32; where all answers have one length, context and prefill are the same column."""

_ROUNDING_S: Final = 1e-15
"""What the solver leaves of a coefficient that is 0; a token costs nanoseconds."""


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
        FitError: Too few rows, rows of too few shapes, or times that no iteration can explain.
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
    relative = columns / target[:, None]
    if np.linalg.cond(relative / np.linalg.norm(relative, axis=0)) > _MOST_CONDITION:
        msg = (
            "the rows cannot tell the coefficients apart; expected runs of several concurrencies, "
            "prompt lengths and answer lengths"
        )
        raise FitError(msg)
    times, _ = nnls(relative, np.ones(len(rows)))
    times[times < _ROUNDING_S] = 0.0
    if times[0] == 0 and 0 in (times[1], times[3]):
        msg = (
            "the rows leave an iteration without a duration (base and another coefficient are 0); "
            "expected rows of low and high concurrency, of short and long prompts"
        )
        raise FitError(msg)
    return StepModel.of_coefficients(times, expert_share)
