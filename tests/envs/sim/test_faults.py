"""Faults of the plant, with answers by hand: an iteration lasts an eighth of a second."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gatepilot.envs.sim.faults import Fault

from .sim_kit import Gateway

EVERY_SECOND = [(float(t), 1, 1) for t in range(1, 200)]


def test_a_slow_replica_takes_a_factor_longer_from_one_iteration_to_another() -> None:
    """The iteration under way keeps its pace: 3 quick, 2 slow, 3 quick ones."""
    slow = Fault("slow_replica", 1.25, 1.75, factor=2.0)
    g = Gateway([(1.0, 1, 8)], replicas=1, faults=[slow])
    g.tick(10.0)
    assert g.outcomes.e2e_s[0] == 3 * 0.125 + 2 * 0.25 + 3 * 0.125


def test_two_slow_faults_on_one_replica_multiply() -> None:
    slow = [
        Fault("slow_replica", 0.5, 100.0, factor=2.0),
        Fault("slow_replica", 0.5, 100.0, 0.0, 3.0),
    ]
    g = Gateway([(1.0, 1, 4)], replicas=1, faults=slow)
    g.tick(10.0)
    assert g.outcomes.e2e_s[0] == 4 * 6 * 0.125


def test_a_sick_replica_is_slow_and_fails_a_share() -> None:
    sick = Fault("sick_replica", 0.5, 1e3, error_share=0.4, factor=3.0)
    g = Gateway(EVERY_SECOND, replicas=1, faults=[sick])
    g.tick(300.0)
    failed = np.array(g.status) == "error"
    assert failed.mean() == pytest.approx(0.4, abs=0.1)
    assert set(g.outcomes.e2e_s[~failed]) == {0.375}


def test_a_hanging_replica_finishes_its_iteration_and_goes_on_when_it_is_over() -> None:
    """4 tokens by 1.0, a fifth by 1.125, the other 15 from 3.0 on."""
    g = Gateway([(0.5, 1, 20)], replicas=1, faults=[Fault("hang", 1.0, 3.0)])
    g.tick(10.0)
    assert g.outcomes.e2e_s[0] == 3.0 + 15 * 0.125 - 0.5


def test_requests_at_a_hanging_replica_time_out() -> None:
    hang = Fault("hang", 1.0, 500.0)
    g = Gateway(
        [(0.5, 1, 99), (1.5, 1, 1), (1.75, 1, 1)], replicas=1, faults=[hang], request_timeout_s=2.0
    )
    g.tick(10.0)
    assert g.status == ["timeout"] * 3
    assert g.outcomes.e2e_s.tolist() == [2.0] * 3
    assert g.places["failures"][0] == 2  # the first had begun its answer
    assert g.places["outstanding"][0] == g.places["held"][0] == 0
    g.tick(10.0)
    assert g.counters["outstanding"] == 0


def test_a_hanging_replica_shows_no_iterations() -> None:
    hang = Fault("hang", 1.0, 500.0)
    g = Gateway([(0.5, 1, 999)], replicas=1, faults=[hang])
    g.tick(30.0)
    assert g.seen("output_token_rate_tps") * 30.0 == pytest.approx(5)
    g.tick(60.0)
    assert g.seen("output_token_rate_tps") == 0.0
    assert g.seen("running") == 1.0


def test_a_crash_ends_what_streams_and_lets_the_rest_be_tried_again() -> None:
    """One slot: the first streams, the second waits; its retry is held until the restart."""
    g = Gateway(
        [(1.0, 1, 99), (1.5, 1, 1)],
        replicas=1,
        faults=[Fault("crash", 2.0, 2.0)],
        max_num_seqs=1,
        cold_start_s=10.0,
        max_retries=1,
        max_pending=5,
    )
    g.tick(5.0)
    assert g.states == ["starting"]
    assert g.status == ["error", "pending"]
    g.tick(15.0)
    assert g.status == ["error", "ok"]
    assert g.outcomes.e2e_s.tolist() == [1.0, 12.125 - 1.5]
    assert g.outcomes.retry_s[1] == pytest.approx(0.525)
    assert g.outcomes.cold_start_s[1] == pytest.approx(9.975)
    assert g.places["incarnation"][0] == 2
    assert g.env["retrying"] == 0


def test_a_crashed_replica_is_billed_through_its_restart() -> None:
    g = Gateway([(1.0, 1, 1)], replicas=1, faults=[Fault("crash", 2.0, 2.0)], cold_start_s=10.0)
    g.tick(20.0)
    assert g.counters["billed_s"] == 20.0


def test_the_other_replica_serves_what_a_crash_leaves() -> None:
    rows = [(1.0, 4096, 1), (1.0, 4096, 1)]  # eight iterations of prefill
    g = Gateway(rows, faults=[Fault("crash", 1.5, 1.5)], cold_start_s=100.0, max_retries=1)
    g.tick(10.0)
    assert g.status == ["ok", "ok"]
    assert sorted(g.outcomes.e2e_s) == [1.0, 2.0]  # the second waits for the first's place


def test_a_replica_ordered_during_a_failed_start_begins_when_it_ends() -> None:
    failed = Fault("failed_start", 5.0, 100.0)
    g = Gateway([(1.0, 1, 1)], replicas=1, faults=[failed], cold_start_s=10.0)
    g.tick(10.0)
    g.tick(95.0, replicas=2)
    assert g.states == ["ready", "starting"]
    g.tick(4.0)
    assert g.states == ["ready", "starting"]
    g.tick(2.0)
    assert g.states == ["ready", "ready"]
    assert g.counters["billed_s"] == 111.0 + 101.0
    g.tick(10.0, replicas=1)
    g.tick(11.0, replicas=2)
    assert g.states == ["ready", "ready"]


def test_one_that_cannot_start_can_be_taken_back() -> None:
    g = Gateway(
        [(1.0, 1, 1)], replicas=1, faults=[Fault("failed_start", 0.0, 1e3)], cold_start_s=5.0
    )
    g.tick(10.0)
    g.tick(10.0, replicas=2)
    g.tick(10.0, replicas=1)
    assert g.states == ["ready"]


def test_a_flapping_replica_fails_in_the_first_half_of_each_period() -> None:
    flapping = Fault("flapping", 10.0, 55.0, error_share=1.0, period_s=20.0)
    g = Gateway(EVERY_SECOND, replicas=1, faults=[flapping])
    g.tick(300.0)
    failed = [t for (t, _, _), status in zip(EVERY_SECOND, g.status, strict=True) if status != "ok"]
    assert failed == [*range(10, 20), *range(30, 40), *range(50, 55)]


@pytest.mark.parametrize("factor", [2.0, 3.5, 1.25])
def test_a_surge_multiplies_the_load_while_it_lasts(factor: float) -> None:
    rows = [(0.1 * k, 1, 1) for k in range(1, 10_000)]
    surge = Fault("surge", 200.0, 700.0, factor=factor, max_shift_s=50.0)
    g = Gateway(rows, replicas=1, faults=[surge])
    g.tick(200.0)
    before = g.counters["arrived"]
    g.tick(500.0)
    during = g.counters["arrived"] - before
    g.tick(310.0)
    after = g.counters["arrived"] - before - during
    assert during == pytest.approx(5000 * factor, rel=0.02)
    assert (before, after) == (pytest.approx(2000, abs=2), pytest.approx(3000, abs=2))
    assert set(g.status) == {"ok"}  # one result a row: a copy leaves it alone


def test_a_surge_lays_other_rows_over_the_workload() -> None:
    """The copies are shifted in time: they bring what comes at another time."""
    rows = [(float(k), k, 1) for k in range(1, 1001)]
    g = Gateway(
        rows, faults=[Fault("surge", 500.0, 600.0, factor=2.0, max_shift_s=300.0)], base_s=1e-6
    )
    g.tick(600.0)
    once = sum(range(1, 600))
    shifted = g.counters["prompt_tokens"] - once
    assert abs(shifted / 100 - 549.5) > 5
    assert abs(shifted / 100 - 549.5) <= 301


def test_surges_one_after_the_other_use_the_same_room() -> None:
    rows = [(0.1 * k, 1, 1) for k in range(1, 10_000)]
    surges = [Fault("surge", 100.0 + 100 * k, 150.0 + 100 * k, factor=3.0) for k in range(5)]
    g = Gateway(rows, replicas=1, faults=surges)
    g.tick(1000.0)
    assert g.counters["arrived"] == pytest.approx(10_000 + 5 * 50 * 10 * 2, abs=15)
    assert math.isinf(g.env["next_fault"])
