"""The forecast, worked out by hand and against a plain loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gatepilot.agents.baselines.planner.forecast import (
    ForecastParams,
    ForecastState,
    Horizon,
    expected,
    see,
)
from gatepilot.agents.baselines.planner.table import table_of

FLOOR = 0.02


def fed(params: ForecastParams, loads: list[float], ahead: int = 4) -> ForecastState:
    state = ForecastState.start(np.array([params.error_prior]), ahead)
    for load in loads:
        see(state, np.array([load]), table_of([params]), Horizon.of([params], [ahead]))
    return state


def forecast(
    params: ForecastParams, state: ForecastState, ahead: int = 4
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    now, later = expected(state, Horizon.of([params], [ahead]))
    return np.exp(now), np.exp(later)


def test_two_loads_by_hand() -> None:
    """y: ln 1, ln 2. Level 0.5 ln 2; trend 0.25 of that; f = 1 sums to four trends ahead."""
    params = ForecastParams(level_weight=0.5, trend_weight=0.25, damping=1.0, error_prior=0.0)
    state = fed(params, [1 - FLOOR, 2 - FLOOR])
    level, trend = 0.5 * np.log(2), 0.125 * np.log(2)
    assert state.level[0] == pytest.approx(level)
    assert state.trend[0] == pytest.approx(trend)
    now, later = forecast(params, state)
    assert now[0] == pytest.approx(np.exp(level) - FLOOR)
    assert later[0] == pytest.approx(np.exp(level + 4 * trend) - FLOOR)


def test_a_steady_load_stays_what_it_is_and_a_falling_one_will_be_less() -> None:
    params = ForecastParams(trend_weight=0.3)
    now, later = forecast(params, fed(params, [3.0] * 50))
    assert [now[0], later[0]] == pytest.approx([3.0, 3.0])
    now, later = forecast(params, fed(params, [10.0, 8.0, 6.0, 4.0, 2.0]))
    assert later[0] < now[0]


def test_no_load_has_a_logarithm_too() -> None:
    params = ForecastParams()
    now, later = forecast(params, fed(params, [0.0] * 9))
    assert [now[0], later[0]] == pytest.approx([1e-6, 1e-6])


def test_growth_by_a_constant_factor_is_seen_ahead() -> None:
    params = ForecastParams(level_weight=1.0, trend_weight=1.0, damping=1.0, error_prior=0.0)
    loads = [1.1**k - FLOOR for k in range(20)]
    state = fed(params, loads)
    assert forecast(params, state)[1][0] == pytest.approx(1.1**23 - FLOOR)
    assert state.error_sq[0] < 0.02  # four ticks of it were forecast before the trend was known


def test_errors_of_the_past_are_remembered() -> None:
    params = ForecastParams(error_prior=0.1)
    calm = fed(params, [4.0] * 200)
    jumpy = fed(params, [4.0, 8.0] * 100, ahead=3)
    assert calm.error_sq[0] < 0.01 * 0.1
    assert jumpy.error_sq[0] > 10 * calm.error_sq[0]


def by_loop(params: ForecastParams, loads: list[float | None], ahead: int) -> tuple[float, float]:
    """Level and mean squared error, one number after the other, the whole history kept."""
    level, trend, error_sq = 0.0, 0.0, params.error_prior**2
    made: list[float] = []
    for load in loads:
        if load is None:
            continue
        y = float(np.log(load + FLOOR))
        if made:
            before = level
            level = params.level_weight * y
            level += (1 - params.level_weight) * (before + params.damping * trend)
            trend = (
                params.trend_weight * (level - before)
                + (1 - params.trend_weight) * params.damping * trend
            )
        else:
            level = y
        if len(made) >= ahead:
            error_sq += 0.3 / ahead * (min(abs(y - made[-ahead]), 1.0) ** 2 - error_sq)
        made.append(level + sum(params.damping**k for k in range(1, ahead + 1)) * trend)
    return level, error_sq


@given(
    loads=st.lists(st.none() | st.floats(0, 50), min_size=1, max_size=60),
    ahead=st.integers(1, 12),
    weights=st.tuples(st.floats(0.01, 1), st.floats(0.01, 1), st.floats(0.5, 1)),
)
def test_any_history_agrees_with_a_plain_loop(
    loads: list[float | None], ahead: int, weights: tuple[float, float, float]
) -> None:
    params = ForecastParams(*weights)
    state = fed(params, [np.nan if load is None else load for load in loads], ahead)
    level, error_sq = by_loop(params, loads, ahead)
    assert state.level[0] == pytest.approx(level, rel=1e-9, abs=1e-9)
    assert state.error_sq[0] == pytest.approx(error_sq, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["level_weight", "trend_weight", "damping", "error_prior"])
@pytest.mark.parametrize("value", [-0.1, float("nan")])
def test_what_would_not_converge_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is"):
        ForecastParams(**{name: value})
