"""How Dynamo's planner forecasts the traffic of its next interval.

Per interval three series are observed and forecast by one step: requests, mean prompt, mean answer.

Regimes of one series (`core/load/predictors.py`):

- zeros before the first non-zero value are not observed at all;
- `constant`: the last value;
- `kalman`: a filter of level and trend, `level' = level + trend`, state noise (q_level, q_trend),
  measurement noise r, initial variance 1000; the first value sets the level, trend 0. With
  `uses_log1p` it runs on `log(1 + value)` and its forecast is clamped at 0; without, it is not.

Left out: `arima` (upstream's default; order selection by AIC over maximum-likelihood fits) and
`prophet` (a Bayesian fit): no closed formulas, and both need libraries the base install has not.
With fewer than five intervals upstream's `arima` is `constant`.

Regimes of the three together (`plugins/builtins/local_planner.py`): an interval without requests
has no lengths, so after the first traffic the last observed lengths are observed once more.

Version: ai-dynamo/dynamo, mid 2026 (1.3, 1.4), `components/src/dynamo/planner/`: predictors read at
260b6ae9, local_planner at 8504b503; the filter is `filterpy.kalman.KalmanFilter` (Joseph form).

Quirks kept: `kalman_min_points` (5) is stored upstream and never looked at, so the filter forecasts
from its first value on and no parameter is offered; without `uses_log1p` a forecast may be
negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Predictor = Literal["constant", "kalman"]
"""Which forecast; see the module."""

_START_VARIANCE: Final = 1000.0


@dataclass(frozen=True, slots=True)
class PredictorParams:
    """How one series is forecast; all three alike."""

    predictor: Predictor = "constant"
    """Upstream's default is `arima`; this is what it falls back to."""
    uses_log1p: bool = False
    """Whether the filter runs on log(1 + value) (`load_predictor_log1p`)."""
    q_level: float = 1.0
    """Noise of the level per interval, squared units of the series (`kalman_q_level`)."""
    q_trend: float = 0.1
    """Noise of the trend per interval (`kalman_q_trend`)."""
    r: float = 10.0
    """Noise of a measurement (`kalman_r`)."""

    def __post_init__(self) -> None:
        """Refuses a filter that could not run.

        Raises:
            ValueError: An unknown predictor, or a variance that is not a number above 0.
        """
        if self.predictor not in ("constant", "kalman"):
            msg = f"predictor is {self.predictor!r}, expected 'constant' or 'kalman'"
            raise ValueError(msg)
        for name in ("q_level", "q_trend", "r"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value}, expected a number above 0")


@dataclass(slots=True)
class Series:
    """One observed series and the state of its forecast."""

    params: PredictorParams
    last: float | None = None
    """Last observed value; `None` until the first that is not 0."""
    level: float = 0.0
    trend: float = 0.0
    variance: float = _START_VARIANCE
    """Of the level."""
    covariance: float = 0.0
    """Of level and trend."""
    trend_variance: float = _START_VARIANCE
    is_ahead: bool = False
    """The filter has been stepped to the next interval and waits for its value."""

    def observe(self, value: float) -> None:
        """Takes the value of an interval that is over."""
        if value == 0 and self.last is None:
            return
        if self.params.predictor == "kalman":
            self._update(math.log1p(max(0.0, value)) if self.params.uses_log1p else value)
        self.last = value

    def predict(self) -> float:
        """The next interval's value, in the series' own units; 0 before the first value."""
        if self.last is None:
            return 0.0
        if self.params.predictor == "constant":
            return self.last
        if not self.is_ahead:
            self._step()
        return max(0.0, math.expm1(self.level)) if self.params.uses_log1p else self.level

    def saved(self) -> list[float | bool | None]:
        """Its state, as JSON content."""
        spread = [self.variance, self.covariance, self.trend_variance]
        return [self.last, self.level, self.trend, *spread, self.is_ahead]

    def restore(self, saved: list[Any]) -> None:
        """Takes over what another one remembered."""
        self.last, self.level, self.trend, self.variance, self.covariance = saved[:5]
        self.trend_variance, self.is_ahead = saved[5:]

    def _step(self) -> None:
        self.level += self.trend
        self.variance += 2 * self.covariance + self.trend_variance + self.params.q_level
        self.covariance += self.trend_variance
        self.trend_variance += self.params.q_trend
        self.is_ahead = True

    def _update(self, measured: float) -> None:
        if self.last is None:
            self.level = measured
            return
        if not self.is_ahead:
            self._step()
        r = self.params.r
        gain = self.variance / (self.variance + r)
        trend_gain = self.covariance / (self.variance + r)
        surprise = measured - self.level
        self.level += gain * surprise
        self.trend += trend_gain * surprise
        variance, covariance, kept = self.variance, self.covariance, 1.0 - gain
        self.variance = kept * kept * variance + r * gain * gain
        self.covariance = kept * (covariance - trend_gain * variance) + r * gain * trend_gain
        self.trend_variance += trend_gain * (trend_gain * (variance + r) - 2 * covariance)
        self.is_ahead = False


@dataclass(frozen=True, slots=True)
class Traffic:
    """What came in during one interval, or is forecast for the next."""

    requests: float
    """Requests that arrived."""
    prompt_tokens: float
    """Mean prompt; not looked at if nothing arrived."""
    output_tokens: float
    """Mean answer; not looked at if nothing arrived."""


@dataclass(slots=True)
class TrafficForecast:
    """The three series."""

    params: PredictorParams
    requests: Series = field(init=False)
    prompt_tokens: Series = field(init=False)
    output_tokens: Series = field(init=False)
    lengths: tuple[float, float] | None = None
    """Mean prompt and answer of the last interval with requests."""

    def __post_init__(self) -> None:
        """Starts without a history."""
        self.requests = Series(self.params)
        self.prompt_tokens = Series(self.params)
        self.output_tokens = Series(self.params)

    def next_after(self, traffic: Traffic) -> Traffic:
        """Observes an interval and forecasts the next."""
        self.requests.observe(traffic.requests)
        if traffic.requests > 0:
            self.lengths = (traffic.prompt_tokens, traffic.output_tokens)
        if self.lengths is not None:
            self.prompt_tokens.observe(self.lengths[0])
            self.output_tokens.observe(self.lengths[1])
        return Traffic(
            self.requests.predict(), self.prompt_tokens.predict(), self.output_tokens.predict()
        )

    def saved(self) -> dict[str, Any]:
        """Its state, as JSON content."""
        return {
            "requests": self.requests.saved(),
            "prompt_tokens": self.prompt_tokens.saved(),
            "output_tokens": self.output_tokens.saved(),
            "lengths": None if self.lengths is None else list(self.lengths),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        self.requests.restore(saved["requests"])
        self.prompt_tokens.restore(saved["prompt_tokens"])
        self.output_tokens.restore(saved["output_tokens"])
        lengths = saved["lengths"]
        self.lengths = None if lengths is None else (lengths[0], lengths[1])
