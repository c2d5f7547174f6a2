"""Golden vectors of KEDA, worked out by hand from the documented rule."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepilot.agents.baselines.hpa_behavior import HpaBehavior
from gatepilot.agents.baselines.keda import KedaParams
from gatepilot.agents.baselines.keda_activation import (
    Activation,
    Activity,
    Fallback,
    Poll,
    SourceHealth,
    activated_size,
)
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import Limits

from .loads import sizes_under

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("keda_vectors.json").read_text(encoding="utf-8")
)


def vectors(group: str) -> pytest.MarkDecorator:
    cases = VECTORS[group]
    return pytest.mark.parametrize("vector", cases, ids=[case["name"] for case in cases])


def fallback_of(vector: dict[str, Any]) -> Fallback | None:
    return Fallback(*vector["fallback"]) if vector.get("fallback") else None


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 70


@vectors("activation")
def test_activation(vector: dict[str, Any]) -> None:
    replicas = vector["fallback_replicas"]
    activation = Activation(
        vector["min_replicas"],
        vector["cooldown_s"],
        vector["initial_cooldown_s"],
        None if replicas is None else Fallback(replicas),
    )
    activity = Activity(0.0, vector["last_active_s"])
    poll = Poll(vector["now_s"], vector["is_active"], vector["has_failed"])
    size = activated_size(vector["current"], poll, activity, activation)
    assert size == vector["size"], vector["why"]
    assert activity.last_active_s == vector["remembered_s"]


@vectors("fallback")
def test_fallback(vector: dict[str, Any]) -> None:
    health = SourceHealth()
    totals = [
        health.total_milli(answer, vector["current"], vector["target_milli"], fallback_of(vector))
        for answer in vector["answers_milli"]
    ]
    assert totals == vector["totals_milli"], vector["why"]


@vectors("histories")
def test_history(vector: dict[str, Any]) -> None:
    """The target is one request per replica unless it is given."""
    params = KedaParams(
        vector.get("target", 1.0),
        vector.get("activation_target", 0.0),
        has_cached_metrics=vector.get("cached", False),
        fallback=fallback_of(vector),
        behavior=HpaBehavior() if vector.get("behavior") else None,
    )
    site = Site(Limits(*vector.get("limits", (1, 32))), vector.get("tick_s", 15))
    sizes = sizes_under(params.make(site, seed=0), vector["outstanding"], vector["start"])
    assert sizes == vector["sizes"], vector["why"]
