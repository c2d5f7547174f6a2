"""The engine against `reference_plant` at the sizes and settings reference runs come in.

The small random workloads of `test_second_implementation` reach every rule; these reach the sizes:
profiles of real models, long prompts, batches of hundreds, many replicas, bursty arrivals, every
router, caches that are just too small.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from gatepilot.envs.sim.params import EngineParams
from gatepilot.envs.sim.router import ROUTERS
from gatepilot.envs.sim.whole_run import simulate

from .reference_plant import Rules, run
from .sim_kit import requests_of

STEPS = {
    "8b": (6.4209e-3, 0.0, 4.994e-8, 1.9603e-5),
    "32b": (13.9583e-3, 5.71e-5, 5.424e-8, 4.9019e-5),
    "70b": (16.5617e-3, 4.091e-5, 5.749e-8, 6.9303e-5),
}
"""Of the reference runs' index: base, per sequence, per context token, per prefill token; s."""


def draw(rng: random.Random) -> tuple[Rules, list[tuple[float, int, int]], int]:
    """Rules, requests and replicas as a run of another simulator may have them."""
    block_tokens = rng.choice([8, 16, 32, 64])
    longest_prompt, longest_output = rng.choice([(500, 300), (4000, 300), (8000, 800)])
    max_num_seqs = rng.choice([16, 64, 128, 256])
    least_blocks = 2 + (longest_prompt + longest_output) * 102 // (100 * block_tokens)
    rules = Rules(
        *STEPS[rng.choice(list(STEPS))],
        max_num_seqs=max_num_seqs,
        chunk_tokens=max(max_num_seqs, rng.choice([256, 512, 1024, 2048, 8192])),
        kv_blocks=rng.choice([20_000, least_blocks, 2 * least_blocks, 5 * least_blocks]),
        block_tokens=block_tokens,
        router=rng.choice([name for name in ROUTERS if name != "dynamic_weight"]),
    )
    replicas = rng.choice([1, 2, 4, 8, 16])
    n = rng.randint(60, 160)
    shape = rng.choice([1.0, 0.25, 4.0])  # Poisson, bursty, even
    mean_gap_s = rng.choice([0.02, 0.1, 0.4]) / replicas
    t, rows = 0.0, []
    for _ in range(n):
        t += rng.gammavariate(shape, mean_gap_s / shape)
        prompt = min(int(rng.lognormvariate(5.5, 1.2)) + 1, longest_prompt)
        output = min(int(rng.lognormvariate(4.5, 1.0)) + 1, longest_output)
        rows.append((t, prompt, output))
    return rules, rows, replicas


def check(rules: Rules, rows: list[tuple[float, int, int]], replicas: int) -> int:
    """Asserts equality request by request; returns the restarts.

    Where chance routes, the second implementation follows the engine's placement: what happens on
    the replicas is compared.
    """
    params = EngineParams(
        base_s=rules.base_s,
        per_seq_s=rules.per_seq_s,
        per_ctx_token_s=rules.per_ctx_token_s,
        per_prefill_token_s=rules.per_prefill_token_s,
        max_num_seqs=rules.max_num_seqs,
        chunk_tokens=rules.chunk_tokens,
        kv_blocks=rules.kv_blocks,
        block_tokens=rules.block_tokens,
        router=rules.router,
    )
    found = simulate(requests_of(rows), params, replicas=replicas, seed=5).outcomes
    by_chance = rules.router in {"random", "least_outstanding"}
    groups = [(list(range(len(rows))), replicas)]
    if by_chance:
        groups = [(np.flatnonzero(found.replica == r).tolist(), 1) for r in range(replicas)]
        assert sum(len(members) for members, _ in groups) == len(rows)
    restarts = 0
    for members, size in groups:
        expected, _ = run(rules, [rows[i] for i in members], size)
        if not by_chance:
            assert found.replica.tolist() == [q.replica for q in expected]
        assert found.restarts[members].tolist() == [q.restarts for q in expected]
        for key in ("ttft_s", "e2e_s"):
            theirs = [getattr(q, key) for q in expected]
            np.testing.assert_allclose(getattr(found, key)[members], theirs, rtol=0, atol=1e-7)
        restarts += sum(q.restarts for q in expected)
    return restarts


@pytest.mark.parametrize("seed", range(6))
def test_equal_at_the_sizes_of_real_runs(seed: int) -> None:
    check(*draw(random.Random(f"shape {seed}")))  # noqa: S311


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_equal_on_three_hundred_of_them_and_every_setting_is_reached() -> None:
    seen: set[tuple[str, object]] = set()
    evicted = 0
    for seed in range(300):
        rules, rows, replicas = draw(random.Random(f"shape {seed}"))  # noqa: S311
        evicted += check(rules, rows, replicas) > 0
        settings = ("router", "block_tokens", "chunk_tokens", "max_num_seqs")
        seen |= {(name, getattr(rules, name)) for name in settings} | {("replicas", replicas)}
    assert evicted > 30
    assert len(seen) == 4 + 4 + 5 + 4 + 5
