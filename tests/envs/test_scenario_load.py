"""Scenarios: the offered load of a split, from a trace or from the model that stands in."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gatepilot.envs.scenario import (
    SPLITS,
    Scenario,
    ScenarioError,
    WorkloadSpec,
    load_scenario,
)
from gatepilot.envs.workload.request import Requests

PROFILE = "llama-3.1-70b-fp8-h100_sxm-tp2-vllm"


def steady_trace(folder: Path) -> Path:
    """Two requests a second for 1,199.5 s; the prompt says when a request came."""
    arrival_s = np.arange(0, 1199.6, 0.5)
    table = {
        "arrival_s": arrival_s,
        "prompt_tokens": arrival_s.astype(int) + 1,
        "output_tokens": np.full(arrival_s.size, 3),
    }
    pq.write_table(pa.table(table), folder / "steady.parquet")
    return folder / "steady.parquet"


def steady_scenario(**workload: Any) -> Scenario:  # noqa: ANN401
    spec = {"trace": "steady.parquet", "to_s": 1200.0, **workload}
    return Scenario(name="steady", workload=WorkloadSpec(**spec), profile=PROFILE)


def test_split_first_then_superpose(tmp_path: Path) -> None:
    """No copy carries a request from one split into another, however far it is shifted."""
    steady_trace(tmp_path)
    scenario = steady_scenario(rate_scale=3.0)
    for split in SPLITS:
        requests = scenario.requests(split, seed=1, traces_dir=tmp_path)
        from_s, to_s = scenario.split_range(split)
        assert requests.span_s == pytest.approx(to_s - from_s)
        assert requests.mean_rate_rps == pytest.approx(6.0, rel=0.01)
        assert requests.prompt_tokens.min() >= np.floor(from_s) + 1
        assert requests.prompt_tokens.max() <= to_s + 1


def test_long_prompts_are_left_out_of_the_load(tmp_path: Path) -> None:
    steady_trace(tmp_path)
    requests = steady_scenario(max_prompt_tokens=300).requests(None, seed=1, traces_dir=tmp_path)
    assert len(requests) == 600
    assert requests.span_s == 1200


def test_same_seed_same_load(tmp_path: Path) -> None:
    steady_trace(tmp_path)
    scenario = steady_scenario(rate_scale=2.5)

    def load(seed: int) -> Requests:
        return scenario.requests("train", seed=seed, traces_dir=tmp_path)

    assert load(1).arrival_s.tobytes() == load(1).arrival_s.tobytes()
    assert load(1).arrival_s.tobytes() != load(2).arrival_s.tobytes()


def test_a_trace_by_path(tmp_path: Path) -> None:
    path = steady_trace(tmp_path)
    assert len(steady_scenario(trace=str(path)).requests(None, seed=0)) == 2400


def test_trace_problems_are_one_line(tmp_path: Path) -> None:
    steady_trace(tmp_path)
    with pytest.raises(ScenarioError, match=r"steady: workload\.to_s: 1300.0 lies after the tra"):
        steady_scenario(to_s=1300.0).requests("train", seed=0, traces_dir=tmp_path)
    with pytest.raises(ScenarioError, match=r"steady: workload\.trace: steady.parquet found nei"):
        steady_scenario().requests("train", seed=0, traces_dir=tmp_path / "elsewhere")
    (tmp_path / "steady.parquet").write_bytes(b"")
    with pytest.raises(ScenarioError, match=r"steady: workload\.trace: .*not a readable parquet"):
        steady_scenario().requests("train", seed=0, traces_dir=tmp_path)


def test_the_model_stands_in_for_an_absent_trace(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scenario = steady_scenario(trace="absent-once.parquet", model="servegen-tenants")
    with caplog.at_level(logging.WARNING):
        one = scenario.requests("train", seed=1, traces_dir=tmp_path)
        two = scenario.requests("train", seed=1, traces_dir=tmp_path)
    assert one.arrival_s.tobytes() == two.arrival_s.tobytes()
    assert one.span_s == 700
    said = [record.getMessage() for record in caplog.records]
    assert said == ["absent-once.parquet not found: sampling the model servegen-tenants instead"]


def test_a_model_alone_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    scenario = Scenario("x", WorkloadSpec(model="servegen-tenants", to_s=2400.0), PROFILE)
    with caplog.at_level(logging.WARNING):
        assert len(scenario.requests("test", seed=0)) > 0
    assert not caplog.records


def test_model_and_trace_offer_the_same_load(traces_dir: Path) -> None:
    scenario = load_scenario("tenants70b")
    for split in SPLITS:
        real = scenario.requests(split, seed=0, traces_dir=traces_dir)
        modelled = scenario.requests(split, seed=0)
        assert modelled.mean_rate_rps == pytest.approx(real.mean_rate_rps, rel=0.1), split
        assert real.prompt_tokens.max() <= 5000
        assert modelled.prompt_tokens.max() <= 5000
        ratio = modelled.prompt_tokens.mean() / real.prompt_tokens.mean()
        assert ratio == pytest.approx(1, abs=0.15), split
