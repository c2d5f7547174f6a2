"""Golden vectors of Dynamo's planners, worked out by hand from upstream's rules."""

import json
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from gatepilot.agents.baselines.dynamo_capacity import Targets, aggregated_capacity
from gatepilot.agents.baselines.dynamo_engine import EngineModel, ForwardPass
from gatepilot.agents.baselines.dynamo_forward import EngineLimits, Work
from gatepilot.agents.baselines.dynamo_load import DynamoLoadParams
from gatepilot.agents.baselines.dynamo_load_rules import (
    EASY_THRESHOLDS,
    FullRule,
    KvThresholds,
    easy_size,
    full_size,
    itl_size,
    ttft_size,
)
from gatepilot.agents.baselines.dynamo_predictors import PredictorParams, Series
from gatepilot.agents.baselines.dynamo_profile import ProfileModel
from gatepilot.agents.baselines.dynamo_regression import RegressionModel, least_squares
from gatepilot.agents.baselines.dynamo_samples import BucketedSamples, SampleParams
from gatepilot.agents.baselines.dynamo_snapshot import forward_pass, kv_use
from gatepilot.agents.baselines.dynamo_throughput import DynamoThroughputParams, throughput_size
from gatepilot.envs.profiles.step import StepModel
from gatepilot.envs.schema.settings import GatewaySettings

from .dynamo_snapshots import FLAT, site_of, snapshot_of

Vectors = dict[str, list[dict[str, Any]]]


def read(name: str) -> Vectors:
    content: Vectors = json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return content


THROUGHPUT = read("dynamo_throughput_vectors.json")
LOAD = read("dynamo_load_vectors.json")


