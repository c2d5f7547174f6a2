"""Golden vectors of AIBrix's KPA, worked out by hand from the documented rule."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepilot.agents.baselines.aibrix_kpa import AibrixKpaParams
from gatepilot.agents.baselines.aibrix_replicas import (
    Recommendation,
    ScalingContext,
    guarded_replicas,
    kpa_recommendation,
)
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import Limits

from .loads import sizes_under

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("aibrix_kpa_vectors.json").read_text(encoding="utf-8")
)


def vectors(group: str) -> pytest.MarkDecorator:
    cases = VECTORS[group]
    return pytest.mark.parametrize("vector", cases, ids=[case["name"] for case in cases])


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 60


@vectors("recommendations")
def test_recommendation(vector: dict[str, Any]) -> None:
    (up, down), (grow, shrink) = vector["tolerances"], vector["rates"]
    stable, panic = vector["averages"]
    context = ScalingContext(vector["target"], up, down, grow, shrink, vector["panic_threshold"])
    found = kpa_recommendation(vector["current"], stable, panic, context)
    assert found == Recommendation(vector["replicas"], vector["value"]), vector["why"]


@vectors("guard")
def test_guard(vector: dict[str, Any]) -> None:
    recommendation = Recommendation(vector["wanted"], vector["value"])
    context = ScalingContext(vector["target"])
    replicas = guarded_replicas("kpa", recommendation, vector["current"], vector["ready"], context)
    assert replicas == vector["replicas"], vector["why"]


@vectors("histories")
def test_history(vector: dict[str, Any]) -> None:
    """The target is 10, one sample counts, and nothing cools down unless it is given."""
    observe_s, panic_s = vector.get("windows", (1.0, 1.0))
    params = AibrixKpaParams(
        vector.get("target", 10.0),
        vector.get("source", "external"),
        observe_window_s=observe_s,
        panic_window_s=panic_s,
        down_cooldown_s=vector.get("cooldown", 0.0),
    )
    site = Site(Limits(*vector.get("limits", (1, 100))), vector.get("tick_s", 10))
    controller = params.make(site, seed=0)
    sizes = sizes_under(controller, vector["outstanding"], vector["start"], vector.get("ready"))
    assert sizes == vector["sizes"], vector["why"]
