"""What is refused at load is what the engine could never serve, and nothing more."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from gatepilot.envs.episodes import engine_params
from gatepilot.envs.profiles.profile import load_profile
from gatepilot.envs.scenario import ClusterSpec, load_scenario
from gatepilot.envs.scenario_checks import WATERMARK, check_prompt
from gatepilot.envs.sim.outcomes import ERROR, OK
from gatepilot.envs.sim.params import EngineParams
from gatepilot.envs.sim.whole_run import simulate
from gatepilot.envs.workload.request import Requests

PROFILE = load_profile("llama-3.1-8b-bf16-l40s-tp1-vllm-kernel")


@pytest.mark.parametrize(
    ("kv_blocks", "longest"),
    [(1, 15), (99, 99 * 16 - 1), (100, 99 * 16 - 1), (313, 310 * 16 - 1)],
)
@pytest.mark.timeout(60)
def test_the_longest_prompt_is_the_engine_s(kv_blocks: int, longest: int) -> None:
    cluster = ClusterSpec(kv_blocks=kv_blocks)
    check_prompt(longest, cluster, PROFILE)
    with pytest.raises(ValueError, match=rf"^workload.max_prompt_tokens: .*at most {longest}\)"):
        check_prompt(longest + 1, cluster, PROFILE)
    one = np.ones(2, np.int32)
    requests = Requests(
        np.array([0.0, 100.0]), np.array([longest, longest + 1], np.int32), one, 200.0
    )
    full = engine_params(load_scenario("demo"))
    params = EngineParams(
        base_s=full.base_s,
        per_seq_s=full.per_seq_s,
        per_ctx_token_s=full.per_ctx_token_s,
        per_prefill_token_s=full.per_prefill_token_s,
        kv_blocks=kv_blocks,
    )
    found = simulate(requests, params, replicas=1).outcomes
    assert found.status.tolist() == [OK, ERROR]


def test_the_watermark_is_the_engine_s() -> None:
    defaults = {field.name: field.default for field in dataclasses.fields(EngineParams)}
    assert defaults["watermark"] == WATERMARK
