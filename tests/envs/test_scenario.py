"""Scenarios: the shipped suite, splits, one-line errors."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gatepilot.envs.episodes import engine_params
from gatepilot.envs.scenario import (
    SPLITS,
    ClusterSpec,
    Scenario,
    ScenarioError,
    Splits,
    load_scenario,
    parse_scenario,
    scenario_names,
)

PROFILE = "llama-3.1-70b-fp8-h100_sxm-tp2-vllm"


def content(**changes: object) -> dict[str, Any]:
    """A small valid scenario with changes."""
    good: dict[str, Any] = {
        "name": "x",
        "workload": {"model": "servegen-tenants", "to_s": 2400.0},
        "profile": PROFILE,
    }
    return {key: value for key, value in {**good, **changes}.items() if value is not None}


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Scenario]:
    """Writes a scenario to `bad.yaml` and reads it."""

    def write_and_read(**changes: object) -> Scenario:
        path = tmp_path / "bad.yaml"
        path.write_text(yaml.safe_dump(content(**changes)))
        return load_scenario(path)

    return write_and_read


@pytest.mark.parametrize("name", scenario_names())
def test_shipped_scenarios(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.name == name
    assert scenario.description
    assert scenario.workload.model is not None
    needed_s = scenario.control.warmup_s + scenario.control.episode_ticks * scenario.control.tick_s
    for split in SPLITS:
        from_s, to_s = scenario.split_range(split)
        assert to_s - from_s >= needed_s, split


@pytest.mark.parametrize(
    ("cluster", "start"),
    [
        (ClusterSpec(), 12),
        (ClusterSpec(max_replicas=10), 8),
        (ClusterSpec(min_replicas=3, max_replicas=3), 3),
        (ClusterSpec(initial_replicas=2), 2),
    ],
)
def test_an_episode_starts_with_three_quarters_unless_told(
    cluster: ClusterSpec, start: int
) -> None:
    assert cluster.start_replicas == start


def test_shipped_names() -> None:
    assert {"azure70b", "demo", "tenants70b", "tenants70b_faults"} <= set(scenario_names())


def test_tenants70b_as_agreed() -> None:
    scenario = load_scenario("tenants70b")
    assert scenario.workload.trace == "servegen-tenants-24h.parquet"
    assert scenario.workload.rate_scale == 6
    assert scenario.workload.max_prompt_tokens == 5000
    assert scenario.profile == PROFILE
    assert scenario.cluster.cold_start_s == 110
    assert (scenario.cluster.min_replicas, scenario.cluster.max_replicas) == (1, 16)
    hours = [tuple(x / 3600 for x in scenario.split_range(split)) for split in SPLITS]
    assert hours == [(0, 14), (14, 16), (16, 24)]
    assert not scenario.faults
    faulty = load_scenario("tenants70b_faults")
    assert {fault.kind for fault in faulty.faults} == {"replica_errors", "brown_out"}
    same = dataclasses.replace(
        faulty, name=scenario.name, description=scenario.description, faults=()
    )
    assert same == scenario


def test_default_splits_are_fractions_of_the_range() -> None:
    scenario = parse_scenario(
        content(workload={"model": "servegen-tenants", "from_s": 1000.0, "to_s": 3400.0}),
        where="f",
    )
    assert scenario.split_range("train") == pytest.approx((1000, 2400))
    assert scenario.split_range("validation") == pytest.approx((2400, 2600))
    assert scenario.split_range("test") == pytest.approx((2600, 3400))
    assert scenario.split_range(None) == (1000, 3400)
    assert scenario.split_range("train")[1] == scenario.split_range("validation")[0]
    with pytest.raises(ValueError, match="'tset' is none of train"):
        scenario.split_range("tset")


def test_the_models_span_is_the_range_where_none_is_given() -> None:
    scenario = parse_scenario(content(workload={"model": "servegen-tenants"}), where="f")
    assert scenario.range_s == (0, 86400)


def test_multiples_of_the_scrape_interval_may_have_decimals() -> None:
    scenario = parse_scenario(
        content(
            telemetry={"scrape_interval_s": 0.1, "window_s": 0.7},
            control={"tick_s": 0.3, "warmup_s": 0.0},
        ),
        where="f",
    )
    assert scenario.control.tick_s == 0.3


def test_round_trip() -> None:
    scenario = load_scenario("tenants70b_faults")
    assert parse_scenario(dataclasses.asdict(scenario), where="again") == scenario


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"cluster": {"max_replica": 3}},
            "bad.yaml: cluster.max_replica: unknown key; did you mean max_replicas?",
        ),
        ({"profle": "x"}, "bad.yaml: profle: unknown key; did you mean profile?"),
        ({"zzz": 1}, "bad.yaml: zzz: unknown key; known: name, workload, "),
        ({"profile": None}, "bad.yaml: profile: missing key"),
        (
            {"cluster": {"min_replicas": 5, "max_replicas": 3}},
            "bad.yaml: cluster.min_replicas: 5 must not exceed max_replicas (3)",
        ),
        (
            {"cluster": {"max_replicas": 3, "initial_replicas": 4}},
            "bad.yaml: cluster.initial_replicas: 4 must lie within 1 to 3",
        ),
        (
            {"cluster": {"max_replicas": 0}},
            "bad.yaml: cluster.max_replicas: 0 should be greater than or equal to 1",
        ),
        (
            {"cluster": {"max_replicas": "3"}},
            "bad.yaml: cluster.max_replicas: '3' should be a valid integer",
        ),
        ({"cluster": {"max_replicas": True}}, "bad.yaml: cluster.max_replicas: True should"),
        (
            {"cluster": {"max_num_seqs": 1024}},
            "bad.yaml: cluster.max_num_seqs: 1024 must not exceed chunk_tokens (512): each "
            "decoding sequence takes a token of an iteration; raise chunk_tokens to 1024 or more",
        ),
        (
            {"cluster": {"chunk_tokens": 10}},
            "bad.yaml: cluster.max_num_seqs: 128 must not exceed chunk_tokens (10)",
        ),
        (
            {"cluster": {"block_tokens": 500_000}},
            "bad.yaml: cluster.block_tokens: 500000 must not exceed the KV cache of a replica (",
        ),
        ({"cluster": 3}, "bad.yaml: cluster: 3 is not a mapping"),
        ({"cluster": None, "profile": "llama-70b"}, "bad.yaml: profile: llama-70b: unknown"),
        (
            {"workload": {"model": "servegen"}},
            "bad.yaml: workload.model: servegen: unknown workload model; did you mean servegen-",
        ),
        (
            {"gateway": {"router": "least_outstandin"}},
            "bad.yaml: gateway.router: 'least_outstandin' should be 'round_robin', 'random'",
        ),
        ({"gateway": {"threshold_steps": 20}}, "gateway.threshold_steps: 20 should be less"),
        ({"gateway": {"threshold_steps": 0}}, "gateway.threshold_steps: 0 should be greater"),
        ({"gateway": {"max_outstanding": -1}}, "gateway.max_outstanding: -1 should be"),
        ({"gateway": {"max_ejection_s": 1.0}}, "gateway.max_ejection_s: 1.0 must not be below"),
        ({"telemetry": {"window_s": 2.0}}, "telemetry.window_s: 2.0 must not be below"),
        ({"control": {"tick_s": float("nan")}}, "control.tick_s: nan should be a finite number"),
        ({"control": {"tick_s": 0}}, "control.tick_s: 0 should be greater than 0"),
        (
            {"control": {"tick_s": 12.0}},
            "control.tick_s: 12.0 must be a multiple of telemetry.scrape_interval_s (5.0)",
        ),
        ({"control": {"tick_s": 1e-10}}, "bad.yaml: control.tick_s: 1e-10 must be a multiple of"),
        ({"control": {"tick_s": 5e-324}}, "bad.yaml: control.tick_s: 5e-324 must be a multiple"),
        ({"control": {"warmup_s": 1e-10}}, "bad.yaml: control.warmup_s: 1e-10 must be a multiple"),
        ({"control": {"warmup_s": 61.0}}, "bad.yaml: control.warmup_s: 61.0 must be a multiple of"),
        ({"control": {"tick_s": 2.5}}, "bad.yaml: control.tick_s: 2.5 must be a multiple of"),
        (
            {"telemetry": {"window_s": 64.0, "scrape_interval_s": 8.0}},
            "control.tick_s: 15.0 must be a multiple of telemetry.scrape_interval_s (8.0)",
        ),
        (
            {"telemetry": {"window_s": 62.0}},
            "bad.yaml: telemetry.window_s: 62.0 must be a multiple",
        ),
        ({"workload": {}}, "bad.yaml: workload.trace: give a trace, a model, or both"),
        ({"workload": {"trace": "t.csv"}}, "bad.yaml: workload.to_s: needed where no model"),
        (
            {"workload": {"model": "servegen-tenants", "from_s": 9.0, "to_s": 9.0}},
            "bad.yaml: workload.to_s: 9.0 must lie after from_s (9.0)",
        ),
        (
            {"workload": {"model": "azure-conv-2023", "from_s": 9e6}},
            "bad.yaml: workload.from_s: 9000000.0 must lie before the workload's end (1751.0)",
        ),
        (
            {"workload": {"model": "servegen-tenants", "rate_scale": 0}},
            "bad.yaml: workload.rate_scale: 0 should be greater than 0",
        ),
        (
            {"splits": {"test": [1600, 2500]}},
            "bad.yaml: splits.test: [1600.0, 2500.0] lies outside the workload's [0.0, 2400.0]",
        ),
        ({"splits": {"test": [5, 5]}}, "bad.yaml: splits.test: [5.0, 5.0] must start before"),
        ({"splits": {"test": [5]}}, "bad.yaml: splits.test.1: missing key"),
        (
            {"splits": {"train": [0, 900], "validation": [800, 1000]}},
            "bad.yaml: splits.validation: [800.0, 1000.0] overlaps train [0.0, 900.0]",
        ),
        (
            {"splits": {"test": [1000, 1500]}},  # the default training range reaches to 1400
            "bad.yaml: splits.test: [1000.0, 1500.0] overlaps train [0.0, 1400.0]",
        ),
        ({"faults": {"kind": "brown_out"}}, "bad.yaml: faults: "),
        (
            {"faults": [{"kind": "brown_out", "error_share": [0.1, 0.2], "duration_s": 5}]},
            "bad.yaml: faults.0.start_s: give either start_s or mean_interval_s",
        ),
        (
            {
                "faults": [
                    {
                        "kind": "brown_out",
                        "error_share": [0.1, 0.2],
                        "duration_s": 5,
                        "start_s": 5,
                        "mean_interval_s": 5,
                    }
                ]
            },
            "bad.yaml: faults.0.start_s: give either start_s or mean_interval_s",
        ),
        (
            {
                "faults": [
                    {
                        "kind": "brown_out",
                        "error_share": [0.3, 0.2],
                        "duration_s": 5,
                        "start_s": 5,
                    }
                ]
            },
            "bad.yaml: faults.0.error_share: [0.3, 0.2] must be [lowest, highest]",
        ),
        (
            {
                "faults": [
                    {"kind": "brown_out", "error_share": [0, 1.5], "duration_s": 5, "start_s": 5}
                ]
            },
            "bad.yaml: faults.0.error_share.1: 1.5 should be less than or equal to 1",
        ),
        (
            {"faults": [{"kind": "brown_out", "error_share": [0, 1], "start": 5}]},
            "bad.yaml: faults.0.start: unknown key; did you mean start_s?",
        ),
    ],
)
def test_bad_scenarios(
    read: Callable[..., Scenario], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError, match=r"^[^\n]+$") as caught:
        read(**changes)
    assert message in str(caught.value)


def test_many_sequences_with_a_budget_for_them_and_no_warm_up(
    read: Callable[..., Scenario],
) -> None:
    cluster = {"max_num_seqs": 1024, "chunk_tokens": 1024}
    assert engine_params(read(cluster=cluster)).max_num_seqs == 1024


def test_an_episode_without_a_warm_up(read: Callable[..., Scenario]) -> None:
    assert read(control={"warmup_s": 0}).control.warmup_s == 0


def test_changes_in_code_are_checked_too() -> None:
    scenario = load_scenario("demo")
    with pytest.raises(ValueError, match="min_replicas: 99 must not exceed"):
        dataclasses.replace(scenario.cluster, min_replicas=99)
    with pytest.raises(ValueError, match="profile: none: unknown profile"):
        dataclasses.replace(scenario, profile="none")
    with pytest.raises(ValueError, match=r"splits\.test: .* lies outside"):
        dataclasses.replace(scenario, splits=Splits(test=(0.0, 1e6)))
    assert dataclasses.replace(scenario, cluster=ClusterSpec(max_replicas=9)).name == "demo"
