"""A controller that is saved and restored half way decides as one that ran through."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepilot.agents.baselines.hpa import HpaParams, MetricTarget
from gatepilot.agents.baselines.hpa_behavior import HpaBehavior
from gatepilot.agents.baselines.registry import ControllerParams, controller_names, make_controller
from gatepilot.agents.policy import Controller, Remembering
from gatepilot.envs.schema.settings import GatewaySettings, Limits
from gatepilot.envs.schema.snapshot import MetricsSnapshot

from .looks import random_snapshot
from .suggesting import site

LIMITS = Limits(1, 12)
OUTSTANDING = (MetricTarget("outstanding", 4.0),)


def made(name: str, params: ControllerParams | None, seed: int = 7) -> Controller:
    return make_controller(name, site(LIMITS, 5.0), params=params, seed=seed)


def decided(controller: Controller, loads: list[float], settings: GatewaySettings) -> list[object]:
    found: list[object] = []
    for load in loads:
        snapshot = MetricsSnapshot(
            replicas_requested=settings.replicas,
            breaker_threshold=settings.threshold,
            replicas_ready=settings.replicas,
            replicas_starting=0.0,
            cpu_utilization=min(1.0, load / 40),
            running=load,
            waiting=load / 2,
        )
        settings = controller.decide(snapshot, settings)
        found.append(settings)
    return found


@pytest.mark.parametrize("name", [*controller_names(), "hpa@unit", "random@unit"])
@pytest.mark.parametrize("half", [0, 1, 40])
def test_every_controller_goes_on_where_another_stopped(name: str, half: int) -> None:
    loads = np.abs(20 + 20 * np.sin(np.arange(120) / 9)).tolist()
    start = GatewaySettings(4)
    whole = decided(made(name, None), loads, start)
    first, second = made(name, None), made(name, None, seed=8)
    before = decided(first, loads[:half], start)
    if isinstance(first, Remembering):
        assert isinstance(second, Remembering)
        second.restore(json.loads(json.dumps(first.saved())))
    last = before[-1] if before else start
    assert isinstance(last, GatewaySettings)
    assert before + decided(second, loads[half:], last) == whole


@pytest.mark.parametrize("name", controller_names())
@pytest.mark.parametrize("half", [1, 37, 150])
def test_every_controller_goes_on_after_whatever_it_has_seen(name: str, half: int) -> None:
    def run(
        controller: Controller, looks: list[MetricsSnapshot], settings: GatewaySettings
    ) -> list[GatewaySettings]:
        found = []
        for look in looks:
            settings = controller.decide(look, settings)
            found.append(settings)
        return found

    generator = np.random.default_rng(half)
    looks = [random_snapshot(generator) for _ in range(300)]
    start = GatewaySettings(4, 10, 500)
    whole = run(made(name, None), looks, start)
    first, second = made(name, None), made(name, None, seed=8)
    before = run(first, looks[:half], start)
    if isinstance(first, Remembering):
        assert isinstance(second, Remembering)
        second.restore(json.loads(json.dumps(first.saved())))
        assert second.saved() == first.saved()
    assert before + run(second, looks[half:], before[-1]) == whole


@given(
    loads=st.lists(st.floats(0, 100), min_size=2, max_size=90),
    half=st.integers(0, 89),
    has_behavior=st.booleans(),
)
def test_an_hpa_remembers_all_that_it_needs(
    loads: list[float], half: int, has_behavior: bool
) -> None:
    behavior = HpaBehavior() if has_behavior else None
    params = HpaParams(metrics=OUTSTANDING, behavior=behavior, sync_s=10.0)
    start = GatewaySettings(4)
    whole = decided(made("hpa", params), loads, start)
    first, second = made("hpa", params), made("hpa", params)
    before = decided(first, loads[:half], start)
    assert isinstance(first, Remembering)
    assert isinstance(second, Remembering)
    second.restore(json.loads(json.dumps(first.saved())))
    assert second.saved() == first.saved()
    last = before[-1] if before else start
    assert isinstance(last, GatewaySettings)
    assert before + decided(second, loads[half:], last) == whole


def test_what_has_no_state_says_so_by_having_no_memory() -> None:
    forgetful = [
        name for name in controller_names() if not isinstance(made(name, None), Remembering)
    ]
    assert forgetful == [
        "adaptive_limiter",
        "always_max",
        "always_open",
        "always_shed",
        "composite_score",
        "composite_score_mended",
        "do_nothing",
        "fixed",
        "litellm",
    ]
