"""What requests are like: lengths of prompts and outputs, smoothed.

Formula: means are token rates over the rate of first tokens; each of the four lengths moves by a
weight towards the newest, and the first that is seen is taken as it is. A window that does not show
all four says nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ....envs.schema.fields import FIELD_INDEX, Rows
from .forecast import Floats
from .state import PROMPT

_MOST_TOKENS: Final = 1e9
"""Longest prompt or output that is believed."""
_QUANTILES: Final = [FIELD_INDEX[name] for name in ("prompt_tokens_p50", "prompt_tokens_p95")]
_RATES: Final = [FIELD_INDEX[name] for name in ("prompt_token_rate_tps", "output_token_rate_tps")]


def see_mix(mix: Floats, rows: Rows, window_s: float, weight: Floats | float) -> None:
    """Takes in the lengths of the newest window.

    Args:
        mix: `PlannerState.mix`, `(n, 4)`.
        rows: Scraped rows `(n, F)`; NaN: missing.
        window_s: What a row's window spans.
        weight: Of the newest lengths, `(n,)` or of all.
    """
    samples = rows[:, FIELD_INDEX["samples"]]
    first_tokens_per_s = samples / window_s
    first_tokens_per_s = np.where(first_tokens_per_s > 0, first_tokens_per_s, np.nan)
    with np.errstate(over="ignore"):  # next to no sample
        means = rows[:, _RATES] / first_tokens_per_s[:, None]
    newest = np.concatenate([rows[:, _QUANTILES], means], axis=1)
    newest = np.where(newest <= _MOST_TOKENS, newest, np.nan)
    is_known = np.logical_and.reduce(newest > 0, axis=1)[:, None]  # NaN is not above 0
    weights = np.where(mix[:, PROMPT] > 0, weight, 1.0)[:, None]
    mix[:] = np.where(is_known, mix + weights * (newest - mix), mix)
