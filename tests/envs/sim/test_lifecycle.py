"""Replicas that come and go: cold start, drain, scale-in, billing, faults on their clock."""

from __future__ import annotations

import numpy as np
import pytest

from gatepilot.envs.sim.faults import Fault, packed_faults

from .sim_kit import Gateway, requests_of

QUIET = requests_of([(9e5, 1, 1)])


def test_an_idle_replica_is_gone_at_once() -> None:
    g = Gateway(QUIET, replicas=4)
    g.tick(1.0, replicas=1)
    assert g.states == ["ready"]


def test_a_draining_replica_finishes_and_takes_nothing_new() -> None:
    rows = [(1.0, 1, 80), (1.0, 1, 80), *((3.0 + 0.1 * k, 1, 1) for k in range(20))]
    g = Gateway(rows, replicas=2)
    g.tick(2.0)
    g.tick(5.0, replicas=1)
    assert g.states == ["ready", "draining"]
    assert g.seen("replicas_draining") == 1
    assert set(g.outcomes.replica[2:]) == {0}
    g.tick(5.0)
    assert g.states == ["ready"]
    assert g.status == ["ok"] * 22
    assert g.outcomes.replica[:2].tolist() == [0, 1]


@pytest.mark.parametrize("max_num_seqs", [2, 8])  # the third waits, or is half prefilled
def test_drained_requests_are_lost_as_errors_at_the_deadline(max_num_seqs: int) -> None:
    rows = [(0.0, 1, 1)] * 2 + [(1.0, 1, 8000)] * 4 + [(1.0, 600_000, 2)] * 2
    g = Gateway(rows, replicas=2, drain_min_s=30.0, max_num_seqs=max_num_seqs)
    assert g.params.request_timeout_s == np.inf
    g.tick(10.0)
    g.tick(29.0, replicas=1)
    assert g.states == ["ready", "draining"]
    g.tick(2.0)
    assert g.states == ["ready"]
    lost = g.outcomes.status == 2
    assert g.outcomes.replica[lost].tolist() == [1, 1, 1]
    np.testing.assert_allclose(g.outcomes.e2e_s[lost], 10.0 + 30.0 - 1.0)
    assert g.counters["error"] == 3
    assert g.counters["outstanding"] == 3
    assert g.counters["billed_s"] == pytest.approx(41.0 + 40.0)


def test_the_drain_deadline_follows_long_answers() -> None:
    """P99 of the answers so far, by the buckets: those of 50 s lie in (40, 50]."""
    rows = [(0.0, 1, 392)] * 100 + [(60.0, 1, 2000)] * 2
    g = Gateway(rows, replicas=2)
    g.tick(61.0)
    g.tick(1.0, replicas=1)
    deadline = g.places["drain_deadline"][1]
    assert deadline == pytest.approx(61.0 + 40.0 + 10.0 * 0.99)


def test_the_last_requests_timeout_ends_a_drain() -> None:
    g = Gateway([(1.0, 1, 8000)] * 2, replicas=2, request_timeout_s=20.3, drain_min_s=100.0)
    g.tick(10.0)
    g.tick(20.0, replicas=1)
    assert g.states == ["ready"]
    assert g.status == ["timeout", "timeout"]
    # dropped at the first boundary after 21.3
    assert g.counters["billed_s"] == pytest.approx(30.0 + 21.375)


def test_cold_starts_spread_uniformly_around_their_mean() -> None:
    delays = []
    for seed in range(60):
        g = Gateway(QUIET, replicas=1, seed=seed, cold_start_s=100.0, cold_start_spread=0.1)
        g.tick(1.0, replicas=8)
        assert g.states == ["ready"] + ["starting"] * 7
        delays += (g.places["ready_at"][1:8] - g.places["started_at"][1:8]).tolist()
    assert 90.0 <= min(delays) < 91.0
    assert 109.0 < max(delays) <= 110.0
    assert np.mean(delays) == pytest.approx(100.0, abs=4 * 10 / np.sqrt(3 * len(delays)))


def test_a_starting_replica_becomes_ready_when_its_time_has_come() -> None:
    rows = [(k + 0.5, 1, 1) for k in range(40)]
    g = Gateway(rows, replicas=1, cold_start_s=20.0)
    g.tick(40.0, replicas=2)
    assert set(g.outcomes.replica[:20]) == {0}
    assert set(g.outcomes.replica[20:]) == {0, 1}