def vectors(cases: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("vector", cases, ids=[case["name"] for case in cases])


@pytest.mark.parametrize("every", [THROUGHPUT, LOAD])
def test_there_are_enough_vectors(every: Vectors) -> None:
    assert sum(len(group) for group in every.values()) >= 80


# --- throughput ---------------------------------------------------------------------------------


@vectors(THROUGHPUT["size"])
def test_size(vector: dict[str, Any]) -> None:
    inputs = [vector[key] for key in ("requests", "interval_s", "engine_rps", "minimum")]
    assert throughput_size(*inputs) == vector["replicas"], vector["why"]


@vectors(THROUGHPUT["capacity"])
def test_capacity(vector: dict[str, Any]) -> None:
    model = ProfileModel(
        SampleParams(), StepModel(*vector["step"]), EngineLimits(*vector["limits"])
    )
    found = aggregated_capacity(model, Targets(*vector["targets"]), *vector["lengths"])
    if vector["found"] is None:
        assert found is None, vector["why"]
        return
    batch, rate_rps, ttft_s, itl_s, eligible = vector["found"]
    assert found is not None
    assert (found.batch, found.is_eligible) == (batch, eligible), vector["why"]
    assert (found.rate_rps, found.ttft_s, found.itl_s) == pytest.approx((rate_rps, ttft_s, itl_s))


@vectors(THROUGHPUT["predictors"])
def test_predictors(vector: dict[str, Any]) -> None:
    series = Series(PredictorParams(**vector["params"]))
    forecasts = []
    for value in vector["values"]:
        series.observe(value)
        forecasts.append(series.predict())
    assert forecasts == pytest.approx(vector["forecasts"], rel=1e-9), vector["why"]


def work_of(prefill: float, kv: float) -> Work:
    """Ten sequences, if there are KV tokens."""
    return Work(prefill, 10.0 if kv else 0.0, kv)


@vectors(THROUGHPUT["corrections"])
def test_corrections(vector: dict[str, Any]) -> None:
    model = ProfileModel(SampleParams(), FLAT, EngineLimits(512, 128, 400_000))
    for prefill, kv, seconds, copies in vector["observed"]:
        model.tune(work_of(prefill, kv), seconds, copies)
    asked = work_of(*vector["asked"])
    assert model.seconds(asked) == pytest.approx(vector["seconds"]), vector["why"]
    if all(asked.parts):
        many = model.mixed_s(*(np.full(3, part) for part in asked.parts))
        assert many.tolist() == pytest.approx([vector["seconds"]] * 3), vector["why"]


@vectors(THROUGHPUT["histories"])
def test_throughput_history(vector: dict[str, Any]) -> None:
    """Requests of 100 + 100 tokens; one replica serves 10 of them a second."""
    content = json.dumps(vector.get("params", {}))
    params = TypeAdapter(DynamoThroughputParams).validate_json(content)
    site = site_of(limits=vector.get("limits", (1, 12)), tick_s=vector.get("tick_s", 60.0))
    controller = params.make(site, seed=0)
    settings = GatewaySettings(vector["start"], 7)
    sizes = []
    for tick, rate in enumerate(vector["rates"]):
        tokens = None if rate is None else 100.0 * rate
        answers = vector.get("answers", True) and rate is not None
        running = None if "seconds" not in vector else tokens * vector["seconds"]
        snapshot = snapshot_of(
            settings.replicas,
            replicas_ready=vector.get("ready", {}).get(str(tick), settings.replicas),
            request_rate_rps=rate,
            samples=60.0 * rate if answers else 0.0,
            prompt_token_rate_tps=tokens if answers else 0.0,
            output_token_rate_tps=tokens if answers else 0.0,
            running=running,
            waiting=0.0,
            kv_usage=0.1,
        )
        settings = controller.decide(snapshot, settings)
        sizes.append(settings.replicas)
    assert sizes == vector["sizes"], vector["why"]
    assert settings.threshold_steps == 7


# --- load ---------------------------------------------------------------------------------------


@vectors(LOAD["easy"])
def test_easy(vector: dict[str, Any]) -> None:
    if vector["target"] == "load":
        thresholds = KvThresholds(vector["up"], vector["down"], is_inclusive=True)
    else:
        thresholds = EASY_THRESHOLDS[vector["target"]]
    wanted = easy_size(vector["uses"], vector["workers"], thresholds)
    assert wanted == vector["wanted"], vector["why"]


@vectors(LOAD["planes"])
def test_planes(vector: dict[str, Any]) -> None:
    samples = [(tuple(point), value) for point, value in vector["samples"]]
    fit = least_squares(samples, tuple(vector["relaxed"]))
    if vector["fit"] is None:
        assert fit is None, vector["why"]
    else:
        assert fit == pytest.approx(tuple(vector["fit"]), abs=1e-12), vector["why"]


@vectors(LOAD["kept"])
def test_kept(vector: dict[str, Any]) -> None:
    samples = BucketedSamples(vector["per_axis"], vector["max_samples"])
    for point in vector["added"]:
        samples.add(tuple(point), 1.0)
    left = sorted(point for point, _ in samples.points())
    assert left == sorted(tuple(point) for point in vector["left"]), vector["why"]
    assert samples.total == len(left)


def report_of(vector: dict[str, float]) -> ForwardPass:
    return ForwardPass(
        Work(0.0, vector["requests"], vector["kv"]),
        prefill_requests=0.0,
        seconds=0.0,
        queued_prefill_tokens=vector.get("queued", 0.0),
        queued_prefill_requests=vector.get("queued_prompts", 0.0),
        queued_kv_tokens=vector.get("queued_kv", 0.0),
        queued_decode_requests=vector.get("queued_decodes", 0.0),
    )


def engine_of(vector: dict[str, Any]) -> EngineModel:
    """An engine that has learned the vector's planes, and its means."""
    model = RegressionModel(SampleParams())
    base = [(100, 5000), (200, 40_000), (300, 10_000), (400, 30_000), (50, 20_000)]
    for kind, a in (("mixed", 1.0), ("decode", 0.1)):
        if vector[kind] is not None:
            intercept, first, second = vector[kind]
            for x, kv in base:
                work = Work(x * a, 10, kv) if kind == "mixed" else Work(0, x * a, kv)
                model.tune(work, intercept + first * x * a + second * kv, 1)
    engine = EngineModel(model, vector["chunk"], 64)
    means = (engine.prompt, engine.length, engine.prefill)
    for mean, value in zip(means, vector["means"], strict=True):
        mean.values = deque([float(value)], maxlen=64)
    return engine


@vectors(LOAD["estimates"])
def test_estimates(vector: dict[str, Any]) -> None:
    engine, report = engine_of(vector), report_of(vector["report"])
    asked = engine.ttft_s if vector["ask"] == "ttft" else engine.itl_s
    seconds = asked(report, **vector["options"])
    assert seconds == pytest.approx(vector["seconds"], abs=1e-9), vector["why"]


@vectors(LOAD["full"])
def test_full(vector: dict[str, Any]) -> None:
    engine, reports = engine_of(vector), [report_of(report) for report in vector["reports"]]
    rule = FullRule(Targets(*vector["targets"]), vector["f"], vector["kv_tokens"])
    found = {
        "by_ttft": ttft_size(engine, reports, vector["workers"], rule),
        "by_itl": itl_size(engine, reports, vector["workers"], rule),
        "wanted": full_size(engine, reports, vector["workers"], rule),
    }
    assert found == {key: vector[key] for key in found}, vector["why"]


@vectors(LOAD["feeding"])
def test_feeding(vector: dict[str, Any]) -> None:
    snapshot = snapshot_of(2, **vector["snapshot"])
    assert kv_use(snapshot, 60.0, 100_000) == pytest.approx(vector["kv_use"]), vector["why"]
    report = forward_pass(snapshot, 60.0, 100_000)
    found = (
        None
        if report is None
        else [
            report.work.prefill_tokens,
            report.work.decode_requests,
            report.work.decode_kv_tokens,
            report.prefill_requests,
            report.seconds,
            report.queued_prefill_tokens,
            report.queued_prefill_requests,
        ]
    )
    assert found == pytest.approx(vector["report"]), vector["why"]


@vectors(LOAD["histories"])
def test_load_history(vector: dict[str, Any]) -> None:
    """Prompts of 200 tokens, KV caches of 100,000."""
    params = DynamoLoadParams(vector.get("target", "throughput"), vector.get("interval_s", 5.0))
    site = site_of(limits=vector.get("limits", (1, 12)), tick_s=vector.get("tick_s", 5.0))
    controller = params.make(site, seed=0)
    settings = GatewaySettings(vector["start"], 7)
    sizes = []
    for look in vector["looks"]:
        snapshot = snapshot_of(
            settings.replicas,
            replicas_ready=look.get("ready", settings.replicas),
            kv_usage=look["kv_usage"],
            waiting=look.get("waiting", 0),
            samples=600.0,
            prompt_token_rate_tps=2000.0,
            output_token_rate_tps=1000.0,
        )
        settings = controller.decide(snapshot, settings)
        sizes.append(settings.replicas)
    assert sizes == vector["sizes"], vector["why"]
    assert settings.threshold_steps == 7
