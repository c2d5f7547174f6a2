"""Golden vectors of the Kubernetes HPA, worked out by hand from the documented rule."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gatepilot.agents.baselines.hpa import HpaParams, MetricTarget
from gatepilot.agents.baselines.hpa_behavior import HpaBehavior
from gatepilot.agents.baselines.hpa_replicas import (
    Pod,
    Tolerance,
    average_value_replicas,
    total_replicas,
    utilization_replicas,
)
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import GatewaySettings, Limits
from gatepilot.envs.schema.snapshot import MetricsSnapshot

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("hpa_vectors.json").read_text(encoding="utf-8")
)


def vectors(group: str) -> pytest.MarkDecorator:
    cases = VECTORS[group]
    return pytest.mark.parametrize("vector", cases, ids=[case["name"] for case in cases])


def pods_of(groups: list[tuple[int, str, int | None]]) -> list[Pod]:
    return [
        Pod(value, is_ready=state == "ready", is_pending=state == "pending")
        for count, state, value in groups
        for _ in range(count)
    ]


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 60


@vectors("utilization")
def test_utilization(vector: dict[str, Any]) -> None:
    pods = pods_of(vector["pods"])
    wanted = utilization_replicas(pods, vector["current"], vector["target_percent"], Tolerance())
    assert wanted == vector["wanted"], vector["why"]


@vectors("average_value")
def test_average_value(vector: dict[str, Any]) -> None:
    pods = pods_of(vector["pods"])
    wanted = average_value_replicas(pods, vector["current"], vector["target_milli"], Tolerance())
    assert wanted == vector["wanted"], vector["why"]


@vectors("total")
def test_total(vector: dict[str, Any]) -> None:
    wanted = total_replicas(
        vector["total_milli"], vector["current"], vector["target_milli"], Tolerance()
    )
    assert wanted == vector["wanted"], vector["why"]


@vectors("histories")
def test_history(vector: dict[str, Any]) -> None:
    """One outstanding request per replica is the target, so the total is the wanted size."""
    params = HpaParams(
        metrics=(MetricTarget("outstanding", 1.0),),
        behavior=HpaBehavior() if vector["behavior"] else None,
        sync_s=vector["sync_s"],
    )
    controller = params.make(Site(Limits(*vector["limits"]), vector["tick_s"]), seed=0)
    settings = GatewaySettings(vector["start"], 7)
    sizes = []
    for total in vector["totals"]:
        snapshot = MetricsSnapshot(
            replicas_requested=settings.replicas, breaker_threshold=0.35, running=total, waiting=0
        )
        settings = controller.decide(snapshot, settings)
        sizes.append(settings.replicas)
    assert sizes == vector["sizes"], vector["why"]
    assert replace(settings, replicas=1) == GatewaySettings(1, 7)
