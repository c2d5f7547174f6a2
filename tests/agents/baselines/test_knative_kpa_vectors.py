"""Golden vectors of Knative's autoscaler, worked out by hand from the documented rule."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepilot.agents.baselines.knative_buckets import Buckets
from gatepilot.agents.baselines.knative_kpa import KnativeKpaParams
from gatepilot.agents.baselines.knative_scale import DeciderSpec, Panic, desired_pods
from gatepilot.agents.baselines.knative_zero import Revision, Step, ZeroRules, zero_step
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import Limits

from .loads import sizes_under

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("knative_kpa_vectors.json").read_text(encoding="utf-8")
)


def vectors(group: str) -> pytest.MarkDecorator:
    cases = VECTORS[group]
    return pytest.mark.parametrize("vector", cases, ids=[case["name"] for case in cases])


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 100


@vectors("desired")
def test_desired(vector: dict[str, Any]) -> None:
    up, down = vector["rates"]
    spec = DeciderSpec(
        vector["target"],
        60.0,
        vector["panic_threshold"],
        up,
        down,
        vector["activation_scale"],
        vector["is_reachable"],
    )
    panic = Panic(vector["since_s"], vector["most_pods"])
    stable, panicking = vector["averages"]
    wish = desired_pods(panic, vector["now_s"], vector["ready"], (stable, panicking), spec)
    assert wish == vector["wish"], vector["why"]
    assert panic.since_s == vector["since_after_s"]


@vectors("averages")
def test_average(vector: dict[str, Any]) -> None:
    buckets = Buckets.of(vector["window_s"], vector["tick_s"])
    for tick, value in vector["writes"]:
        buckets.record(tick, value)
    assert buckets.average(vector["tick"]) == vector["average"], vector["why"]
    assert buckets.is_empty(vector["tick"]) == vector["is_empty"]


@vectors("histories")
def test_history(vector: dict[str, Any]) -> None:
    """The target is 10 requests per replica unless it is given; four ticks a stable window."""
    params = KnativeKpaParams(
        vector.get("concurrency", 10.0),
        vector.get("utilization", 1.0),
        panic_window_fraction=vector.get("fraction", 0.1),
        max_scale_up_rate=vector.get("up", 1000.0),
        scale_down_delay_s=vector.get("delay", 0.0),
    )
    site = Site(Limits(*vector.get("limits", (1, 100))), vector.get("tick_s", 15))
    controller = params.make(site, seed=0)
    sizes = sizes_under(controller, vector["outstanding"], vector["start"], vector.get("ready"))
    assert sizes == vector["sizes"], vector["why"]


@vectors("zero")
def test_zero(vector: dict[str, Any]) -> None:
    rules = ZeroRules(vector["is_enabled"], retention_s=vector["retention_s"])
    revision = Revision(
        vector["state"], vector["state_s"], vector["is_behind_activator"], vector["proxied_s"]
    )
    step = zero_step(vector["desired"], revision, rules)
    assert step == Step(vector["pods"], vector["is_applied"]), vector["why"]
