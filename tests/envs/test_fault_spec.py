"""Faults in a scenario's file: each kind has its keys, and what cannot be is refused at load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import yaml
from pydantic import TypeAdapter

from gatepilot.envs.episodes import (
    draw_faults,
    engine_params,
    most_faults,
    most_surge_copies,
)
from gatepilot.envs.fault_spec import METRIC_KINDS, FaultKind, FaultSpec
from gatepilot.envs.profiles.profile import load_profile
from gatepilot.envs.scenario import Scenario, ScenarioError, load_scenario
from gatepilot.envs.sim.faults import KINDS

PROFILE = "llama-3.1-8b-bf16-l40s-tp1-vllm-kernel"
PLAIN: dict[str, Any] = {
    "name": "bad",
    "profile": PROFILE,
    "workload": {"model": "servegen-tenants", "to_s": 40_000.0, "max_prompt_tokens": 5000},
    "control": {"episode_ticks": 60},
}
COMPLETE: dict[str, dict[str, Any]] = {
    "replica_errors": {"error_share": [0.1, 0.5], "duration_s": 60},
    "brown_out": {"error_share": [0.1, 0.5], "duration_s": 60},
    "slow_replica": {"factor": [2, 4], "duration_s": 60},
    "sick_replica": {"error_share": [0.1, 0.5], "factor": [2, 4], "duration_s": 60},
    "flapping": {"error_share": [0.1, 0.5], "period_s": 20, "duration_s": 60},
    "hang": {"duration_s": 60},
    "crash": {},
    "failed_start": {"duration_s": 60},
    "surge": {"factor": [1.5, 3], "duration_s": 60},
    "metrics_gap": {"duration_s": 60},
    "metrics_late": {"duration_s": 60, "delay_s": 10},
    "metrics_stale": {"duration_s": 60},
    "counter_reset": {},
}


def load(folder: Path, *faults: dict[str, Any], **changes: Any) -> Scenario:  # noqa: ANN401
    path = folder / "bad.yaml"
    path.write_text(yaml.safe_dump({**PLAIN, **changes, "faults": list(faults)}))
    return load_scenario(path)


def test_the_engine_knows_every_kind_that_is_not_of_the_metrics() -> None:
    assert set(get_args(FaultKind)) == {*KINDS, *METRIC_KINDS} == set(COMPLETE)


@pytest.mark.parametrize("kind", COMPLETE)
def test_each_kind_needs_its_keys_and_no_others(kind: str, tmp_path: Path) -> None:
    complete = {"kind": kind, "start_s": 30, **COMPLETE[kind]}
    assert load(tmp_path, complete).faults[0].kind == kind
    for key in COMPLETE[kind]:
        less = {k: v for k, v in complete.items() if k != key}
        with pytest.raises(ScenarioError, match=rf"^bad.yaml: faults.0.{key}: missing key, {kind}"):
            load(tmp_path, less)
    others = {"error_share": [0, 1], "factor": [1, 2], "period_s": 5, "delay_s": 5, "duration_s": 5}
    for key in others.keys() - COMPLETE[kind].keys():
        with pytest.raises(ScenarioError, match=rf"^bad.yaml: faults.0.{key}: {kind} takes "):
            load(tmp_path, complete | {key: others[key]})


@pytest.mark.parametrize(
    ("changes", "fault", "message"),
    [
        ({}, {"start_s": 900.0}, "faults.0.start_s: 900.0 lies after the episode's end (900.0 s)"),
        ({}, {"error_share": [0.1, 1.2]}, "faults.0.error_share.1: 1.2 should be less than or"),
        ({}, {"error_share": [0.5, 0.2]}, "faults.0.error_share: [0.5, 0.2] must be [lowest"),
        ({}, {"kind": "meteor"}, "faults.0.kind: 'meteor' should be "),
        ({}, {"duration_s": 0}, "faults.0.duration_s: 0 should be greater than or equal to 0.01"),
        (
            {"cluster": {"kv_blocks": 100}},
            {},
            "workload.max_prompt_tokens: a prompt of 5000 tokens is longer than the KV cache of a "
            "replica (1600 tokens)",
        ),
        (
            {"cluster": {"kv_blocks": 313}},  # three blocks stay free, one token is the answer's
            {},
            "workload.max_prompt_tokens: a prompt of 5000 tokens is longer than the KV cache of a "
            "replica (5008 tokens) lets in (at most 4959); leave longer ones out",
        ),
        ({"gateway": {"limits": {"rate_rps": 0}}}, {}, "gateway.limits.rate_rps: 0 should be"),
        (
            {"gateway": {"limits": {"error_adaptive": True}}},
            {},
            "gateway.limits.error_adaptive: needs rate_rps",
        ),
        ({"gateway": {"limits": {"rate": 5}}}, {}, "gateway.limits.rate: unknown key"),
        ({"gateway": {"panic_percent": 101}}, {}, "gateway.panic_percent: 101 should be less"),
        ({"cluster": {"start": "tepid"}}, {}, "cluster.start: 'tepid' should be "),
        (
            {"cluster": {"start": "warm", "cold_start_s": 5}},
            {},
            "cluster.cold_start_s: warm has the profile's times; give one",
        ),
        (
            {"cluster": {"kv_blocks": 1_000_000}},
            {},
            f"profile: {PROFILE}: KV cache: 16,000,000 tokens take ",
        ),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_file_key_and_reason(
    changes: dict[str, Any], fault: dict[str, Any], message: str, tmp_path: Path
) -> None:
    whole = {"kind": "brown_out", "start_s": 30, **COMPLETE["brown_out"], **fault}
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path, whole, **changes)
    assert str(caught.value).startswith(f"bad.yaml: {message}")


def test_a_prompt_in_a_trace_that_no_cache_can_hold_is_refused(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,1\n99.5,2000,1\n")
    workload = {"trace": str(trace), "to_s": 100.0}
    splits = {"train": [0, 30], "validation": [30, 60], "test": [60, 100]}
    scenario = load(tmp_path, workload=workload, splits=splits, cluster={"kv_blocks": 100})
    assert len(scenario.requests("train", seed=0)) == 1
    with pytest.raises(ScenarioError, match=r"^bad: workload.max_prompt_tokens: a prompt of 2000"):
        scenario.requests("test", seed=0)


def test_faults_are_drawn_within_their_bounds_and_their_room() -> None:
    plain = [{"kind": kind, "mean_interval_s": 100, **keys} for kind, keys in COMPLETE.items()]
    specs = TypeAdapter(tuple[FaultSpec, ...]).validate_json(json.dumps(plain))
    scenario = Scenario(
        name="many",
        workload=load_scenario("demo").workload,
        profile=PROFILE,
        faults=specs,
    )
    rng = np.random.default_rng(0)
    for _ in range(50):
        faults = draw_faults(scenario, 3600.0, rng)
        assert len(faults) <= most_faults(specs, 3600.0)
        assert {fault.kind for fault in faults} <= set(KINDS)
        starts = [fault.start_s for fault in faults]
        assert starts == sorted(starts)
        assert all(0 < start < 3600 for start in starts)
        for fault in faults:
            keys = COMPLETE[fault.kind]
            low, high = keys.get("error_share", (0.0, 0.0))
            assert low <= fault.error_share <= high
            low, high = keys.get("factor", (1.0, 1.0))
            assert low <= fault.factor <= high
            assert fault.end_s - fault.start_s == pytest.approx(keys.get("duration_s", 0.0))
    assert most_surge_copies(specs) == 2


CROWDED = [
    ({"kind": "crash", "mean_interval_s": 0.01}, "mean_interval_s: 0.01 makes up to 93,010 faults"),
    ({"kind": "hang", "mean_interval_s": 0.01, "duration_s": 0.02}, "mean_interval_s: 0.01 makes"),
    ({"kind": "counter_reset", "mean_interval_s": 0.04}, "mean_interval_s: 0.04 makes up to"),
    ({"kind": "crash", "mean_interval_s": 1e-4}, "mean_interval_s: 0.0001 should be greater"),
    ({"kind": "crash", "mean_interval_s": 5e-324}, "mean_interval_s: 5e-324 should be greater"),
    ({"kind": "hang", "mean_interval_s": 10, "duration_s": 1e-6}, "duration_s: 1e-06 should be"),
    ({"kind": "flapping", "start_s": 1, **COMPLETE["flapping"], "period_s": 1e-300}, "period_s: "),
]


@pytest.mark.parametrize(("fault", "message"), CROWDED)
def test_more_faults_than_an_episode_can_hold(
    fault: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError, match=rf"^bad.yaml: faults.1.{message}"):
        load(tmp_path, {"kind": "crash", "start_s": 30}, fault)


def test_a_run_longer_than_an_episode_may_be_too_crowded(tmp_path: Path) -> None:
    faults = load(tmp_path, {"kind": "crash", "mean_interval_s": 1}).faults
    assert 900 < most_faults(faults, 900.0) < 2 * 900
    with pytest.raises(ScenarioError, match=r"^faults\.0\.mean_interval_s: .* in 86400 s"):
        most_faults(faults, 86400.0)


def test_a_profile_larger_than_its_gpu_is_refused(tmp_path: Path) -> None:
    profile = tmp_path / "giant.json"
    step = {
        "base_ms": 5,
        "per_seq_ms": 0.1,
        "per_1k_ctx_tokens_ms": 0.1,
        "per_prefill_token_ms": 0.1,
    }
    memory = {"weights_gib_per_gpu": 130, "vram_gib_per_gpu": 80}
    profile.write_text(json.dumps({"step": step, "memory": memory}))
    with pytest.raises(ScenarioError, match=r"^bad.yaml: profile: .*weights of 130 GiB do not fit"):
        load(tmp_path, profile=str(profile))


@pytest.mark.parametrize("start", ["cold", "cached", "warm", "lazy"])
def test_the_way_a_replica_starts_is_the_profiles_time(start: str, tmp_path: Path) -> None:
    params = engine_params(load(tmp_path, cluster={"start": start}))
    times = load_profile(PROFILE).start_times
    expected = {
        "cold": (times.cold_s, 0.0),
        "cached": (times.cached_s, 0.0),
        "warm": (times.warm_s, 0.0),
        "lazy": (times.cached_s - times.lazy_ready_s, times.lazy_ready_s),
    }
    assert (params.cold_start_s, params.lazy_load_s) == pytest.approx(expected[start])
    assert times.warm_s < times.lazy_ready_s < times.cached_s < times.cold_s
