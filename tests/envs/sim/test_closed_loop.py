"""Clients in a closed loop: known answers, and the plant's second implementation in the loop."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gatepilot.envs.sim.closed_loop import ClosedLoop, run_closed_loop
from gatepilot.envs.sim.params import EngineParams

from .reference_plant import ERROR, OK, Replica, Request, Rules
from .test_second_implementation import draw_rules

STEP = EngineParams(
    base_s=0.02,
    per_seq_s=1e-3,
    per_ctx_token_s=1e-5,
    per_prefill_token_s=1e-4,
    max_num_seqs=64,
    chunk_tokens=4096,
)
Row = tuple[int, int]


def tokens(*values: int) -> NDArray[np.int32]:
    return np.array(values, np.int32)


def constant(n: int, prompt: int, output: int, clients: int, **changes: Any) -> ClosedLoop:  # noqa: ANN401
    front_end_s = changes.pop("front_end_s", 0.0)
    return run_closed_loop(
        np.full(n, prompt, np.int32),
        np.full(n, output, np.int32),
        dataclasses.replace(STEP, **changes),
        clients=clients,
        front_end_s=front_end_s,
    )


def test_one_client_by_hand() -> None:
    found = constant(5, prompt=100, output=11, clients=1)
    ttft_s = 0.02 + 100 * 1e-4
    # ten further tokens, with 101 to 110 tokens of context
    tpot_s = 0.02 + 1e-3 + 1e-5 * (101 + 110) / 2
    np.testing.assert_allclose(found.ttft_s, ttft_s)
    np.testing.assert_allclose(found.tpot_s, tpot_s)
    np.testing.assert_allclose(found.e2e_s, ttft_s + 10 * tpot_s)
    np.testing.assert_allclose(found.sent_s, np.arange(5) * (ttft_s + 10 * tpot_s))
    assert found.duration_s == pytest.approx(5 * (ttft_s + 10 * tpot_s))
    assert found.completed.all()


def test_many_clients_in_step_by_hand() -> None:
    """Free prefill: all begin together, so TPOT is base + per_seq * c + per_ctx * c * mean context.

    The first client's prompt is alone in its iteration (it arrives first at an idle replica), so
    there is a first wave of one and a second of the rest; from then on they keep apart by one
    iteration, and each token of everyone is made with all c sequences in the batch, but for the
    first and last of a wave.
    """
    clients, prompt, output = 8, 100, 2001
    found = constant(8 * clients, prompt, output, clients, per_prefill_token_s=0.0)
    mean_context = prompt + output / 2
    expected = 0.02 + 1e-3 * clients + 1e-5 * clients * mean_context
    assert found.tpot_s.mean() == pytest.approx(expected, rel=2e-3)
    assert found.tpot_s.std() < 2e-3 * expected


def test_experts_by_hand() -> None:
    found = constant(3, 100, 11, 1, experts_s=0.5, expert_share=0.25)
    np.testing.assert_allclose(found.ttft_s, 0.02 + 100 * 1e-4 + 0.5 * (1 - 0.75**100))
    expected = 0.02 + 1e-3 + 1e-5 * (101 + 110) / 2 + 0.5 * 0.25
    np.testing.assert_allclose(found.tpot_s, expected)


def test_answers_of_one_token_have_no_time_between_tokens() -> None:
    found = constant(3, 100, 1, 1)
    assert np.isnan(found.tpot_s).all()
    np.testing.assert_allclose(found.e2e_s, found.ttft_s)


def test_the_front_end_takes_one_request_at_a_time() -> None:
    found = constant(2, 100, 1, 2, front_end_s=1.0)
    # the second leaves the front end a second after the first, which is long over by then
    np.testing.assert_allclose(found.ttft_s, [1.0 + 0.03, 2.0 + 0.03])
    np.testing.assert_allclose(found.sent_s, 0.0)
    idle = constant(2, 100, 1, 1, front_end_s=1.0)
    np.testing.assert_allclose(idle.ttft_s, 1.03)
    np.testing.assert_allclose(idle.sent_s, [0.0, 1.03])


def test_never_more_in_flight_than_clients() -> None:
    rng = np.random.default_rng(3)
    n, clients = 200, 7
    found = run_closed_loop(
        rng.integers(1, 300, n).astype(np.int32),
        rng.integers(1, 60, n).astype(np.int32),
        STEP,
        clients=clients,
        replicas=2,
        front_end_s=0.003,
        seed=5,
    )
    ends = found.sent_s + found.e2e_s
    order = np.sort(found.sent_s)
    in_flight = [int((found.sent_s <= t).sum() - (ends <= t).sum()) for t in order]
    assert max(in_flight) == clients
    # a client sends at the very instant at which an answer ends
    np.testing.assert_array_equal(np.sort(found.sent_s)[clients:], np.sort(ends)[: n - clients])


def test_what_never_fits_is_an_error_and_frees_its_client() -> None:
    found = run_closed_loop(
        tokens(10, 10_000, 10),
        tokens(5, 5, 5),
        dataclasses.replace(STEP, kv_blocks=64),
        clients=1,
    )
    assert found.completed.tolist() == [True, False, True]
    assert math.isnan(found.ttft_s[1])


def test_same_seed_same_run() -> None:
    rng = np.random.default_rng(3)
    prompts, outputs = rng.integers(1, 99, (2, 60)).astype(np.int32)
    runs = [
        run_closed_loop(prompts, outputs, STEP, clients=6, replicas=3, seed=seed)
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(runs[0].e2e_s, runs[1].e2e_s)
    assert (runs[0].e2e_s != runs[2].e2e_s).any()


def test_no_request_is_no_run() -> None:
    assert constant(0, 1, 1, 4).duration_s == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clients": 0}, "clients is 0, expected 1 or more"),
        ({"replicas": 0}, "replicas is 0, expected 1 or more"),
        ({"front_end_s": -1.0}, "front_end_s is -1.0, expected 0 or more"),
        ({"front_end_s": math.nan}, "front_end_s is nan"),
        ({"output_tokens": tokens(1)}, "2 prompts and 1 outputs"),
        ({"prompt_tokens": tokens(0, 3)}, "prompt_tokens holds 0, expected at least 1"),
        (
            {"params": dataclasses.replace(STEP, scrape_interval_s=5.0)},
            "scrape_interval_s is 5.0, expected 0",
        ),
    ],
)
def test_what_cannot_be_run_is_refused(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "prompt_tokens": tokens(1, 2),
        "output_tokens": tokens(1, 2),
        "params": STEP,
        "clients": 1,
    }
    arguments |= changes
    with pytest.raises(ValueError, match=message):
        run_closed_loop(**arguments)


def naive_loop(
    rules: Rules, rows: list[Row], clients: int, replicas: int, front_end_s: float
) -> list[tuple[float, Request]]:
    """The same loop, one iteration after the other: when each row was sent, and what became of it.

    Everything that ends at an instant ends before anything is sent or arrives at that instant.
    """
    cluster = [Replica(rules, r) for r in range(replicas)]
    everyone: list[tuple[float, Request]] = []
    arrived = 0
    turn = 0
    t = 0.0
    free_s = 0.0
    while True:
        over = sum(q.status is not None for _, q in everyone[:arrived])
        while len(everyone) < len(rows) and len(everyone) - over < clients:
            prompt, output = rows[len(everyone)]
            free_s = max(free_s, t) + front_end_s
            deadline_s = free_s + rules.timeout_s
            everyone.append(
                (t, Request(len(everyone), free_s, deadline_s, prompt, prompt + output))
            )
        first = min(cluster, key=lambda replica: replica.ends_s)
        pending = everyone[arrived][1].arrival_s if arrived < len(everyone) else math.inf
        t = min(first.ends_s, pending)
        if t == math.inf:
            return everyone
        if first.ends_s <= pending:
            first.finish()
            continue
        q = everyone[arrived][1]
        arrived += 1
        if q.total > rules.admission_blocks * rules.block_tokens:
            q.end(ERROR, t)
            continue
        if rules.router == "round_robin":
            chosen = cluster[turn % replicas]
            turn += 1
        else:
            chosen = min(cluster, key=lambda replica: (len(replica.waiting), replica.index))
        chosen.waiting.append(q)
        if chosen.ends_s == math.inf:
            chosen.begin(t)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=True))
def test_equal_to_a_loop_one_iteration_at_a_time(rng: random.Random) -> None:
    most_tokens = rng.choice([6, 20, 60])
    rules = dataclasses.replace(
        draw_rules(rng, exact=True, most_tokens=most_tokens), timeout_s=math.inf
    )
    rows = [
        (rng.randint(1, most_tokens), rng.randint(1, most_tokens))
        for _ in range(rng.randint(1, 30))
    ]
    clients, replicas = rng.randint(1, 8), rng.randint(1, 3)
    front_end_s = rng.choice([0.0, rng.uniform(1e-4, 0.1)])
    expected = naive_loop(rules, rows, clients, replicas, front_end_s)
    found = run_closed_loop(
        tokens(*(prompt for prompt, _ in rows)),
        tokens(*(output for _, output in rows)),
        EngineParams(
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
        ),
        clients=clients,
        replicas=replicas,
        front_end_s=front_end_s,
    )
    assert found.completed.tolist() == [q.status == OK for _, q in expected]
    assert found.restarts.tolist() == [q.restarts for _, q in expected]
    sent_s = np.array([t for t, _ in expected])
    waited_s = np.array([q.arrival_s for _, q in expected]) - sent_s
    np.testing.assert_allclose(found.sent_s, sent_s, rtol=0, atol=1e-9)
    for values, plain in ((found.ttft_s, "ttft_s"), (found.e2e_s, "e2e_s")):
        wanted = waited_s + np.array([getattr(q, plain) for _, q in expected])
        np.testing.assert_allclose(values, wanted, rtol=0, atol=1e-9)
