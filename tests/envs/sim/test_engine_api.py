"""What the engine is given and what it refuses."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.envs.sim.engine import Engine, most_in_window
from gatepilot.envs.sim.whole_run import simulate
from gatepilot.envs.workload.request import Requests

from .sim_kit import PLAIN, Gateway, requests_of

BARE = dataclasses.replace(PLAIN, scrape_interval_s=0.0)
ROWS = requests_of([(1.0, 10, 3), (1.5, 600, 1), (2.0, 1, 30)])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chunk_tokens": 0}, "chunk_tokens is 0, expected more than 0"),
        ({"kv_blocks": -1}, "kv_blocks is -1"),
        ({"request_volume": 0}, "request_volume is 0"),
        ({"base_s": -0.1}, "base_s is -0.1, expected 0 or more"),
        ({"per_seq_s": float("nan")}, "per_seq_s is nan"),
        ({"base_s": 0.0}, "time stands still"),
        ({"base_s": 0.0, "per_seq_s": 1.0}, "time stands still"),
        ({"experts_s": -0.1}, "experts_s is -0.1, expected 0 or more"),
        ({"expert_share": 1.0}, "expert_share is 1.0, expected 0 or more and below 1"),
        ({"max_num_seqs": 64, "chunk_tokens": 63}, "max_num_seqs 64 is above chunk_tokens 63"),
        ({"router": "nearest"}, "router 'nearest': expected one of round_robin"),
    ],
)
def test_parameters_that_cannot_be_run_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(PLAIN, **changes)


def test_a_run_needs_a_replica_and_an_end() -> None:
    with pytest.raises(ValueError, match="replicas is 0"):
        simulate(ROWS, BARE, replicas=0)
    for name in ("breaker_interval_s", "scrape_interval_s"):
        clock: dict[str, Any] = {name: 5.0}
        with pytest.raises(ValueError, match=f"{name} is 5.0, expected 0"):
            simulate(ROWS, dataclasses.replace(BARE, **clock), replicas=1)


def test_a_repeated_run_has_the_same_results() -> None:
    once = simulate(ROWS, BARE, replicas=2)
    often = simulate(ROWS, BARE, replicas=2, timing_s=0.01)
    assert once.runs == 1 < often.runs
    assert once.wall_s > 0 < often.wall_s
    for a, b in zip(once.outcomes, often.outcomes, strict=True):
        np.testing.assert_array_equal(a, b)


def test_random_routers_follow_their_seed() -> None:
    requests = requests_of([(0.1 * k, 1, 1) for k in range(200)])
    params = dataclasses.replace(BARE, router="random")
    runs = [
        simulate(requests, params, replicas=4, seed=s).outcomes.replica.tolist() for s in (1, 1, 2)
    ]
    assert runs[0] == runs[1] != runs[2]


def test_no_requests_are_no_trouble() -> None:
    nothing = requests_of([])
    assert len(simulate(nothing, BARE, replicas=1).outcomes.status) == 0
    g = Gateway(nothing)
    g.tick(60.0)
    assert g.counters["arrived"] == 0
    assert g.counters["billed_s"] == 120.0


def test_a_periodic_workload_begins_anew_after_its_span() -> None:
    rows = requests_of([(0.0, 1, 1), (3.0, 1, 1), (10.0, 1, 1)], span_s=10.0)
    engine = Engine([PLAIN], [rows], 1, max_replicas=1, sampled_s=1000)

    def arrived_after(start_s: float, seconds: float) -> int:
        engine.reset(
            np.zeros(1, np.int64),
            seeds=np.ones(1, np.uint64),
            workloads=np.zeros(1, np.int64),
            start_s=np.array([start_s]),
            warmup_s=0.0,
            replicas=np.ones(1, np.int64),
            threshold_percent=np.array([50]),
            faults=[[]],
        )
        engine.tick(seconds, np.ones(1, np.int64), np.array([50]))
        return int(engine.counters["arrived"][0])

    assert arrived_after(0.0, 0.0) == 0  # what arrives at the end of a tick belongs to the next
    assert arrived_after(0.0, 10.0) == 2
    assert arrived_after(0.0, 10.5) == 4  # the last of a span and the first of the next coincide
    assert arrived_after(3.0, 0.5) == 1
    assert arrived_after(3.5, 6.5) == 0
    assert arrived_after(9.5, 4.0) == 3
    assert arrived_after(0.0, 1000.0) == 299


def test_iterations_under_way_are_counted_exactly() -> None:
    """Tokens by a scrape in the middle of a long segment: one an iteration that has ended."""
    for base_s in (0.1, 0.07, 0.013, 1 / 3):
        g = Gateway([(0.0, 1, 10**6)], replicas=1, base_s=base_s, per_ctx_token_s=1e-6)
        g.tick(60.0)
        steps = base_s + 1e-6 * np.arange(2, 10_000)  # it decodes with two tokens or more
        ends = base_s + np.cumsum(steps)  # after the prefill, which emits the first
        decoded = np.searchsorted(ends, 60.0, side="right")
        assert g.seen("prompt_token_rate_tps") * 60 == pytest.approx(1)
        assert g.seen("output_token_rate_tps") * 60 == pytest.approx(1 + decoded, rel=1e-12)


@pytest.mark.parametrize("router", ["round_robin", "random", "least_outstanding", "fewest_waiting"])
def test_looking_at_a_gateway_does_not_change_it(router: str) -> None:
    """Ticks and scrapes at odd times give what one run from end to end gives."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows = sorted(
            (rng.uniform(0, 8), int(rng.integers(1, 90)), int(rng.integers(1, 60)))
            for _ in range(300)
        )
        params = dataclasses.replace(
            BARE,
            base_s=0.01,
            per_seq_s=1e-3,
            per_ctx_token_s=1e-5,
            max_num_seqs=8,
            chunk_tokens=40,
            kv_blocks=40,
            router=router,
            request_timeout_s=3.0,
        )
        expected = simulate(requests_of(rows), params, replicas=2, seed=seed).outcomes
        g = Gateway(rows, replicas=2, seed=seed, params=params, scrape_interval_s=0.37)
        while g.counters["arrived"] < 300 or g.counters["outstanding"]:
            g.tick(float(rng.uniform(0.1, 3.0)))
        assert {"ok", "timeout"} <= set(g.status)
        np.testing.assert_array_equal(g.outcomes.status, expected.status)
        np.testing.assert_array_equal(g.outcomes.replica, expected.replica)
        np.testing.assert_array_equal(g.outcomes.restarts, expected.restarts)
        np.testing.assert_allclose(g.outcomes.ttft_s, expected.ttft_s, rtol=0, atol=1e-9)
        np.testing.assert_allclose(g.outcomes.e2e_s, expected.e2e_s, rtol=0, atol=1e-9)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=12).map(sorted),
    st.integers(1, 20),
    st.integers(0, 60),
)
def test_most_in_window_counts_every_turn(arrivals: list[int], more: int, window_s: int) -> None:
    span_s = arrivals[-1] + more
    ones = np.ones(len(arrivals), np.int32)
    requests = Requests(np.array(arrivals, np.float64), ones, ones, float(span_s))
    unrolled = [a + turn * span_s for turn in range(70) for a in arrivals]
    starts = [a for a in unrolled if a <= span_s]
    most = max(sum(start <= a < start + window_s for a in unrolled) for start in starts)
    closed = max(sum(start <= a <= start + window_s for a in unrolled) for start in starts)
    assert most <= most_in_window(requests, float(window_s)) <= closed
