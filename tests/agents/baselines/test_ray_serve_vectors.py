"""Golden vectors of Ray Serve's policy, worked out by hand from the documented rule."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepilot.agents.baselines.ray_serve import RayServeParams
from gatepilot.agents.baselines.ray_serve_policy import (
    DelayCounter,
    Delays,
    Deployment,
    Gains,
    Policy,
)
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import Limits

from .loads import sizes_under

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("ray_serve_vectors.json").read_text(encoding="utf-8")
)


def vectors(group: str) -> pytest.MarkDecorator:
    cases = VECTORS[group]
    return pytest.mark.parametrize("vector", cases, ids=[case["name"] for case in cases])


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 80


@vectors("wishes")
def test_wish(vector: dict[str, Any]) -> None:
    """Without delays, so that each wish is taken."""
    policy = Policy(vector["target"], Gains(*vector["factors"]), Delays(0.0, 0.0))
    deployment = Deployment(vector["running"], vector["asked"], *vector["bounds"])
    wish = policy.decided(vector["total"], deployment, DelayCounter(), 0.1)
    assert wish == vector["wish"], vector["why"]


@vectors("counters")
def test_counter(vector: dict[str, Any]) -> None:
    counter, asked, found = DelayCounter(), vector["start"], []
    for wish in vector["wishes"]:
        asked = counter.delayed(wish, asked, Delays(*vector["delays_s"]), vector["loop_s"])
        found.append(asked)
    assert found == vector["asked"], vector["why"]


@vectors("histories")
def test_history(vector: dict[str, Any]) -> None:
    """One request per replica, one sample, no delays and factors of 1 unless they are given."""
    up_factor, down_factor = vector.get("factors", (1.0, 1.0))
    params = RayServeParams(
        vector.get("target", 1.0),
        up_factor,
        down_factor,
        vector.get("up", 0.0),
        vector.get("down", 0.0),
        vector.get("look_back", 15.0),
        vector.get("aggregation", "mean"),
    )
    site = Site(Limits(*vector.get("limits", (1, 100))), vector.get("tick_s", 15))
    controller = params.make(site, seed=0)
    sizes = sizes_under(controller, vector["outstanding"], vector["start"], vector.get("ready"))
    assert sizes == vector["sizes"], vector["why"]
