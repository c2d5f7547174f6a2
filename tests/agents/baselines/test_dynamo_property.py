"""Dynamo's planners against a second implementation, over random histories."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.dynamo_capacity import Targets
from gatepilot.agents.baselines.dynamo_load import DynamoLoadParams
from gatepilot.agents.baselines.dynamo_load_rules import KvThresholds
from gatepilot.agents.baselines.dynamo_predictors import PredictorParams, Series
from gatepilot.agents.baselines.dynamo_regression import least_squares
from gatepilot.agents.baselines.dynamo_samples import BucketedSamples, SampleParams
from gatepilot.agents.baselines.dynamo_throughput import DynamoThroughputParams
from gatepilot.envs.profiles.step import StepModel
from gatepilot.envs.schema.settings import GatewaySettings
from gatepilot.envs.schema.snapshot import MetricsSnapshot

from . import dynamo_second as second
from . import dynamo_second_sizes as sizes
from .dynamo_snapshots import loads, site_of, snapshot_of

MANY = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
SOME = settings(MANY, max_examples=40)
FEW = settings(MANY, max_examples=12)

values = st.floats(0.01, 1e4)
predictor_params = st.builds(
    PredictorParams,
    st.sampled_from(["constant", "kalman"]),
    st.booleans(),
    q_level=st.floats(0.01, 100),
    q_trend=st.floats(0.01, 100),
    r=st.floats(0.01, 1000),
)
cells = st.sampled_from([1, 4, 16])
sample_params = st.builds(SampleParams, st.integers(5, 14), st.integers(2, 5), cells)
targets = st.builds(Targets, st.floats(0.02, 2.0), st.floats(0.01, 0.2))
throughput_params = st.builds(
    DynamoThroughputParams,
    interval_s=st.sampled_from([30.0, 60.0, 100.0]),
    targets=targets,
    forecast=predictor_params,
    samples=sample_params,
    corrects=st.booleans(),
)
steps = st.builds(
    StepModel,
    st.floats(0.001, 0.03),
    st.floats(0, 1e-3),
    st.floats(0, 1e-6),
    st.floats(0, 1e-4),
    st.sampled_from([0.0, 0.01]),
    st.sampled_from([0.03, 0.5]),
)
gap = st.sampled_from([False] * 12 + [True])


@st.composite
def looks(draw: st.DrawFn) -> MetricsSnapshot:
    """A snapshot of some size, with some noise in everything, idle at times, and with gaps."""
    replicas = draw(st.integers(1, 6))
    if draw(st.sampled_from([False] * 5 + [True])):
        idle = snapshot_of(replicas, running=0.0, waiting=0.0, kv_usage=0.0, request_rate_rps=0.0)
        rates = {"prompt_token_rate_tps": 0.0, "output_token_rate_tps": 0.0, "samples": 0.0}
        shown = replace(idle, **rates)
    else:
        running, rate = draw(st.floats(1, 300)), draw(st.floats(0.1, 60))
        shown = snapshot_of(
            replicas,
            running=running,
            waiting=draw(st.just(0.0) | st.floats(0.1, 200)),
            kv_usage=draw(st.floats(0.01, 1.0)),
            request_rate_rps=rate,
            samples=draw(st.floats(1, 3000)),
            prompt_token_rate_tps=draw(st.just(0.0) | st.floats(10, 20_000)),
            output_token_rate_tps=running / draw(st.floats(0.004, 0.2)),
        )
    names = ("running", "waiting", "kv_usage", "samples", "request_rate_rps", "replicas_ready")
    gaps = {name: None for name in (*names, "prompt_token_rate_tps") if draw(gap)}
    return replace(shown, **gaps)  # type: ignore[arg-type]


@MANY
@given(st.lists(st.just(0.0) | values, min_size=1, max_size=12), predictor_params)
def test_forecasts(series: list[float], params: PredictorParams) -> None:
    one = Series(params)
    for i, value in enumerate(series):
        one.observe(value)
        expected = second.forecast(series[: i + 1], params)
        assert one.predict() == pytest.approx(expected, rel=1e-6, abs=1e-6 * max(series))
        assert one.predict() == one.predict()


@MANY
@given(st.lists(st.just(0.0) | values, min_size=2, max_size=8), predictor_params)
def test_a_forecast_does_not_depend_on_who_asks_for_it(
    series: list[float], params: PredictorParams
) -> None:
    asked, unasked = Series(params), Series(params)
    for value in series:
        asked.observe(value)
        asked.predict()
        unasked.observe(value)
    assert asked.predict() == unasked.predict()


points = st.tuples(st.integers(0, 20).map(float), st.integers(0, 20).map(float))


@MANY
@given(
    st.lists(st.tuples(points, st.integers(1, 4)), min_size=1, max_size=25),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 12),
    st.booleans(),
)
def test_what_is_kept(
    added: list[tuple[tuple[float, float], int]], cells: int, most: int, is_fixed: bool
) -> None:
    bounds = [(0.0, 15.0), (0.0, 17.0)] if is_fixed else []
    grid = BucketedSamples(cells, most, bounds, is_fixed=is_fixed)
    flat: list[second.Sample] = []
    for i, (point, copies) in enumerate(added):
        grid.add(point, float(i), copies)
        flat += [(point, float(i))] * copies
    try:
        expected = second.kept(flat, cells, most, [15.0, 17.0] if is_fixed else None)
    except second.Close:
        assume(False)
    assert grid.points() == expected
    assert grid.total == len(expected) <= most
    restored = BucketedSamples(cells, most, bounds, is_fixed=is_fixed)
    restored.restore(json.loads(json.dumps(grid.saved())))
    assert restored == grid


@MANY
@given(
    st.lists(
        st.tuples(st.floats(1, 500), st.floats(1, 1e5), st.floats(-1, 1)), min_size=5, max_size=20
    ),
    st.floats(0.001, 0.1),
    st.floats(-1e-4, 3e-4),
    st.floats(-1e-6, 1e-5),
    st.booleans(),
)
def test_planes(
    spread: list[tuple[float, float, float]], base: float, slope: float, kv: float, relaxed: bool
) -> None:
    samples: list[second.Sample] = [
        ((x, y), base + slope * x + kv * y + 0.002 * noise) for x, y, noise in spread
    ]
    try:
        expected = second.plane(samples, relaxed=relaxed)
    except second.Close:
        assume(False)
    fit = least_squares(samples, (0,) if relaxed else ())
    if expected is None:
        assert fit is None
    else:
        assert fit is not None
        for x, y, _ in spread:
            exact = expected[0] + expected[1] * x + expected[2] * y
            assert fit[0] + fit[1] * x + fit[2] * y == pytest.approx(exact, rel=1e-6, abs=1e-9)


@SOME
@given(st.lists(looks(), min_size=4, max_size=16), throughput_params, steps)
def test_throughput(
    shown: list[MetricsSnapshot], params: DynamoThroughputParams, step: StepModel
) -> None:
    site = site_of(limits=(1, 9), tick_s=20.0, step=step, max_num_seqs=24)
    controller = params.make(site, seed=0)
    size = 3
    seen: list[MetricsSnapshot] = []
    for look in shown:
        ready = size if look.replicas_ready is not None else None
        snapshot = replace(look, replicas_requested=size, replicas_ready=ready)
        seen.append(snapshot)
        try:
            wanted = sizes.planned(seen, params, site)
        except second.Close:
            return
        found = controller.decide(snapshot, GatewaySettings(size)).replicas
        expected = size if wanted is None or ready is None else min(max(wanted, 1), 9)
        assert found == expected
        size = found


@MANY
@given(
    st.lists(looks(), min_size=1, max_size=12),
    st.sampled_from(["throughput", "latency", "load"]),
    st.floats(0.0, 0.5),
    st.floats(0.6, 2.0),
)
def test_easy(shown: list[MetricsSnapshot], target: str, down: float, up: float) -> None:
    load = KvThresholds(up, down, is_inclusive=True) if target == "load" else None
    params = DynamoLoadParams(target, load=load)  # type: ignore[arg-type]
    site = site_of(limits=(1, 9))
    controller = params.make(site, seed=0)
    size = 4
    for look in shown:
        ready = look.replicas_ready and (size if look.replicas_ready > 1 else 1)
        snapshot = replace(look, replicas_requested=size, replicas_ready=ready)
        try:
            wanted = sizes.easy_wanted(snapshot, size, params, site)
        except second.Close:
            return
        expected = size if wanted is None else min(max(wanted, 1), 9)
        found = controller.decide(snapshot, GatewaySettings(size)).replicas
        assert found == expected
        size = found


full_cases = given(
    st.integers(0, 2**32),
    st.builds(
        DynamoLoadParams,
        st.just("sla"),
        targets=st.builds(Targets, st.floats(0.01, 0.5), st.floats(0.005, 0.1)),
        down_sensitivity=st.floats(0.1, 1.0),
        model=st.sampled_from(["regression", "profile"]),
        samples=st.builds(SampleParams, st.integers(20, 40), st.integers(9, 15), cells),
        floor=st.none() | st.none() | throughput_params,
    ),
    steps,
)


@FEW
@full_cases
def test_full(seed: int, params: DynamoLoadParams, step: StepModel) -> None:
    full_history(seed, params, step)


@pytest.mark.slow
@pytest.mark.timeout(300)
@settings(MANY, max_examples=200)
@full_cases
def test_full_often(seed: int, params: DynamoLoadParams, step: StepModel) -> None:
    full_history(seed, params, step)


def full_history(seed: int, params: DynamoLoadParams, step: StepModel) -> None:
    site = site_of(limits=(1, 9), tick_s=20.0, step=step, max_num_seqs=24)
    controller = params.make(site, seed=0)
    size, least = 3, 1
    seen: list[MetricsSnapshot] = []
    for load in loads(seed):
        snapshot = load.shown_by(size)
        seen.append(snapshot)
        try:
            if params.floor is not None:
                least = sizes.planned(seen, params.floor, site) or least
            wanted = sizes.full_wanted(seen, size, params, site)
        except second.Close:
            return
        expected = size if wanted is None else min(max(wanted, least), 9)
        found = controller.decide(snapshot, GatewaySettings(size)).replicas
        assert found == expected
        size = found


def test_the_second_implementation_is_no_copy_of_a_constant() -> None:
    """It answers a case worked out by hand."""
    params = PredictorParams("kalman")
    expected = 10 + 10 * Fraction(2001 + 1000, 2011)
    assert second.forecast([10.0, 20.0], params) == pytest.approx(float(expected))
    line: list[second.Sample] = [((float(x),), 0.001 + 1e-4 * x) for x in range(0, 500, 100)]
    assert second.plane(line, relaxed=False) == pytest.approx([0.001, 1e-4])
    assert math.isclose(sizes.profiled_s(StepModel(0.01, 0.1, 0.0, 0.0), 0, 2, 0), 0.21)
