"""Models that do not fit on their GPUs."""

from typing import Any

import pytest

from gatepilot.envs.profiles.memory import memory_problem
from gatepilot.envs.profiles.profile import Profile, load_profile, parse_profile, profile_ids

STEP = {
    "base_ms": 10.0,
    "per_seq_ms": 0.1,
    "per_1k_ctx_tokens_ms": 0.05,
    "per_prefill_token_ms": 0.02,
}
GIB = 2**30


def profile(gpus: int = 1, **memory: Any) -> Profile:  # noqa: ANN401
    content = {"step": STEP, "gpus_per_replica": gpus, "memory": memory}
    return parse_profile(content, where="f", name="n")


@pytest.mark.parametrize("name", profile_ids())
def test_the_catalogue_fits(name: str) -> None:
    assert memory_problem(load_profile(name)) is None


@pytest.mark.parametrize(
    "memory",
    [
        {},
        {"weights_gib_per_gpu": 500},
        {"vram_gib_per_gpu": 1},
        {"weights_gib_per_gpu": 70, "vram_gib_per_gpu": 80, "kv_capacity_tokens": 10**9},
    ],
)
def test_nothing_is_said_where_memory_is_not_stated(memory: dict[str, Any]) -> None:
    problem = memory_problem(profile(**memory))
    assert problem is None


def test_weights_larger_than_the_gpus() -> None:
    problem = memory_problem(profile(weights_gib_per_gpu=131.4, vram_gib_per_gpu=80))
    assert problem is not None
    assert problem.startswith("memory.weights_gib_per_gpu: weights of 131.4 GiB do not fit into")
    assert "the 80 GiB of its 1 GPU;" in problem
    assert memory_problem(profile(2, weights_gib_per_gpu=65.7, vram_gib_per_gpu=80)) is None


def test_no_room_for_a_cache() -> None:
    # 0.9 x 80 - 2.7 = 69.3 GiB can be used
    assert memory_problem(profile(weights_gib_per_gpu=69.2, vram_gib_per_gpu=80)) is None
    problem = memory_problem(profile(weights_gib_per_gpu=69.3, vram_gib_per_gpu=80))
    assert problem is not None
    assert "no room for a KV cache in the 80 GiB of its 1 GPU (90% less 2.7 GiB" in problem
    seen = {"kv_capacity_tokens": 1000, "kv_bytes_per_token": GIB // 1000}
    assert memory_problem(profile(weights_gib_per_gpu=75, vram_gib_per_gpu=80, **seen)) is None


def test_a_cache_larger_than_what_is_left() -> None:
    memory = {
        "weights_gib_per_gpu": 30,
        "vram_gib_per_gpu": 80,
        "kv_bytes_per_token": GIB // 1024,
        "kv_capacity_tokens": 50 * 1024,
    }
    assert memory_problem(profile(**memory)) is None
    problem = memory_problem(profile(**{**memory, "kv_capacity_tokens": 50 * 1024 + 1}))
    assert problem is not None
    assert problem.startswith("memory.kv_capacity_tokens: 51,201 tokens take 50 GiB and weights")
    assert problem.endswith("expected at most 51,200 tokens")


def test_a_cache_that_a_scenario_asks_for() -> None:
    memory = {
        "weights_gib_per_gpu": 30,
        "vram_gib_per_gpu": 80,
        "kv_bytes_per_token": GIB // 1024,
        "kv_capacity_tokens": 1024,
    }
    assert memory_problem(profile(**memory), kv_tokens=50 * 1024) is None
    problem = memory_problem(profile(**memory), kv_tokens=60 * 1024)
    assert problem is not None
    assert problem.startswith("KV cache: 61,440 tokens take 60 GiB")
