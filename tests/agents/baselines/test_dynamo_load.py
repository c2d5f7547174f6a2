"""Dynamo's load-based planner: what it reads, its floor, its known quirks."""

import json
import math
from dataclasses import replace

import pytest

from gatepilot.agents.baselines.dynamo_capacity import Targets
from gatepilot.agents.baselines.dynamo_engine import EngineModel, ForwardPass
from gatepilot.agents.baselines.dynamo_forward import Work
from gatepilot.agents.baselines.dynamo_load import DynamoLoadParams
from gatepilot.agents.baselines.dynamo_load_rules import (
    EASY_THRESHOLDS,
    FullRule,
    KvThresholds,
    easy_size,
    full_size,
)
from gatepilot.agents.baselines.dynamo_predictors import PredictorParams
from gatepilot.agents.baselines.dynamo_regression import RegressionModel, least_squares
from gatepilot.agents.baselines.dynamo_samples import SampleParams
from gatepilot.agents.baselines.dynamo_throughput import DynamoThroughputParams
from gatepilot.agents.baselines.registry import make_controller
from gatepilot.agents.baselines.site import Site, SiteError
from gatepilot.envs.schema.settings import GatewaySettings, Limits
from gatepilot.envs.schema.snapshot import MetricsSnapshot

from .dynamo_snapshots import (
    PLANE,
    Load,
    easy,
    full,
    idle,
    lasts_s,
    loads,
    overloaded,
    shown_by,
    site_of,
    trained,
)

# --- feeding ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kv_usage", "waiting", "replicas_ready", "samples"])
def test_easy_mode_holds_without_what_it_needs(name: str) -> None:
    controller, settings = easy(), GatewaySettings(2)
    for _ in range(5):
        assert controller.decide(overloaded(2, **{name: None}), settings) is settings
    assert controller.decide(overloaded(2), settings).replicas == 3


@pytest.mark.parametrize(
    "name",
    ["kv_usage", "waiting", "replicas_ready", "samples", "running", "output_token_rate_tps"],
)
def test_full_mode_holds_without_what_it_needs(name: str) -> None:
    controller, settings = trained(full()), GatewaySettings(2)
    for _ in range(5):
        assert controller.decide(overloaded(2, **{name: None}), settings) is settings
    assert controller.decide(overloaded(2), settings).replicas == 3


def test_an_unknown_kv_capacity_holds() -> None:
    for params in (DynamoLoadParams(), DynamoLoadParams("sla")):
        controller = params.make(site_of(kv_tokens=None), seed=0)
        settings = GatewaySettings(2)
        for _ in range(9):
            assert controller.decide(overloaded(2), settings) is settings


def test_without_a_replica_it_refuses() -> None:
    with pytest.raises(SiteError, match="dynamo_load needs to know what a replica can do"):
        make_controller("dynamo_load", Site(Limits(1, 4)))


def test_it_learns_from_every_ready_replica() -> None:
    controller = full()
    shown = shown_by(3, 100, 20, 5000, 0.01)
    controller.decide(shown, GatewaySettings(3))
    model = controller.engine.forward
    assert isinstance(model, RegressionModel)
    assert model.samples["mixed"].total == 3
    assert list(controller.engine.prompt.values) == pytest.approx([100.0] * 3)
    assert list(controller.engine.length.values) == pytest.approx([250.0] * 3)


def test_with_a_profile_full_mode_needs_no_samples() -> None:
    """0.01 s an iteration, whatever it does: 88 chunks wait 0.88 s; nothing waits after that."""
    controller = full(model="profile", itl_s=0.02)
    assert controller.decide(overloaded(2), GatewaySettings(2)).replicas == 3
    assert controller.decide(idle(3), GatewaySettings(3)).replicas == 2


# --- the floor ----------------------------------------------------------------------------------

FLOOR = DynamoThroughputParams(interval_s=10.0, corrects=False)
"""Plans at every second tick of 5 s; a replica serves 10 requests of 100 + 100 tokens a second."""


def arriving(replicas: int, rate: float) -> MetricsSnapshot:
    """Requests of 100 + 100 tokens a second, of which each replica holds little."""
    seconds = lasts_s(0, 1000) / (1 - 1e-5 * 100 * rate / replicas)
    per_iteration = 100 * rate / replicas * seconds
    shown = shown_by(replicas, per_iteration, per_iteration, 1000, seconds)
    return replace(shown, request_rate_rps=rate)


