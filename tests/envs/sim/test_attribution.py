"""What a time to first token consists of, and what the tail waited for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.envs.sim.outcomes import OK

from .sim_kit import Gateway, parts
from .test_conservation import draw_gateway

QUEUE, PREFILL, COLD_START, RETRY, TIMEOUT = range(5)


def test_the_queue_is_the_wait_for_the_batch() -> None:
    """One slot: the second waits 1 s for it, and its prompt takes an eighth."""
    g = Gateway([(1.0, 1, 8), (1.0, 1, 1)], replicas=1, max_num_seqs=1)
    g.tick(10.0)
    assert parts(g)[1].tolist() == [1.0, 0.125, 0.0, 0.0]
    p95 = g.engine.attribution[0, 0]
    assert p95.tolist() == pytest.approx([1 / 1.125, 0.125 / 1.125, 0.0, 0.0, 0.0])


def test_a_long_prompt_is_prefill() -> None:
    g = Gateway([(1.0, 2048, 1)], replicas=1)
    g.tick(10.0)
    assert parts(g)[0].tolist() == [0.0, 0.5, 0.0, 0.0]


def test_a_lazy_start_is_paid_by_the_first_requests() -> None:
    """Ready after 1 s, loading 6 s from its first request on at 5.0; both wait until 11.0."""
    lazy: dict[str, Any] = {"cold_start_s": 1.0, "lazy_load_s": 6.0}
    g = Gateway([(5.0, 1, 1), (8.0, 1, 1), (20.0, 1, 1)], replicas=0, **lazy)
    g.tick(30.0, replicas=1)
    assert g.outcomes.ttft_s.tolist() == [6.125, 3.125, 0.125]
    assert g.outcomes.cold_start_s.tolist() == [6.0, 3.0, 0.0]
    assert g.outcomes.queue_s.tolist() == [0.0, 0.0, 0.0]


def test_a_timeout_without_a_token_belongs_to_the_tail() -> None:
    """Two answers of 0.125 s and one that waited 5 s for nothing: the tail is that one."""
    g = Gateway(
        [(1.0, 1, 80), (1.0, 1, 1), (2.0, 1, 1)], replicas=1, max_num_seqs=1, request_timeout_s=5.0
    )
    g.tick(10.0)
    assert g.status == ["timeout", "timeout", "ok"]
    assert g.engine.attribution[0, 0].tolist() == [0.0, 0.0, 0.0, 0.0, 1.0]


def test_without_an_answer_there_is_nothing_to_share() -> None:
    g = Gateway([(100.0, 1, 1)])
    g.tick(10.0)
    assert np.isnan(g.engine.attribution).all()


def test_the_tail_is_told_by_rank_over_one_tick() -> None:
    """A hundred answers, one slot: each waits for those before it; P99 is the last two."""
    g = Gateway([(1.0, 1, 1)] * 100, replicas=1, max_num_seqs=1)
    g.tick(30.0)
    waits = np.arange(100) * 0.125
    for q, share in ((0, 0.95), (1, 0.99)):
        tail = waits[int(np.ceil(share * 100)) - 1 :]
        expected = tail.sum() / (tail + 0.125).sum()
        assert g.engine.attribution[0, q, QUEUE] == pytest.approx(expected)
    g.tick(10.0)
    assert np.isnan(g.engine.attribution).all()


def test_heat_classes_count_first_tokens() -> None:
    g = Gateway([(1.0, 1, 1)] * 20, replicas=1, max_num_seqs=1)
    g.tick(30.0)  # 0.125, 0.25, ... 2.5 s
    c = g.counters
    assert (c["cool"], c["warm"], c["hot"], c["burning"]) == (0, 3, 12, 5)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 1 << 31))
def test_the_parts_add_up_to_the_latency(seed: int) -> None:
    g = draw_gateway(np.random.default_rng(seed))
    for replicas in (1, 4, 2, 5, 1, 3):
        g.tick(15.0, replicas=replicas)
        shares = g.engine.attribution[0]
        assert (np.nan_to_num(shares) >= -1e-6).all()
        for row in shares:
            assert np.isnan(row).all() or row.sum() == pytest.approx(1.0)
    answered = g.outcomes.status == OK
    found = parts(g)[answered]
    assert np.allclose(found.sum(axis=1), g.outcomes.ttft_s[answered], rtol=1e-4, atol=1e-4)
    assert (found >= -1e-3).all()
