"""Who gets in, how long one waits, and who comes back: answers by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gatepilot.envs.sim.faults import Fault

from .sim_kit import Gateway, parts

ALL_FAIL = [Fault("brown_out", 0.0, 1e6, 1.0)]
HANG = [Fault("hang", 0.5, 1e6)]


def test_more_waiting_than_allowed_are_shed() -> None:
    """One slot: one runs, three wait, the others get 429; the second round finds one place."""
    rows = [(1.0, 1, 8)] * 6 + [(2.0625, 1, 1)] * 3
    g = Gateway(rows, replicas=1, max_num_seqs=1, max_waiting=3)
    g.tick(30.0)
    assert g.status == ["ok"] * 4 + ["shed"] * 2 + ["ok"] + ["shed"] * 2


def test_without_a_ready_replica_so_many_are_held() -> None:
    g = Gateway([(1.0, 1, 1)] * 5, replicas=1, max_pending=3, cold_start_s=10.0)
    g.tick(0.5, replicas=0)
    g.tick(1.5, replicas=1)
    assert g.status == ["pending"] * 3 + ["error"] * 2
    assert g.env["pending"] == 3
    g.tick(20.0)
    assert g.status == ["ok"] * 3 + ["error"] * 2
    assert g.outcomes.ttft_s[:3].tolist() == [9.625, 9.75, 9.75]  # the first is begun with
    assert parts(g)[0].tolist() == pytest.approx([0.0, 0.125, 9.5, 0.0])


def test_those_held_time_out_and_count_as_late() -> None:
    g = Gateway([(1.0, 1, 1)] * 2, replicas=0, max_pending=3, request_timeout_s=20.0)
    g.tick(15.0, replicas=0)
    assert g.truth("ttft_p95_s") == 14.0
    g.tick(15.0)
    assert g.status == ["timeout"] * 2
    assert g.outcomes.e2e_s.tolist() == [20.0] * 2
    assert g.env["pending"] == g.counters["outstanding"] == 0


def test_a_timeout_grows_with_the_prompt() -> None:
    """30 s, and 15 s for each full 512 tokens above 512 (source documents, A1)."""
    prompts = [1, 512, 1023, 1024, 2047, 2048, 5000]
    limits: dict[str, Any] = {"request_timeout_s": 30.0, "timeout_step_s": 15.0}
    g = Gateway([(1.0, p, 1) for p in prompts], replicas=1, faults=HANG, **limits)
    g.tick(300.0)
    assert g.status == ["timeout"] * 7
    assert g.outcomes.e2e_s.tolist() == [30, 30, 30, 45, 60, 75, 30 + 15 * 8]


def test_one_behind_a_more_patient_one_times_out_at_its_own_time() -> None:
    limits: dict[str, Any] = {"request_timeout_s": 10.0, "timeout_step_s": 100.0}
    rows = [(1.0, 1024, 1), (1.0, 1, 1), (1.0, 2000, 1), (1.0, 1, 1)]
    g = Gateway(rows, replicas=1, faults=HANG, **limits)
    g.tick(30.0)
    assert g.status == ["pending", "timeout", "pending", "timeout"]
    assert g.places["waiting"][0] == 2
    g.tick(300.0)
    assert g.outcomes.e2e_s.tolist() == [110.0, 10.0, 210.0, 10.0]


def test_a_client_tries_again_after_its_pause() -> None:
    """Errors at 1, 3 and 5; at 7 the brown-out is over."""
    faults = [Fault("brown_out", 0.0, 6.0, 1.0)]
    g = Gateway([(1.0, 1, 1)], faults=faults, client_retries=5, client_retry_delay_s=2.0)
    g.tick(4.0)
    assert g.counters["error"] == 2
    assert g.counters["returning"] == 1
    g.tick(10.0)
    assert g.status == ["ok"]
    assert g.outcomes.e2e_s[0] == 0.125  # of the last try
    assert (g.counters["arrived"], g.counters["error"], g.counters["ok"]) == (4, 3, 1)
    assert g.counters["returning"] == 0


def test_a_client_gives_up_after_so_many_tries() -> None:
    g = Gateway([(1.0, 1, 1)] * 3, faults=ALL_FAIL, client_retries=2, client_retry_delay_s=2.0)
    g.tick(60.0)
    assert g.status == ["error"] * 3
    assert g.counters["arrived"] == g.counters["error"] == 9


def test_a_client_whose_request_was_shed_or_timed_out_comes_back_too() -> None:
    clients: dict[str, Any] = {"client_retries": 1, "client_retry_delay_s": 2.0}
    g = Gateway([(1.0, 1, 8)] * 2, replicas=1, max_outstanding=1, **clients)
    g.tick(10.0)
    assert g.status == ["ok", "ok"]
    assert g.counters["shed"] == 1
    hang = [Fault("hang", 0.5, 3.5)]
    g = Gateway([(1.0, 1, 1)], replicas=1, faults=hang, request_timeout_s=1.0, **clients)
    g.tick(10.0)  # out at 2.0, back at 4.0
    assert g.status == ["ok"]
    assert g.counters["timeout"] == 1


def test_clients_come_back_in_order_though_their_ends_are_noted_late() -> None:
    """Each of four replicas hangs; ends at 2.1, 2.2, ... are found replica by replica."""
    rows = [(1.0 + 0.1 * k, 1, 1) for k in range(1, 40)]
    hangs = [Fault("hang", 0.5, 6.0)] * 8
    g = Gateway(
        rows,
        replicas=4,
        faults=hangs,
        request_timeout_s=1.0,
        client_retries=9,
        client_retry_delay_s=0.3,
    )
    g.tick(60.0)
    c = g.counters
    assert c["arrived"] == c["ok"] + c["timeout"]
    assert c["ok"] == len(rows)
    assert c["timeout"] > 50


def test_a_retry_storm_keeps_a_plant_down_that_would_recover_alone() -> None:
    """An outage of 20 s at 80 % load: patient clients' tries keep it busy with dead requests."""
    rng = np.random.default_rng(1)
    rows = [(float(t), 1, 40) for t in np.sort(rng.uniform(0, 600, 600))]

    def answered(client_retries: int) -> float:
        g = Gateway(
            rows,
            replicas=1,
            max_num_seqs=6,
            request_timeout_s=8.0,
            faults=[Fault("hang", 100.0, 120.0)],
            client_retries=client_retries,
            client_retry_delay_s=1.0,
        )
        g.tick(300.0)
        before = g.counters["ok"]
        g.tick(200.0)
        return float(g.counters["ok"] - before)

    assert answered(0) > 190
    assert answered(8) < 0.8 * answered(0)