def test_the_floor_lifts_a_hold_and_stops_a_shrink() -> None:
    """It plans at looks 2, 4, 6 ...: 45 / 10, 25 / 10, 25 / 10, 5 / 10."""
    controller = trained(full(floor=FLOOR))
    sizes, settings = [], GatewaySettings(2)
    for rate in (45, 45, 45, 25, 25, 25, 25, 5, 5, 5, 5):
        settings = controller.decide(arriving(settings.replicas, rate), settings)
        sizes.append(settings.replicas)
    assert sizes == [1, 1, 5, 5, 4, 3, 3, 3, 2, 1, 1]


def test_quirk_the_floor_waits_for_an_estimate() -> None:
    controller, settings = full(floor=FLOOR), GatewaySettings(1)
    for _ in range(4):  # one replica, so four samples
        settings = controller.decide(arriving(1, 75.0), settings)
    assert (controller.least, settings.replicas) == (8, 1)


def test_a_plan_and_a_look_at_once_use_the_new_plan() -> None:
    controller = trained(full(floor=FLOOR))
    sizes = [controller.decide(arriving(2, 35.0), GatewaySettings(2)).replicas for _ in range(3)]
    assert sizes == [1, 1, 4]


def test_a_floor_without_traffic_data_stays_what_it_was() -> None:
    controller = trained(full(floor=FLOOR))
    for _ in range(3):
        controller.decide(arriving(5, 45.0), GatewaySettings(5))
    for _ in range(9):
        unknown = replace(arriving(5, 5.0), request_rate_rps=None)
        assert controller.decide(unknown, GatewaySettings(5)).replicas == 5


# --- known quirks -------------------------------------------------------------------------------


def test_quirk_easy_mode_asks_one_engine_and_full_mode_all() -> None:
    assert easy_size([1.1, 0.0], 2, EASY_THRESHOLDS["throughput"]) == 3
    engine = trained(full(itl_s=0.01)).engine
    hot, cold = (ForwardPass(Work(0, 20, kv), 0, 0.0) for kv in (40_000, 100))
    rule = FullRule(Targets(0.5, 0.01), 0.8, None)
    assert full_size(engine, [hot, hot], 2, rule) == 3
    assert full_size(engine, [hot, cold], 2, rule) == 2


def test_quirk_a_rejected_fit_does_not_fall_back_to_the_one_before() -> None:
    model = RegressionModel(SampleParams())
    for prefill, kv in PLANE:
        model.tune(Work(prefill, 10, kv), lasts_s(prefill, kv), 1)
    assert model.is_ready
    model.tune(Work(400, 10, 45_000), 1e-5, 9)
    assert not model.is_ready
    assert model.seconds(Work(100, 10, 5000)) is None


def test_quirk_equal_samples_yield_what_rounding_leaves() -> None:
    """A plane through one point is any plane; here the ridge makes it level, or it is refused."""
    fit = least_squares([((96.0, 12_000.0), 0.02)] * 8)
    assert fit is None or fit[0] + fit[1] * 96 + fit[2] * 12_000 == pytest.approx(0.02)


def test_quirk_the_smallest_pivot_is_absolute() -> None:
    """A slope in features of 1e-9 is there, and is not found."""
    samples = [((x * 1e-9,), 1.0 + x) for x in (0.0, 1.0, 2.0, 3.0, 4.0)]
    fit = least_squares(samples)
    assert fit is not None
    assert fit[1] < 1e3  # 1e9 it should be


def test_quirk_a_slope_that_is_hardly_negative_stays() -> None:
    points = ((1.0, 9.0), (2.0, 40.0), (90.0, 1.0), (40.0, 9.0))
    fit = least_squares([((b, kv), 0.01 - 5e-10 * b + 1e-9 * kv) for b, kv in points], (0,))
    assert fit is not None
    assert fit[1] == pytest.approx(-5e-10, rel=1e-3)


