"""Dynamo's throughput-based planner: what it reads, its known quirks."""

import json
import math
from dataclasses import replace

import pytest

from gatepilot.agents.baselines.dynamo_capacity import Targets
from gatepilot.agents.baselines.dynamo_forward import EngineLimits
from gatepilot.agents.baselines.dynamo_predictors import (
    PredictorParams,
    Series,
    Traffic,
    TrafficForecast,
)
from gatepilot.agents.baselines.dynamo_samples import SampleParams
from gatepilot.agents.baselines.dynamo_throughput import DynamoThroughputParams
from gatepilot.agents.baselines.registry import make_controller
from gatepilot.agents.baselines.site import ReplicaSpec, Site, SiteError
from gatepilot.envs.schema.settings import GatewaySettings, Limits

from .dynamo_snapshots import FLAT, loads, planner, site_of, size_after, traffic

KALMAN = PredictorParams("kalman")


# --- feeding ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"request_rate_rps": None},
        {"samples": None},
        {"prompt_token_rate_tps": None},
        {"output_token_rate_tps": None},
        {"replicas_ready": None},
    ],
)
def test_it_holds_without_what_it_needs(changes: dict[str, float | None]) -> None:
    controller = planner()
    settings = GatewaySettings(1)
    for _ in range(20):
        shown = replace(traffic(1, 55.0), **changes)  # type: ignore[arg-type]
        assert controller.decide(shown, settings) is settings


def test_profile_corrections_do_not_need_arrivals() -> None:
    controller = planner(corrects=True)
    busy = traffic(1, 10.0, running=40.0, waiting=0.0, kv_usage=0.1, request_rate_rps=None)
    for _ in range(5):
        size_after(controller, 1, busy)
    assert controller.model.ratios["mixed"].total == 5


def test_an_unknown_kv_cache_is_upstreams_two_million_tokens() -> None:
    spec = ReplicaSpec(FLAT, 110.0)
    assert EngineLimits.of(spec) == EngineLimits(512, 128, 2_000_000)
    assert EngineLimits.of(replace(spec, kv_capacity_tokens=7)).kv_tokens == 7


def test_without_a_replica_it_refuses() -> None:
    with pytest.raises(SiteError, match="dynamo_throughput needs to know what a replica can do"):
        make_controller("dynamo_throughput", Site(Limits(1, 4)))


# --- known quirks -------------------------------------------------------------------------------


def test_quirk_the_filter_forecasts_from_its_first_value_on() -> None:
    """Upstream stores kalman_min_points = 5 and never looks at it."""
    series = Series(KALMAN)
    series.observe(10.0)
    series.observe(20.0)
    assert series.predict() == pytest.approx(24.92, abs=0.01)


def test_quirk_a_forecast_length_below_0_holds_whatever_comes_in() -> None:
    controller = planner(forecast=KALMAN)
    for _ in range(2):
        size_after(controller, 2, traffic(2, 10.0, prompt=4000.0))
    assert size_after(controller, 2, traffic(2, 500.0, prompt=10.0)) == 2
    assert controller.forecast.prompt_tokens.predict() < 0
    assert controller.forecast.requests.predict() > 60 * 500


def test_quirk_steps_have_no_limit() -> None:
    controller = planner()
    size_after(controller, 1, traffic(1, 119.0))
    assert size_after(controller, 1, traffic(1, 119.0)) == 12
    assert size_after(controller, 12, traffic(12, 1.0)) == 1


def test_quirk_a_plan_that_meets_a_start_is_lost() -> None:
    """It is neither queued nor tried again at the next tick."""
    controller = planner(interval_s=180.0)
    sizes = []
    for tick in range(7):
        ready = 1 if tick == 3 else 2
        sizes.append(size_after(controller, 2, traffic(2, 45.0, replicas_ready=ready)))
    assert sizes == [2, 2, 2, 2, 2, 2, 5]


def test_quirk_lengths_of_idle_intervals_are_those_before() -> None:
    forecast = TrafficForecast(PredictorParams())
    assert forecast.next_after(Traffic(0.0, 0.0, 0.0)) == Traffic(0.0, 0.0, 0.0)
    forecast.next_after(Traffic(60.0, 300.0, 50.0))
    assert forecast.next_after(Traffic(0.0, 0.0, 0.0)) == Traffic(0.0, 300.0, 50.0)


# --- parameters and state -----------------------------------------------------------------------


def test_the_defaults_are_upstreams_but_for_the_predictor() -> None:
    assert DynamoThroughputParams() == DynamoThroughputParams(
        180.0,
        Targets(0.5, 0.05),
        PredictorParams("constant", False, 1.0, 0.1, 10.0),
        SampleParams(64, 5, 16),
        corrects=True,
    )


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_values_out_of_range_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match=f"interval_s is {bad}"):
        DynamoThroughputParams(interval_s=bad)
    for name in ("ttft_s", "itl_s"):
        with pytest.raises(ValueError, match=f"{name} is {bad}"):
            Targets(**{name: bad})
    for name in ("q_level", "q_trend", "r"):
        with pytest.raises(ValueError, match=f"{name} is {bad}"):
            PredictorParams(**{name: bad})  # type: ignore[arg-type]


def test_what_upstream_refuses_is_refused() -> None:
    with pytest.raises(ValueError, match="predictor is 'arima'"):
        PredictorParams("arima")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bucket_count is 15"):
        SampleParams(bucket_count=15)
    with pytest.raises(ValueError, match="min_observations is 9 and max_samples 8"):
        SampleParams(8, 9)
    with pytest.raises(ValueError, match="min_observations is 0"):
        SampleParams(8, 0)


@pytest.mark.parametrize("predictor", ["constant", "kalman"])
@pytest.mark.parametrize("half", [0, 1, 7, 19])
def test_it_goes_on_where_another_stopped(predictor: str, half: int) -> None:
    params = DynamoThroughputParams(
        interval_s=120.0,
        forecast=PredictorParams(predictor),  # type: ignore[arg-type]
        samples=SampleParams(20, 5, 4),
    )
    whole, first, second = (params.make(site_of(), seed=0) for _ in range(3))
    for tick, load in enumerate(loads(3)):
        asked = second if tick >= half else first
        if tick == half:
            second.restore(json.loads(json.dumps(first.saved())))
        shown, settings = load.shown_by(4), GatewaySettings(4)
        assert asked.decide(shown, settings) == whole.decide(shown, settings)
    assert second.saved() == whole.saved()
