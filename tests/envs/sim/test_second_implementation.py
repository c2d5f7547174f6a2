"""The engine against `reference_plant`, request by request, on small random workloads."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.envs.sim.params import UNLIMITED_BLOCKS, EngineParams
from gatepilot.envs.sim.whole_run import simulate

from .reference_plant import Request, Rules, run
from .sim_kit import STATUSES, Gateway, requests_of


@dataclass(frozen=True)
class Case:
    rules: Rules
    requests: list[tuple[float, int, int]]
    replicas: int


def draw_rules(rng: random.Random, *, exact: bool, most_tokens: int) -> Rules:
    """Small caches, small budgets, short timeouts.

    `exact`: all times are sums of powers of two: boundaries, arrivals and deadlines coincide.
    """
    if exact:
        base_s, per_seq_s = rng.randint(1, 8) / 64, rng.choice([0, 1, 3]) / 1024
        per_ctx_s, per_prefill_s = rng.choice([0, 1, 2]) / 2**16, rng.choice([0, 1, 5]) / 2**12
        timeout_s = rng.choice([math.inf, rng.randint(1, 200) / 64])
    else:
        base_s, per_seq_s = rng.uniform(1e-3, 0.05), rng.choice([0, rng.uniform(0, 2e-3)])
        per_ctx_s = rng.choice([0, rng.uniform(0, 1e-4)])
        per_prefill_s = rng.choice([0, rng.uniform(0, 1e-3)])
        timeout_s = rng.choice([math.inf, rng.uniform(0.01, 3)])
    # powers of a share have no exact binary form: experts only at arbitrary times
    experts_s = 0.0 if exact else rng.choice([0.0, rng.uniform(0, 0.05)])
    block_tokens = rng.choice([1, 2, 4, 16])
    max_num_seqs = rng.choice([1, 2, 3, 5, 8])
    kv_blocks = [UNLIMITED_BLOCKS, 128, max(2, 3 * most_tokens // block_tokens)]
    kv_blocks.append(max(2, most_tokens // block_tokens + rng.randint(0, 6)))
    return Rules(
        base_s,
        per_seq_s,
        per_ctx_s,
        per_prefill_s,
        max_num_seqs=max_num_seqs,
        chunk_tokens=max_num_seqs + rng.choice([0, 1, 3, 10, 60]),
        kv_blocks=rng.choice(kv_blocks),
        block_tokens=block_tokens,
        router=rng.choice(["round_robin", "fewest_waiting"]),
        timeout_s=timeout_s,
        experts_s=experts_s,
        expert_share=rng.uniform(0, 0.5),
    )


def draw_case(rng: random.Random, *, exact: bool) -> Case:
    most_tokens = rng.choice([6, 20, 60])
    rules = draw_rules(rng, exact=exact, most_tokens=most_tokens)
    n = rng.randint(1, 25)
    if exact:
        span = rng.choice([1, 20, 200])
        arrivals = sorted(rng.randint(0, span) / 64 for _ in range(n))
    else:
        span_s = rng.choice([0.01, 0.5, 5.0])
        arrivals = sorted(rng.uniform(0, span_s) for _ in range(n))
    rows = []
    for arrival_s in arrivals:
        output = 1 if rng.random() < 0.15 else rng.randint(1, most_tokens)
        rows.append((arrival_s, rng.randint(1, most_tokens), output))
    return Case(rules, rows, rng.randint(1, 4))


def check(case: Case) -> list[Request]:
    """Asserts that both give the same for every request; returns what the second one found."""
    expected, _ = run(case.rules, case.requests, case.replicas)
    params = engine_params(case.rules)
    found = simulate(requests_of(case.requests), params, replicas=case.replicas).outcomes
    assert [STATUSES[code] for code in found.status] == [q.status for q in expected]
    assert found.replica.tolist() == [q.replica for q in expected]
    assert found.restarts.tolist() == [q.restarts for q in expected]
    np.testing.assert_allclose(found.ttft_s, [q.ttft_s for q in expected], rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.e2e_s, [q.e2e_s for q in expected], rtol=0, atol=1e-9)
    return expected


def engine_params(rules: Rules) -> EngineParams:
    """The same rules for the engine."""
    return EngineParams(
        base_s=rules.base_s,
        per_seq_s=rules.per_seq_s,
        per_ctx_token_s=rules.per_ctx_token_s,
        per_prefill_token_s=rules.per_prefill_token_s,
        experts_s=rules.experts_s,
        expert_share=rules.expert_share,
        max_num_seqs=rules.max_num_seqs,
        chunk_tokens=rules.chunk_tokens,
        kv_blocks=rules.kv_blocks,
        block_tokens=rules.block_tokens,
        router=rules.router,
        request_timeout_s=rules.timeout_s,
    )


def check_tokens(case: Case) -> tuple[int, int]:
    """Asserts that each replica has counted the same tokens, whatever scrapes came in between.

    Returns:
        Output tokens of requests that did not end well, and tokens computed again.
    """
    expected, cluster = run(case.rules, case.requests, case.replicas)
    params = replace(engine_params(case.rules), scrape_interval_s=0.375)
    g = Gateway(case.requests, replicas=case.replicas, max_replicas=case.replicas, params=params)
    while g.counters["arrived"] < len(case.requests) or g.counters["outstanding"] > 0:
        g.tick(3.0)
    first = [q for q in expected if not math.isnan(q.ttft_s)]
    for r, replica in enumerate(cluster):
        prompts = sum(case.requests[q.row][1] for q in first if q.replica == r)
        assert g.places["prompt_tokens"][r] == prompts
        assert g.places["output_tokens"][r] == replica.output_tokens
    ok = [q for q in expected if q.status == "ok"]
    counted = sum(replica.output_tokens for replica in cluster)
    in_vain = counted - sum(case.requests[q.row][2] for q in ok)
    whole = sum(case.requests[q.row][1] for q in first) + counted - len(first)
    return in_vain, int(g.places["tokens"][: case.replicas].sum()) - whole


@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=True))
def test_equal_at_arbitrary_times(rng: random.Random) -> None:
    check(draw_case(rng, exact=False))


@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=True))
def test_equal_where_everything_coincides(rng: random.Random) -> None:
    check(draw_case(rng, exact=True))


@pytest.mark.parametrize("exact", [False, True])
def test_equal_tokens(exact: bool) -> None:
    """Prompts and outputs a replica: with timeouts in the middle of an answer and evictions."""
    cases = [draw_case(random.Random(seed), exact=exact) for seed in range(300)]  # noqa: S311
    in_vain, again = zip(*map(check_tokens, cases), strict=True)
    assert min(in_vain) == 0
    assert sum(n > 0 for n in in_vain) > 20
    assert sum(n > 0 for n in again) > 20


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("exact", [False, True])
def test_equal_on_twenty_thousand_workloads(exact: bool) -> None:
    for seed in range(10_000):
        check(draw_case(random.Random(f"{seed} {exact}"), exact=exact))  # noqa: S311


def test_the_random_workloads_reach_every_rule() -> None:
    """Evictions, also of the half-prefilled, timeouts before and after the first token, misfits."""
    statuses: dict[str | None, int] = {}
    evicted = half_prefilled = late = 0
    for seed in range(400):
        case = draw_case(random.Random(seed), exact=seed % 2 == 0)  # noqa: S311
        found, cluster = run(case.rules, case.requests, case.replicas)
        for q in found:
            statuses[q.status] = statuses.get(q.status, 0) + 1
            evicted += q.restarts
            late += q.status == "timeout" and not math.isnan(q.ttft_s)
        half_prefilled += sum(replica.evicted_half_prefilled for replica in cluster)
    assert statuses.keys() == {"ok", "error", "timeout"}
    assert min(statuses.values()) > 100
    assert evicted > 500
    assert half_prefilled > 20
    assert late > 100
