"""Looks at a gateway that say what a test is about, and what a controller makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gatepilot.agents.policy import Controller
from gatepilot.envs.schema.settings import GatewaySettings
from gatepilot.envs.schema.snapshot import MetricsSnapshot

TOKEN_FIELDS = ("prompt_token_rate_tps", "output_token_rate_tps")
"""Tokens a second, prefilled and generated."""


def look(values: dict[str, Any] | None = None, **more: Any) -> MetricsSnapshot:  # noqa: ANN401
    """A snapshot of four replicas; `tokens` is the rate of all tokens."""
    found: dict[str, Any] = {"replicas_requested": 4.0, "breaker_threshold": 0.5}
    found |= {**(values or {}), **more}
    if (tokens := found.pop("tokens", None)) is not None:
        found |= dict.fromkeys(TOKEN_FIELDS, tokens / 2)
    return MetricsSnapshot(**found)


def played(
    controller: Controller, looks: Iterable[MetricsSnapshot], start: GatewaySettings
) -> list[GatewaySettings]:
    """What is in force after each look."""
    settings, found = start, []
    for one in looks:
        settings = controller.decide(one, settings)
        found.append(settings)
    return found


def limits(
    controller: Controller, looks: Iterable[MetricsSnapshot], start: int | None = None
) -> list[int | None]:
    """The admission limit after each look; replicas and threshold must not move."""
    settings = played(controller, looks, GatewaySettings(4, 7, start))
    assert {(one.replicas, one.threshold_steps) for one in settings} <= {(4, 7)}
    return [one.max_outstanding for one in settings]


def vectors_of(name: str) -> dict[str, list[dict[str, Any]]]:
    """The golden vectors of a controller, by group."""
    path = Path(__file__).with_name(f"{name}_vectors.json")
    found: dict[str, list[dict[str, Any]]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def each(cases: list[dict[str, Any]]) -> pytest.MarkDecorator:
    """One test a vector, under its name."""
    return pytest.mark.parametrize("vector", cases, ids=[case["name"] for case in cases])


def random_snapshot(generator: np.random.Generator) -> MetricsSnapshot:
    """A look with gaps, at a busy gateway or a quiet one, a faulty one or a sound one."""
    busy, faulty = generator.random(2)
    values = {
        "cpu_utilization": busy,
        "ttft_p95_s": 0.05 * 200**busy,
        "e2e_p95_s": 1.0 + 60 * busy,
        "error_rate": faulty if faulty > 0.5 else 0.02 * faulty,
        "replicas_ready": float(generator.integers(0, 9)),
        "replicas_starting": float(generator.integers(0, 3)),
        "vram_utilization": 0.5 + busy / 2,
        "request_rate_rps": 40 * busy,
        "running": float(generator.integers(0, 300)),
        "waiting": float(generator.integers(0, 100)),
        "kv_usage": busy,
        "samples": 60 * 40 * busy,
    }
    values |= {"prompt_tokens_p50": 500.0, "prompt_tokens_p95": 2000.0, "replicas_ejected": 0.0}
    values |= dict.fromkeys(TOKEN_FIELDS, 2e4 * busy * (faulty < 0.9))
    known = {name: float(v) for name, v in values.items() if generator.random() > 0.03}
    return MetricsSnapshot(replicas_requested=4, breaker_threshold=0.5, **known)
