"""How far measured latencies have lain above the expected ones.

Formula: the logarithm of measured over expected latency moves towards the newest by a weight, by
half of it on the way down, and no error counts for more than a factor of two at once.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .forecast import Floats

_STEP: Final = 0.7
"""Largest error of the expected latency that counts at once, natural logarithm of a factor."""
_MOST: Final = 1.0
"""Largest bias either way: a factor of 2.7."""


def moved(
    bias: Floats, measured_log: Floats, expected_log: Floats, weight: Floats | float
) -> Floats:
    """The bias after a measurement, `(k,)`.

    Args:
        bias: Before, `(k,)`: natural logarithm of measured over expected latency.
        measured_log: Natural logarithm of what is measured, `(k,)`.
        expected_log: The same of what was to be expected without a bias, `(k,)`.
        weight: Of the newest error, `(k,)` or of all.
    """
    error = measured_log - expected_log - bias
    weights = weight * np.where(error > 0, 1.0, 0.5)
    after = bias + weights * np.minimum(np.maximum(error, -_STEP), _STEP)
    return np.minimum(np.maximum(after, -_MOST), _MOST)
