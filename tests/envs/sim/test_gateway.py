"""Admission, retries and their budget, timeouts, routing: known answers on one small gateway."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from gatepilot.envs.sim.faults import Fault
from gatepilot.envs.sim.params import EngineParams
from gatepilot.envs.sim.router import ROUTERS
from gatepilot.envs.sim.whole_run import simulate
from gatepilot.envs.workload.request import Requests

from .sim_kit import PLAIN, STATUSES, Gateway, requests_of

ALL_FAIL = [Fault("brown_out", 0.0, 1e6, 1.0)]
ONE_FAILS = [Fault("replica_errors", 0.0, 1e6, 1.0)]


def test_with_no_ready_replica_a_request_is_refused_at_once_and_not_retried() -> None:
    rows = [(1.0, 1, 1), (21.0, 1, 1)]
    g = Gateway(rows, replicas=0, cold_start_s=20.0, max_retries=1)
    g.tick(30.0, replicas=1)
    assert g.status == ["error", "ok"]
    assert g.outcomes.e2e_s[0] == 0.0
    assert g.outcomes.replica.tolist() == [-1, 0]


@pytest.mark.parametrize(("limit", "shed"), [(0, 5), (1, 4), (3, 2), (5, 0), (None, 0)])
def test_more_than_max_outstanding_are_shed(limit: int | None, shed: int) -> None:
    g = Gateway([(1.0, 1, 4)] * 5)
    g.tick(10.0, max_outstanding=limit)
    assert g.status == ["ok"] * (5 - shed) + ["shed"] * shed
    assert g.counters["shed"] == shed


def test_a_place_is_free_once_an_answer_is_over() -> None:
    g = Gateway([(1.0, 1, 2), (1.125, 1, 2), (1.25, 1, 2)], replicas=1)
    g.tick(10.0, max_outstanding=1)
    assert g.status == ["ok", "shed", "ok"]


def test_the_plants_own_limit_holds_whatever_a_controller_allows() -> None:
    g = Gateway([(1.0, 1, 4)] * 5, max_outstanding=2)
    g.tick(10.0, max_outstanding=None)
    assert g.status == ["ok"] * 2 + ["shed"] * 3
    g = Gateway([(1.0, 1, 4)] * 5, max_outstanding=2)
    g.tick(10.0, max_outstanding=1)
    assert g.counters["shed"] == 4


def test_an_error_without_retries_reaches_the_client_at_once() -> None:
    g = Gateway([(1.0, 1, 1)] * 3, faults=ALL_FAIL)
    g.tick(10.0)
    assert g.status == ["error"] * 3
    assert g.outcomes.e2e_s.tolist() == [0.0] * 3
    assert g.places["failures"].sum() == g.places["answers"].sum() == 3


@pytest.mark.parametrize("max_retries", [1, 2, 3])
def test_each_retry_waits_its_delay_and_counts_at_a_replica(max_retries: int) -> None:
    g = Gateway([(1.0, 1, 1)], faults=ALL_FAIL, max_retries=max_retries)
    g.tick(10.0)
    assert g.status == ["error"]
    assert g.outcomes.e2e_s[0] == pytest.approx(0.025 * max_retries)
    assert g.places["failures"].sum() == 1 + max_retries
    assert g.env["retrying"] == 0


@pytest.mark.parametrize("router", ["round_robin", "random", "least_outstanding"])
def test_a_retry_goes_to_another_replica(router: str) -> None:
    rows = [(0.5 * k, 1, 1) for k in range(1, 200)]
    g = Gateway(rows, replicas=3, faults=ONE_FAILS, router=router, max_retries=1)
    g.tick(200.0)
    assert set(g.status) == {"ok"}
    bad = int(np.argmax(g.places["failures"]))
    assert g.places["failures"][bad] > 30
    assert bad not in g.outcomes.replica
    retried = g.outcomes.e2e_s > 0.14
    assert retried.sum() == g.places["failures"][bad]


def test_a_lone_replica_is_tried_again() -> None:
    g = Gateway([(1.0, 1, 1)], replicas=1, faults=ONE_FAILS, max_retries=1)
    g.tick(10.0)
    assert g.places["failures"][0] == 2


def test_the_budget_allows_three_retries_at_once() -> None:
    g = Gateway([(1.0, 1, 1)] * 6, faults=ALL_FAIL, max_retries=1)
    g.tick(10.0)
    assert g.outcomes.e2e_s.tolist() == pytest.approx([0.025] * 3 + [0.0] * 3)


def test_the_budget_is_a_share_of_the_active_requests_rounded_down() -> None:
    """17 are active. Of ten that fail at one instant the first four find 3, 3, 4 and 4 places."""
    rows = [(1.0, 1, 300)] * 17 + [(2.0, 1, 1)] * 10
    faults = [Fault("brown_out", 1.5, 1e6, 1.0)]
    g = Gateway(rows, faults=faults, max_retries=1, retry_budget_min=0)
    g.tick(10.0)
    waited = g.outcomes.e2e_s[17:] > 0
    assert waited.tolist() == [True] * 4 + [False] * 6


def test_a_retry_gives_its_place_back_with_its_first_token() -> None:
    """As Envoy does when the headers come: the answer may stream on for minutes."""
    few: dict[str, Any] = {"retry_budget_share": 0.0, "retry_budget_min": 1}
    g = Gateway([(1.0, 1, 300)] * 2 + [(5.0, 1, 1)] * 2, faults=ONE_FAILS, max_retries=1, **few)
    g.tick(10.0)
    assert g.counters["outstanding"] == 2  # both long answers, one of them a retry
    assert g.env["retrying"] == 0
    g.tick(90.0)
    assert g.status == ["ok"] * 4
    assert sorted(g.outcomes.e2e_s[2:].tolist()) == pytest.approx([0.125, 0.15], abs=0.13)


def test_a_second_retry_needs_no_second_place() -> None:
    few: dict[str, Any] = {"retry_budget_share": 0.0, "retry_budget_min": 1}
    g = Gateway([(1.0, 1, 1)] * 2, faults=ALL_FAIL, max_retries=2, **few)
    g.tick(10.0)
    assert g.outcomes.e2e_s.tolist() == pytest.approx([0.05, 0.0])


def test_a_second_retry_is_refused_once_the_budget_has_shrunk() -> None:
    """Ten are active at the failure: two places. Eight end before the retries fail: one place."""
    rows = [(1.0, 1, 1)] * 8 + [(1.1171875, 1, 1)] * 2
    faults = [Fault("brown_out", 1.0625, 1e6, 1.0)]
    g = Gateway(rows, faults=faults, max_retries=2, retry_budget_min=1)
    g.tick(10.0)
    assert g.status == ["ok"] * 8 + ["error"] * 2
    assert g.outcomes.e2e_s[8:].tolist() == pytest.approx([0.025, 0.05])


def test_a_request_times_out_while_it_waits_for_its_retry() -> None:
    g = Gateway([(1.0, 1, 1)], faults=ALL_FAIL, max_retries=1, request_timeout_s=0.01)
    g.tick(10.0)
    assert g.status == ["timeout"]
    assert g.outcomes.e2e_s[0] == pytest.approx(0.01)
    assert g.places["failures"].sum() == 1
    assert g.counters["outstanding"] == g.env["retrying"] == 0


def test_timeouts_waiting_and_decoding() -> None:
    """One slot: the first decodes until its time is over, the second waits until its own is."""
    g = Gateway([(1.0, 1, 99), (1.5, 1, 99)], replicas=1, max_num_seqs=1, request_timeout_s=2.0)
    g.tick(10.0)
    assert g.status == ["timeout", "timeout"]
    assert g.outcomes.e2e_s.tolist() == [2.0, 2.0]
    assert g.outcomes.ttft_s.tolist() == [0.125, 1.625]  # in at 3.0, when the first is dropped
    assert g.places["failures"][0] == 0  # an answer had begun
    g = Gateway([(1.0, 1, 99), (1.5, 1, 99)], replicas=1, max_num_seqs=1, request_timeout_s=0.5)
    g.tick(10.0)
    assert np.isnan(g.outcomes.ttft_s).tolist() == [False, False]


def test_a_timeout_before_the_first_token_is_the_replicas_failure() -> None:
    g = Gateway([(1.0, 4096, 1)], replicas=1, request_timeout_s=0.5)  # eight iterations of 512
    g.tick(10.0)
    assert g.status == ["timeout"]
    assert math.isnan(g.outcomes.ttft_s[0])
    assert g.places["failures"][0] == g.places["answers"][0] == 1
    assert g.places["held"][0] == g.places["prefill_blocks"][0] == 0


def test_an_answer_that_ends_after_the_deadline_is_a_timeout() -> None:
    """An iteration ends every eighth of a second; the deadline lies within the last one."""
    for timeout_s, status in ((0.5, "ok"), (0.49, "timeout"), (0.4, "timeout")):
        g = Gateway([(1.0, 1, 4)], replicas=1, request_timeout_s=timeout_s)
        g.tick(10.0)
        assert g.status == [status]
        assert g.outcomes.e2e_s[0] == pytest.approx(timeout_s)
    g = Gateway([(1.0, 1, 4)], replicas=1, request_timeout_s=0.1)
    g.tick(10.0)
    assert math.isnan(g.outcomes.ttft_s[0])
    assert g.counters["first_tokens"] == 0


def test_round_robin_takes_turns_and_leaves_out_the_ejected() -> None:
    rows = [(0.5 * k, 1, 1) for k in range(1, 40)]
    g = Gateway(rows, replicas=3)
    g.tick(20.0)
    assert g.outcomes.replica.tolist() == [k % 3 for k in range(39)]


def test_an_ejected_replica_gets_nothing_with_any_router() -> None:
    rows = [(10.5 + 0.25 * k, 1, 1) for k in range(100)]
    for router in ROUTERS:
        g = Gateway(
            rows,
            replicas=4,
            router=router,
            breaker_interval_s=10.0,
            base_ejection_s=60.0,
            kv_blocks=1000,
        )
        g.places["interval_answers"][:4] = 50
        g.places["interval_failures"][0] = 50
        g.tick(60.0)
        assert g.places["ejected"][:4].tolist() == [1, 0, 0, 0]
        assert 0 not in g.outcomes.replica


def test_two_draws_with_replacement_meet_the_busy_one_in_a_quarter_of_the_cases() -> None:
    """One holds a long answer, the other is idle: only two draws of the busy one send there."""
    n = 20_000
    arrivals = np.concatenate([[0.0], 1.0 + 0.01 * np.arange(n)])
    outputs = np.ones(n + 1, np.int32)
    outputs[0] = 10**7
    params = EngineParams(
        base_s=0.001,
        per_seq_s=0.0,
        per_ctx_token_s=0.0,
        per_prefill_token_s=0.0,
        request_timeout_s=1e3,
    )
    requests = Requests(arrivals, np.ones(n + 1, np.int32), outputs, 1e3)
    found = simulate(requests, params, replicas=2, seed=3).outcomes
    on_busy = found.replica[1:] == found.replica[0]
    assert on_busy.mean() == pytest.approx(0.25, abs=4 * math.sqrt(0.25 * 0.75 / n))


def test_random_and_least_outstanding_reach_all_alike() -> None:
    rows = [(0.01 * k, 1, 1) for k in range(8000)]
    for router in ("random", "least_outstanding"):
        g = Gateway(requests_of(rows), replicas=4, router=router, base_s=0.001)
        g.tick(100.0)
        counts = np.bincount(g.outcomes.replica, minlength=4)
        assert counts.sum() == 8000
        assert np.abs(counts - 2000).max() < 5 * math.sqrt(8000 * 0.25 * 0.75)


def test_what_no_replica_can_ever_hold_is_an_error_at_once() -> None:
    """99 of 100 blocks lie above the watermark of 1 %."""
    fits, does_not = (1.0, 1000, 584), (1.0, 1000, 585)
    params = dataclasses.replace(PLAIN, kv_blocks=100, scrape_interval_s=0.0)
    found = simulate(requests_of([fits, does_not]), params, replicas=1).outcomes
    assert [STATUSES[code] for code in found.status] == ["ok", "error"]
