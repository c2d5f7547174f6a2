"""What a testbed is to be: the load's length and rate, the replicas' numbers."""

from pathlib import Path

import numpy as np
import pytest

from gatepilot.envs.profiles.profile import load_profile
from gatepilot.experiments.testbed.plan import Wishes, planned
from gatepilot.experiments.testbed.step_engine import StepModel

from ..cli_kit import write_trace


def test_a_scenario_s_load_has_the_wanted_length_and_rate() -> None:
    plan = planned(Wishes(scenario="testbed", rate_rps=20.0, seconds=300.0))
    assert plan.requests is not None
    assert plan.requests.span_s == 300.0
    assert plan.requests.mean_rate_rps == pytest.approx(20.0, rel=0.02)
    assert plan.requests.prompt_tokens.max() <= 2500
    assert plan.replicas == 5


def test_without_a_rate_it_is_the_scenario_s_own_and_equal_seeds_give_equal_loads() -> None:
    plans = [planned(Wishes(scenario="testbed", seconds=60.0, seed=s)) for s in (3, 3, 4)]
    loads = [plan.requests for plan in plans]
    assert loads[0] is not None
    assert loads[1] is not None
    assert loads[2] is not None
    np.testing.assert_array_equal(loads[0].arrival_s, loads[1].arrival_s)
    assert len(loads[0]) != len(loads[2]) or (loads[0].arrival_s != loads[2].arrival_s).any()


def test_a_trace_is_replayed_as_it_is_or_thinned(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "two.csv")  # 400 requests, two a second
    whole = planned(Wishes(scenario="testbed", trace=trace))
    assert whole.requests is not None
    assert (len(whole.requests), whole.requests.span_s) == (400, 200.0)
    part = planned(Wishes(scenario="testbed", trace=trace, seconds=50.0, rate_rps=1.0))
    assert part.requests is not None
    assert part.requests.span_s == 50.0
    assert 30 <= len(part.requests) <= 70


def test_a_trace_is_found_in_the_traces_folder(tmp_path: Path) -> None:
    write_trace(tmp_path / "two.csv")
    plan = planned(Wishes(scenario="testbed", trace=Path("two.csv"), traces_dir=tmp_path))
    assert plan.requests is not None


def test_no_load_at_all() -> None:
    assert planned(Wishes(scenario="testbed", rate_rps=0.0)).requests is None


def test_replicas_have_the_profile_s_numbers() -> None:
    name = "llama-3.1-8b-bf16-a100_sxm-tp1-vllm-kernel"
    plan = planned(Wishes(scenario="testbed", profile=name, replicas=2, rate_rps=0.0))
    profile = load_profile(name)
    assert plan.model == name
    assert plan.step == StepModel(
        base_s=profile.base_s,
        per_seq_s=profile.per_seq_s,
        per_ctx_token_s=profile.per_ctx_token_s,
        per_prefill_token_s=profile.per_prefill_token_s,
        max_num_seqs=128,
        chunk_tokens=512,
        kv_blocks=445_153 // 16,
        block_tokens=16,
        watermark=0.01,
    )
    assert plan.cpu.used_s(10.0, 100, 1000) == pytest.approx(
        10 * profile.cpu.idle + 100 * profile.cpu.per_iteration_s + 1000 * profile.cpu.per_token_s
    )
