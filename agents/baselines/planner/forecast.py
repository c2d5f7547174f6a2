"""Where the load goes: level and damped trend of its logarithm, and how far that has been off.

Formula (Holt's linear method with a damped trend; Gardner and McKenzie 1985; Hyndman and
Athanasopoulos, Forecasting: Principles and Practice, 3rd ed., 8.2): with y the log of the load,

    level' = a y + (1 - a) (level + f trend)
    trend' = b (level' - level) + (1 - b) f trend
    forecast(h) = level' + (f + f^2 + ... + f^h) trend'

What was forecast h ticks ago is compared with what came: the mean square of that error, weighted
exponentially, starts at a prior. All arrays hold one entry a gateway; each may look ahead another
number of ticks h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from .table import Table

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


@dataclass(frozen=True, slots=True)
class Horizon:
    """How far ahead is looked."""

    ticks: NDArray[np.int64]
    """`(k,)`: h, 1 or more."""
    trends: Floats
    """`(k,)`: f + f^2 + ... + f^h: how many of today's trends come on top until then."""

    @classmethod
    def of(cls, params: Sequence[ForecastParams], ticks: Sequence[int]) -> Horizon:
        """Horizons of so many ticks, one for each of the parameters."""
        trends = [_trends(one.damping, h) for one, h in zip(params, ticks, strict=True)]
        return cls(np.array(ticks), np.array(trends))

    def at(self, which: NDArray[np.int64]) -> Horizon:
        """Those of some, `(k,)` indices."""
        return Horizon(self.ticks[which], self.trends[which])


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
    """`(n, longest h)`: rings of the last forecasts; slot `ticks % h` is the oldest, slots from h
    on stay empty."""

    @classmethod
    def start(cls, error_priors: Floats, longest_ticks: int) -> ForecastState:
        """Gateways of which nothing has been seen.

        Args:
            error_priors: Error of each to be expected before any was seen, `(n,)`.
            longest_ticks: Longest horizon of any.
        """
        n = len(error_priors)
        return cls(
            ticks=np.zeros(n, np.int64),
            level=np.zeros(n),
            trend=np.zeros(n),
            error_sq=np.square(error_priors),
            made=np.zeros((n, longest_ticks)),
        )


def see(state: ForecastState, load: Floats, params: Table, horizon: Horizon) -> None:
    """Takes in the newest load; where it is NaN nothing changes.

    Args:
        state: Of n gateways.
        load: Replicas kept busy, `(n,)`.
        params: Smoothing of each, `(n,)`, with the fields of `ForecastParams`.
        horizon: Of each gateway, always the same one.
    """
    known = ~np.isnan(load)
    y = np.log(np.where(known, load, 0.0) + _LOAD_FLOOR)
    is_first = state.ticks == 0
    damping, level_weight, trend_weight = (
        params[name] for name in ("damping", "level_weight", "trend_weight")
    )
    expected = state.level + damping * state.trend
    level = level_weight * y + (1 - level_weight) * expected
    level = np.where(is_first, y, level)
    change = np.where(is_first, 0.0, level - state.level)
    trend = trend_weight * change
    trend += (1 - trend_weight) * damping * state.trend
    rows, slots = np.arange(len(load)), state.ticks % horizon.ticks
    made = state.made[rows, slots]
    error_sq = np.minimum(np.maximum(y - made, -_MOST_ERROR), _MOST_ERROR) ** 2
    weight = _EVENT_WEIGHT / horizon.ticks
    error_sq = (1 - weight) * state.error_sq + weight * error_sq
    can_compare = known & (state.ticks >= horizon.ticks)
    state.error_sq[:] = np.where(can_compare, error_sq, state.error_sq)
    state.level[:] = np.where(known, level, state.level)
    state.trend[:] = np.where(known, trend, state.trend)
    state.made[rows, slots] = np.where(known, _log_ahead(state, horizon), made)
    state.ticks += known


def expected(state: ForecastState, horizon: Horizon) -> tuple[Floats, Floats]:
    """Natural logarithm of the load now and at the horizon, `(n,)` each, after `see`."""
    now, later = (
        np.log(np.maximum(np.exp(np.minimum(log, _MOST_LOG)) - _LOAD_FLOOR, LEAST_LOAD))
        for log in (state.level, _log_ahead(state, horizon))
    )
    return now, later


def _trends(damping: float, ticks: int) -> float:
    """How many of today's trends come on top within so many ticks."""
    if damping == 1:
        return float(ticks)
    return damping * (1 - damping**ticks) / (1 - damping)


def _log_ahead(state: ForecastState, horizon: Horizon) -> Floats:
    ahead: Floats = state.level + horizon.trends * state.trend
    return ahead
