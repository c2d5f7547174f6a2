"""Golden vectors of AIBrix's APA and its cool-down, worked out by hand from the documented rule."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepilot.agents.baselines.aibrix_apa import AibrixApaParams
from gatepilot.agents.baselines.aibrix_pods import Cooldown
from gatepilot.agents.baselines.aibrix_replicas import (
    Recommendation,
    ScalingContext,
    apa_recommendation,
    guarded_replicas,
)
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import Limits

from .loads import sizes_under

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("aibrix_apa_vectors.json").read_text(encoding="utf-8")
)


def vectors(group: str) -> pytest.MarkDecorator:
    cases = VECTORS[group]
    return pytest.mark.parametrize("vector", cases, ids=[case["name"] for case in cases])


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 70


@vectors("recommendations")
def test_recommendation(vector: dict[str, Any]) -> None:
    (up, down), (grow, shrink) = vector["tolerances"], vector["rates"]
    context = ScalingContext(vector["target"], up, down, grow, shrink)
    found = apa_recommendation(vector["current"], vector["use"], context)
    assert found == Recommendation(vector["replicas"], vector["use"]), vector["why"]


@vectors("guard")
def test_guard(vector: dict[str, Any]) -> None:
    recommendation = Recommendation(vector["wanted"], vector["value"])
    context = ScalingContext(vector["target"])
    replicas = guarded_replicas("apa", recommendation, vector["current"], vector["ready"], context)
    assert replicas == vector["replicas"], vector["why"]


@vectors("cooldown")
def test_cooldown(vector: dict[str, Any]) -> None:
    cooldown, current, sizes = Cooldown(*vector["windows_s"]), vector["start"], []
    for i, wanted in enumerate(vector["wanted"]):
        current = cooldown.cooled(i * vector["tick_s"], wanted, current)
        sizes.append(current)
    assert sizes == vector["sizes"], vector["why"]


@vectors("histories")
def test_history(vector: dict[str, Any]) -> None:
    """The target is 10, one sample counts, and nothing cools down unless it is given."""
    params = AibrixApaParams(
        vector.get("target", 10.0),
        observe_window_s=vector.get("observe", 1.0),
        down_cooldown_s=vector.get("cooldown", 0.0),
    )
    site = Site(Limits(*vector.get("limits", (1, 100))), vector.get("tick_s", 10))
    controller = params.make(site, seed=0)
    sizes = sizes_under(controller, vector["outstanding"], vector["start"], vector.get("ready"))
    assert sizes == vector["sizes"], vector["why"]
