"""What can be set of the planner: how careful it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from .breaker import BreakerParams
from .forecast import PARAMS_CONFIG, ForecastParams


@dataclass(frozen=True, slots=True)
class PlannerParams:
    """How careful it is."""

    __pydantic_config__: ClassVar[ConfigDict] = PARAMS_CONFIG

    forecast: ForecastParams = ForecastParams()  # noqa: RUF009  # frozen
    """How the load is forecast."""
    breaker: BreakerParams = BreakerParams()  # noqa: RUF009  # frozen
    """Where the breaker's threshold stands."""
    violation_weight: float = 0.5
    """w: price of a violating tick, as a multiple of the documented one. Below 1, since the tail of
    `sizing` is heavy and a window's P95 outlasts what broke it."""
    errors: float = 1.0
    """Spread of the forecast, as a multiple of the root mean square of its past errors."""
    capacity_error: float = 0.15
    """Spread of what a replica really bears around the formula: natural logarithm of a factor."""
    reserve: int = 1
    """Replicas in hand for what no trend announces, such as a tenant that jumps."""
    floor_replicas: int = 0
    """Never fewer, where the limits allow it: what a service is known to need at any hour."""
    peak_share: float = 0.4
    """Share of the remembered peak that stays covered."""
    peak_kept: float = 0.978
    """What is left of the remembered peak after a tick."""
    headroom: float = 1.15
    """Factor on the busiest share; below 1: more careful than the formula."""
    arrival_scv: float = 0.7
    """ca2: squared coefficient of variation of the arrivals at a replica within a minute; below 1,
    since a router that counts requests sends them more evenly than chance."""
    bias_weight: float = 0.35
    """Weight of the newest error of the expected latency; where it was too high, half of it."""
    mix_weight: float = 0.3
    """Weight of the newest lengths."""
    catch_up_s: float = 60.0
    """Time in which waiting requests are to be worked off, seconds ..."""
    catch_up_share: float = 0.25
    """... with no more than this share of the arriving work on top of it."""
    hold_ticks: int = 20
    """Ticks for which a need is kept up."""

    def __post_init__(self) -> None:
        """Refuses what would not plan.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        for name in ("peak_share", "peak_kept", "bias_weight", "mix_weight"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 0-1")
        for name in (
            *("headroom", "arrival_scv", "catch_up_s"),
            *("violation_weight", "capacity_error"),
        ):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a number above 0")
        for name in ("errors", "reserve", "floor_replicas", "hold_ticks", "catch_up_share"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 0 or more")
