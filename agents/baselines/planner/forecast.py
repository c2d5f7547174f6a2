"""Where the load goes: level and damped trend of its logarithm, and how far that has been off.

Formula (Holt's linear method with a damped trend; Gardner and McKenzie 1985; Hyndman and
Athanasopoulos, Forecasting: Principles and Practice, 3rd ed., 8.2): with y the log of the load,

    level' = a y + (1 - a) (level + f trend)
    trend' = b (level' - level) + (1 - b) f trend
    forecast(h) = level' + (f + f^2 + ... + f^h) trend'

What was forecast h ticks ago is compared with what came: the mean square of that error, weighted
exponentially, starts at a prior. All arrays hold one entry a gateway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

Floats = NDArray[np.float64]

PARAMS_CONFIG: Final = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
"""Unknown keys, texts in place of numbers, and infinities are errors."""
_LOAD_FLOOR: Final = 0.02
"""Added to every load (replicas kept busy): the log of next to nothing stays quiet."""
LEAST_LOAD: Final = 1e-6
"""Least load that has a logarithm, replicas kept busy."""
_MOST_LOG: Final = 100.0
"""Log of the largest load that is forecast: a trend upon the largest number would overflow."""
_MOST_ERROR: Final = 1.0
"""Largest error that counts, a factor of 2.7: counters that stand still and then leap make larger
ones, and so does a night without a request."""
_EVENT_WEIGHT: Final = 0.3
"""Weight of a jump among the squared errors. It is met once a tick for as long as is looked ahead,
so each of these errors has this weight over the horizon."""


@dataclass(frozen=True, slots=True)
class ForecastParams:
    """Smoothing."""

    __pydantic_config__: ClassVar[ConfigDict] = PARAMS_CONFIG

    level_weight: float = 0.8
    """a: weight of the newest load; a minute's mean is smooth already."""
    trend_weight: float = 0.02
    """b: weight of the newest change of level."""
    damping: float = 0.75
    """f: share of the trend that is left after a tick."""
    error_prior: float = 0.3
    """Error to be expected before any was seen: 0.3 is a factor of 1.35."""

    def __post_init__(self) -> None:
        """Refuses what would not converge.

        Raises:
            ValueError: A weight or the damping is outside 0-1, or the prior below 0.
        """
        for name in ("level_weight", "trend_weight", "damping"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ValueError(f"{name} is {value}, expected 0-1")
        if not self.error_prior >= 0:
            raise ValueError(f"error_prior is {self.error_prior}, expected 0 or more")


@dataclass(slots=True)
class ForecastState:
    """What is remembered of n gateways."""

    ticks: NDArray[np.int64]
    """`(n,)`: loads seen."""
    level: Floats
    """`(n,)`: log load."""
    trend: Floats
    """`(n,)`: change of the level a tick."""
    error_sq: Floats
    """`(n,)`: mean square of the errors at the horizon."""
    made: Floats
    """`(n, h)`: ring of the last forecasts; slot `ticks % h` is the oldest."""

    @classmethod
    def start(cls, params: ForecastParams, n: int, ahead_ticks: int) -> ForecastState:
        """Gateways of which nothing has been seen.

        Args:
            params: Smoothing.
            n: Gateways.
            ahead_ticks: h: how far ahead is looked, 1 or more.
        """
        return cls(
            ticks=np.zeros(n, np.int64),
            level=np.zeros(n),
            trend=np.zeros(n),
            error_sq=np.full(n, params.error_prior**2),
            made=np.zeros((n, ahead_ticks)),
        )


def see(state: ForecastState, load: Floats, params: ForecastParams) -> None:
    """Takes in the newest load, `(n,)`; where it is NaN nothing changes."""
    known, ahead_ticks = ~np.isnan(load), state.made.shape[1]
    y = np.log(np.where(known, load, 0.0) + _LOAD_FLOOR)
    expected = state.level + params.damping * state.trend
    level = params.level_weight * y + (1 - params.level_weight) * expected
    level = np.where(state.ticks == 0, y, level)
    change = np.where(state.ticks == 0, 0.0, level - state.level)
    trend = params.trend_weight * change
    trend += (1 - params.trend_weight) * params.damping * state.trend
    rows, slots = np.arange(len(load)), state.ticks % ahead_ticks
    error_sq = np.clip(y - state.made[rows, slots], -_MOST_ERROR, _MOST_ERROR) ** 2
    weight = _EVENT_WEIGHT / ahead_ticks
    error_sq = (1 - weight) * state.error_sq + weight * error_sq
    can_compare = known & (state.ticks >= ahead_ticks)
    state.error_sq[:] = np.where(can_compare, error_sq, state.error_sq)
    state.level[:] = np.where(known, level, state.level)
    state.trend[:] = np.where(known, trend, state.trend)
    ahead = _log_ahead(state, params)
    state.made[rows, slots] = np.where(known, ahead, state.made[rows, slots])
    state.ticks += known


def expected(state: ForecastState, params: ForecastParams) -> tuple[Floats, Floats]:
    """Natural logarithm of the load now and at the horizon, `(n,)` each, after `see`."""
    now, later = (
        np.exp(np.minimum(log, _MOST_LOG)) - _LOAD_FLOOR
        for log in (state.level, _log_ahead(state, params))
    )
    return np.log(np.maximum(now, LEAST_LOAD)), np.log(np.maximum(later, LEAST_LOAD))


def _log_ahead(state: ForecastState, params: ForecastParams) -> Floats:
    f, ticks = params.damping, state.made.shape[1]
    steps = float(ticks) if f == 1 else f * (1 - f**ticks) / (1 - f)
    ahead: Floats = state.level + steps * state.trend
    return ahead