def test_the_gateways_bucket_lets_a_burst_in_and_then_its_rate() -> None:
    rows = [(1.0, 1, 1)] * 4 + [(2.0, 1, 1)] * 3 + [(30.0, 1, 1)] * 4
    g = Gateway(rows, bucket_rps=1.0, bucket_size=2.0)
    g.tick(60.0)
    assert g.status == ["ok"] * 2 + ["shed"] * 2 + ["ok"] + ["shed"] * 2 + ["ok"] * 2 + ["shed"] * 2


def test_each_replica_has_a_bucket_of_its_own() -> None:
    rows = [(1.0, 1, 1)] * 6
    g = Gateway(rows, replicas=2, replica_bucket_rps=1.0, replica_bucket_size=2.0)
    g.tick(60.0)
    assert g.status == ["ok"] * 4 + ["shed"] * 2


def test_the_adaptive_limit_is_the_rate_less_twice_the_error_rate() -> None:
    """A quarter fails: half the rate. The bucket is empty at 1.0 and holds 5 x 1 s at 2.0."""
    rows = [(0.5, 1, 1)] * 8 + [(1.0, 1, 1)] * 40 + [(2.0, 1, 1)] * 40
    faults = [Fault("brown_out", 0.4, 1.0, 1.0)]
    g = Gateway(rows, faults=faults, bucket_rps=10.0, bucket_size=10.0, error_limit=1)
    g.tick(1.5)
    assert g.env["bucket_rps"] == 0.0  # all answers of the first second were errors
    g.tick(20.0)
    assert g.env["bucket_rps"] == 10.0
    assert g.counters["shed"] > 60


def test_the_kv_limit_follows_the_cache() -> None:
    """One prompt of 640 tokens is 40 of 64 blocks; two are above 80 %."""
    cache: dict[str, Any] = {"kv_blocks": 100, "watermark": 0.0, "kv_limit_rps": 100.0}
    g = Gateway([(1.0, 640, 400), (20.0, 480, 300)], replicas=1, **cache)
    g.tick(5.0)
    assert g.env["bucket_rps"] == np.inf  # 42 %
    g.tick(18.0)
    usage = g.seen("kv_usage")
    assert usage > 0.8
    assert g.env["bucket_rps"] == 10.0
    g.tick(60.0)
    assert g.counters["ok"] == 2
    assert g.env["bucket_rps"] == np.inf


@pytest.mark.parametrize("usage", [0.55, 0.65, 0.75])
def test_between_half_and_four_fifths_the_kv_limit_is_a_share_of_its_base(usage: float) -> None:
    cache: dict[str, Any] = {"kv_blocks": 100, "watermark": 0.0, "kv_limit_rps": 100.0}
    g = Gateway([(1.0, round(1600 * usage) - 8, 12)], replicas=1, base_s=1.0, **cache)
    g.tick(5.0)
    assert g.env["bucket_rps"] == pytest.approx(100 * max(0.3, 1 - usage), abs=1.0)
