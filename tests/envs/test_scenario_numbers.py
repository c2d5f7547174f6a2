"""Numbers of a scenario: none is so large or small that it overflows, or that a run never ends."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from gatepilot.envs.scenario import Scenario, ScenarioError, load_scenario, parse_scenario

TOO_MUCH = 10**22
"""Beyond 64 bits."""


def content(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "name": "x",
        "workload": {"model": "servegen-tenants", "to_s": 40_000.0, "max_prompt_tokens": 5000},
        "profile": "llama-3.1-8b-bf16-l40s-tp1-vllm-kernel",
        "faults": [{"kind": "brown_out", "error_share": [0, 1], "duration_s": 5, "start_s": 5}],
    } | changes


def numbers_of(kind: type, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of all numbers of a dataclass and of those within it."""
    for name, hint in get_type_hints(kind, include_extras=True).items():
        for part in (hint, *get_args(hint)):
            inner = get_args(part)[0] if get_origin(part) is Annotated else part
            if dataclasses.is_dataclass(inner):
                yield from numbers_of(inner, (*path, name))  # type: ignore[arg-type]
            elif inner in (int, float):
                yield (*path, name)
                break


NUMBERS = [path for path in numbers_of(Scenario) if path[0] != "faults"]
FAULT_NUMBERS = [path for path in numbers_of(Scenario) if path[0] == "faults"]


def changed(path: tuple[str, ...], value: object) -> dict[str, Any]:
    whole = content()
    place: Any = whole
    for key in path[:-1]:
        place = place[0] if isinstance(place, list) else place.setdefault(key, {})
    place[path[-1]] = value
    return whole


def test_all_numbers_are_found() -> None:
    assert {("gateway", "limits", "burst"), ("cluster", "kv_blocks"), ("control", "tick_s")} <= {
        *NUMBERS
    }
    assert len(NUMBERS) > 50


@pytest.mark.parametrize("value", [TOO_MUCH, float(TOO_MUCH), -1])
@pytest.mark.parametrize("path", NUMBERS, ids=".".join)
def test_every_number_has_bounds(path: tuple[str, ...], value: float) -> None:
    with pytest.raises(ScenarioError, match=rf"^f: {re.escape('.'.join(path))}: .*should be"):
        parse_scenario(changed(path, value), where="f")


@pytest.mark.parametrize("key", ["duration_s", "start_s", "mean_interval_s", "period_s", "delay_s"])
def test_every_time_of_a_fault_has_bounds(key: str) -> None:
    assert ("faults", key) in FAULT_NUMBERS
    fault = content()["faults"][0] | {key: TOO_MUCH}
    with pytest.raises(ScenarioError, match=rf"^f: faults.0.{key}: {TOO_MUCH} should be less"):
        parse_scenario(content(faults=[fault]), where="f")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gateway": {"breaker_interval_s": 5e-324}}, "gateway.breaker_interval_s: 5e-324 should"),
        ({"gateway": {"limits": {"interval_s": 1e-9}}}, "gateway.limits.interval_s: 1e-09 should"),
        ({"telemetry": {"scrape_interval_s": 1e-320}}, "telemetry.scrape_interval_s: 1e-320"),
        (
            {"telemetry": {"scrape_interval_s": 0.01, "window_s": 3600.0}},
            "telemetry.window_s: 3600.0 must not exceed 100,000 times scrape_interval_s (0.01)",
        ),
        ({"control": {"warmup_s": 1e15}}, "control.warmup_s: 1000000000000000.0 should be less"),
        ({"gateway": {"request_timeout_s": 1e9}}, "gateway.request_timeout_s: 1000000000.0 should"),
    ],
)
def test_what_would_never_end_or_not_fit(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=rf"^f: {re.escape(message)}"):
        parse_scenario(content(**changes), where="f")


def test_numbers_far_beyond_any_plant_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_text(
        "name: large\n"
        "profile: llama-3.1-8b-bf16-l40s-tp1-vllm-kernel\n"
        "workload: {model: servegen-tenants, to_s: 31536000, max_prompt_tokens: 100000}\n"
        "cluster: {max_replicas: 1000, max_num_seqs: 8192, chunk_tokens: 131072}\n"
        "gateway: {request_timeout_s: 86400, max_waiting: 1000000, max_ejection_s: 10000000,\n"
        "  breaker_interval_s: 0.1}\n"
        "telemetry: {scrape_interval_s: 0.1, window_s: 3600}\n"
        "control: {tick_s: 3600, warmup_s: 36000, episode_ticks: 100000}\n"
    )
    assert load_scenario(path).cluster.max_replicas == 1000


def test_more_requests_than_fit_into_memory() -> None:
    scenario = parse_scenario(
        content(workload={"model": "servegen-tenants", "to_s": 9e7, "max_prompt_tokens": 5000}),
        where="f",
    )
    with pytest.raises(ScenarioError, match=r"^x: workload\.rate_scale: 1 makes some .* requests"):
        scenario.requests("train", seed=0)