def test_scale_in_takes_starting_ones_first_then_the_youngest() -> None:
    g = Gateway(QUIET, replicas=2, cold_start_s=10.0)
    g.tick(20.0, replicas=3)  # place 2 starts at 0 s
    g.tick(5.0, replicas=5)  # 3 and 4 start at 20 s
    assert g.states == ["ready"] * 3 + ["starting"] * 2
    g.tick(1.0, replicas=4)
    assert g.states == ["ready"] * 3 + ["starting"]
    g.tick(1.0, replicas=2)
    assert g.states == ["ready"] * 2
    assert g.places["started_at"][:2].tolist() == [0.0, 0.0]


def test_the_youngest_ready_one_goes_even_from_a_lower_place() -> None:
    g = Gateway([(1.0, 1, 160)] * 3, replicas=3)
    g.tick(2.0, replicas=2)  # place 2 drains
    g.tick(2.0, replicas=1)  # place 1 drains
    g.tick(30.0)
    g.tick(1.0, replicas=2)
    assert g.places["started_at"][1] == 34.0
    assert g.places["incarnation"][:3].tolist() == [1, 2, 1]
    g.tick(1.0, replicas=1)
    assert g.states == ["ready"]
    assert g.places["started_at"][0] == 0.0


def test_billing_is_requested_and_draining_to_the_second() -> None:
    rows = [(1.0, 1, 80)] * 2  # until 11 s
    g = Gateway(rows, replicas=2, cold_start_s=7.0)
    g.tick(5.0)
    g.tick(15.0, replicas=1)  # the second drains until 11 s
    g.tick(10.0, replicas=4)  # three starting ones are billed too
    g.tick(10.0, replicas=1)
    assert g.counters["billed_s"] == pytest.approx(2 * 5 + (15 + 6) + 4 * 10 + 10)


def test_new_replicas_wait_while_every_place_drains() -> None:
    """There is room for as many draining ones as may be asked for."""
    g = Gateway([(1.0, 1, 400)] * 4, replicas=2, max_replicas=2)
    g.tick(2.0)
    assert g.engine._state.replicas.shape[1] == 4
    g.tick(0.5, replicas=1)
    g.tick(0.5, replicas=2)
    assert g.states == ["ready", "draining", "ready"]


def test_a_brown_out_hits_all_alike_and_ends() -> None:
    rows = [(0.25 * k, 1, 1) for k in range(1, 240)]
    g = Gateway(rows, replicas=3, faults=[Fault("brown_out", 10.0, 20.0, 1.0)])
    g.tick(60.0)
    failed = np.flatnonzero(g.outcomes.status == 2)
    times = g.requests.arrival_s[failed]
    assert times.min() == 10.0
    assert times.max() == 19.75
    assert len(failed) == 40
    assert set(g.outcomes.replica[failed]) == {0, 1, 2}


def test_an_error_share_is_kept_and_two_faults_add_up() -> None:
    rows = [(0.01 * k, 1, 1) for k in range(20_000)]
    faults = [Fault("brown_out", 0.0, 1e3, 0.2), Fault("brown_out", 0.0, 1e3, 0.5)]
    g = Gateway(rows, faults=faults, base_s=0.001)
    g.tick(200.0)
    share = np.mean(g.outcomes.status == 2)
    assert share == pytest.approx(1 - 0.8 * 0.5, abs=4 * np.sqrt(0.24 / 20_000))


def test_a_replica_fault_hits_one_and_its_replacement_is_healthy() -> None:
    rows = [(0.25 * k, 1, 1) for k in range(1, 400)]
    for seed in range(6):
        fault = Fault("replica_errors", 1.0, 1e3, 1.0)
        g = Gateway(rows, replicas=3, faults=[fault], seed=seed)
        g.tick(20.0)
        bad = np.flatnonzero(g.places["failures"])
        assert len(bad) == 1
        victims = set(g.outcomes.replica[g.outcomes.status == 2])
        assert victims == set(bad)
        g.tick(0.25, replicas=1)
        g.tick(0.25, replicas=3)
        before = g.counters["error"]
        g.tick(20.0)
        healthy_again = bad[0] != 0
        assert (g.counters["error"] == before) == healthy_again


def test_a_fault_with_nobody_ready_hits_nobody() -> None:
    fault = Fault("replica_errors", 0.0, 1e3, 1.0)
    g = Gateway([(15.0, 1, 1)], replicas=0, faults=[fault], cold_start_s=10.0)
    g.tick(20.0, replicas=1)
    assert g.status == ["ok"]


def test_more_faults_than_room_are_refused() -> None:
    fault = Fault("brown_out", 0.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="2 faults in one episode, room for 1"):
        packed_faults([fault, fault], 1, 0.0)
