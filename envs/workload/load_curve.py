"""A load whose rate wanders: for policies that must hold on days that no trace has shown."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .request import Requests

MEAN_HOLD_S: Final = 900.0
"""Mean time for which the rate stays (exponential)."""
RAMP_S: Final = (60.0, 1800.0)
"""Shortest and longest way to the next rate (log-uniform): from half a cold start to the pace of a
morning."""
STEP: Final = 0.5
"""Spread of the steps of the rate's logarithm: two in three are below a factor of 1.65. The
biggest quarter-hour steps of the ServeGen and Azure days are of this size."""


def wandering(requests: Requests, lowest: float, *, seed: int) -> Requests:
    """Thins a load along a random curve between `lowest` and 1.

    The curve holds a level, walks to the next one in a straight line, holds again; the logarithm of
    the levels is a random walk, reflected at both ends. Requests are dropped independently, so at
    level 1 the load is as it was, bursts included.

    Args:
        requests: The load at its highest.
        lowest: Lowest share of requests that is kept, above 0 and at most 1.
        seed: Of the curve and of who is dropped; equal arguments give equal bytes.

    Raises:
        ValueError: `lowest` lies outside (0, 1].
    """
    if not 0 < lowest <= 1:
        raise ValueError(f"lowest: {lowest} is not a share above 0")
    rng = np.random.default_rng(seed)
    times_s, levels = _curve(requests.span_s, lowest, rng)
    share = np.interp(requests.arrival_s, times_s, levels)
    kept = rng.random(len(requests)) < share
    return requests.take(np.flatnonzero(kept))


def _curve(
    span_s: float, lowest: float, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Corners of the curve: times from 0 to at least `span_s`, and levels."""
    depth = math.log(1 / lowest)
    place = rng.uniform(0.0, depth)  # distance below the top, in logarithms
    times_s, levels = [0.0], [math.exp(-place)]
    while times_s[-1] < span_s:
        times_s.append(times_s[-1] + rng.exponential(MEAN_HOLD_S))
        levels.append(levels[-1])
        place = _reflected(place + rng.normal(0.0, STEP), depth)
        ramp_s = math.exp(rng.uniform(math.log(RAMP_S[0]), math.log(RAMP_S[1])))
        times_s.append(times_s[-1] + ramp_s)
        levels.append(math.exp(-place))
    return np.array(times_s), np.array(levels)


def _reflected(place: float, depth: float) -> float:
    """Folds a place back into [0, depth]."""
    if depth == 0:
        return 0.0
    folded = place % (2 * depth)
    return min(folded, 2 * depth - folded)