def test_quirk_idling_makes_the_own_prompt_fade_and_not_the_own_length() -> None:
    engine = EngineModel(RegressionModel(SampleParams()), 512, 64)
    engine.observe(ForwardPass(Work(0.0, 0.0, 0.0), 0.0, 0.0), 5)
    assert len(engine.prompt.values) == 0  # zeros to begin with are no history
    engine.observe(ForwardPass(Work(300.0, 10.0, 5000.0), 2.0, 0.02), 1)
    assert (engine.prompt.value, engine.length.value) == (150.0, 500.0)
    for _ in range(3):
        engine.observe(ForwardPass(Work(0.0, 0.0, 0.0), 0.0, 0.0), 1)
    assert (engine.prompt.value, engine.length.value) == (37.5, 500.0)
    engine.observe(ForwardPass(Work(0.0, 0.0, 0.0), 0.0, 0.0), 64)
    assert (engine.prompt.value, engine.length.value) == (0.0, 500.0)
    assert engine.ttft_s(ForwardPass(Work(0.0, 0.0, 0.0), 0.0, 0.0)) == 0.0


# --- parameters and state -----------------------------------------------------------------------


def test_the_defaults_are_upstreams() -> None:
    assert DynamoLoadParams() == DynamoLoadParams(
        "throughput",
        5.0,
        None,
        Targets(0.5, 0.05),
        0.8,
        "regression",
        SampleParams(64, 5, 16),
        floor=None,
    )
    assert {
        "throughput": KvThresholds(1.0, 0.6),
        "latency": KvThresholds(0.4, 0.1),
    } == EASY_THRESHOLDS


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"target": "cost"}, "target is 'cost'"),
        ({"model": "oracle"}, "model is 'oracle'"),
        ({"interval_s": 0.0}, r"interval_s is 0\.0"),
        ({"interval_s": math.nan}, "interval_s is nan"),
        ({"down_sensitivity": 1.1}, r"down_sensitivity is 1\.1"),
        ({"target": "load"}, "load is None for the target 'load'"),
        ({"load": KvThresholds(0.9, 0.2)}, "for the target 'throughput'"),
        ({"floor": DynamoThroughputParams()}, "floor is for the target 'sla', got 'throughput'"),
        (
            {"target": "sla", "interval_s": 180.0, "floor": DynamoThroughputParams()},
            r"interval_s is 180\.0, expected less than the floor's 180\.0",
        ),
    ],
)
def test_what_upstream_refuses_is_refused(params: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DynamoLoadParams(**params)  # type: ignore[arg-type]


@pytest.mark.parametrize(("up", "down"), [(0.5, 0.5), (0.5, 0.6), (0.5, -0.1), (math.inf, 0.1)])
def test_thresholds_out_of_order_are_refused(up: float, down: float) -> None:
    with pytest.raises(ValueError, match=f"down {down} and up {up}"):
        KvThresholds(up, down)


@pytest.mark.parametrize(
    "params",
    [
        DynamoLoadParams("latency", interval_s=10.0),
        DynamoLoadParams("sla", samples=SampleParams(20, 9, 4)),
        DynamoLoadParams("sla", model="profile", samples=SampleParams(20, 9, 4)),
        DynamoLoadParams(
            "sla",
            samples=SampleParams(20, 9, 4),
            floor=DynamoThroughputParams(interval_s=20.0, forecast=PredictorParams("kalman")),
        ),
    ],
)
@pytest.mark.parametrize("half", [0, 1, 9, 17])
def test_it_goes_on_where_another_stopped(params: DynamoLoadParams, half: int) -> None:
    whole, first, second = (params.make(site_of(tick_s=5.0), seed=0) for _ in range(3))
    size = 3
    for tick, load in enumerate(loads(5)):
        asked = second if tick >= half else first
        if tick == half:
            second.restore(json.loads(json.dumps(first.saved())))
        shown, settings = load.shown_by(size), GatewaySettings(size)
        found = whole.decide(shown, settings)
        assert asked.decide(shown, settings) == found
        size = found.replicas
    assert second.saved() == whole.saved()


def test_loads_of_the_tests_are_what_they_say() -> None:
    load = Load(100.0, 10.0, 0.2, 0.0, 0.0, frozenset(), 0)
    shown = load.shown_by(3)
    assert shown.running == 30.0
    seconds = 0.002 + 0.01 + 0.006
    assert shown.output_token_rate_tps == pytest.approx(30 / seconds)
    assert shown.prompt_token_rate_tps == pytest.approx(300 / seconds)
