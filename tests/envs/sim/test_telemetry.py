"""What a scrape shows and what is really so, against sums over the outcomes of single requests."""

from __future__ import annotations

import bisect
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.envs.schema.fields import FIELDS
from gatepilot.envs.sim import observe
from gatepilot.envs.sim.faults import Fault
from gatepilot.envs.sim.quantile import bucket, histogram_quantile
from gatepilot.envs.sim.series import E2E_BOUNDS_S, PROMPT_BOUNDS, TTFT_BOUNDS_S
from gatepilot.envs.workload.request import Requests

from .prometheus_rules import prometheus_quantile
from .sim_kit import Gateway, requests_of


def quantile(q: float, bounds: list[float], counts: list[int], minimum: int = 1) -> float:
    return float(
        histogram_quantile(q, np.array(bounds, np.float64), np.array(counts, np.int64), minimum)
    )


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 50), min_size=5, max_size=5), st.floats(0.01, 1.0))
def test_the_quantile_is_prometheus_own(counts: list[int], q: float) -> None:
    bounds = [0.1, 0.5, 1.0, 8.0]
    expected = prometheus_quantile(q, bounds, counts)
    assert quantile(q, bounds, counts) == pytest.approx(expected, nan_ok=True)


def test_the_quantiles_edges() -> None:
    bounds = [0.25, 0.5, 1.0]
    assert quantile(0.95, bounds, [20, 0, 0, 0]) == pytest.approx(0.95 * 0.25)  # from 0
    assert quantile(0.95, bounds, [0, 0, 0, 20]) == 1.0  # +Inf: the highest finite bound
    assert quantile(0.95, bounds, [19, 0, 0, 1]) == 0.25  # the rank lies on a bound
    assert quantile(0.95, bounds, [0, 10, 0, 10]) == 1.0
    assert quantile(0.5, bounds, [0, 10, 0, 10]) == 0.5
    assert math.isnan(quantile(0.95, bounds, [0, 0, 0, 0]))
    assert math.isnan(quantile(0.95, bounds, [19, 0, 0, 0], minimum=20))


@pytest.mark.parametrize("value", [0.0, 0.001, 0.0010001, 0.3, 2560.0, 2561.0])
def test_a_bucket_holds_its_upper_bound(value: float) -> None:
    assert bucket(TTFT_BOUNDS_S, value) == bisect.bisect_left(TTFT_BOUNDS_S.tolist(), value)


def test_columns_stand_in_the_order_of_the_contract() -> None:
    names = {
        "CPU": "cpu_utilization",
        "REQUESTED": "replicas_requested",
        "READY_COUNT": "replicas_ready",
        "STARTING_COUNT": "replicas_starting",
        "DRAINING_COUNT": "replicas_draining",
        "VRAM": "vram_utilization",
        "THRESHOLD": "breaker_threshold",
        "EJECTED": "replicas_ejected",
        "ERROR_SPREAD": "replica_error_spread",
        "TTFT_P95": "ttft_p95_s",
        "E2E_P95": "e2e_p95_s",
        "REQUEST_RATE": "request_rate_rps",
        "PROMPT_TOKEN_RATE": "prompt_token_rate_tps",
        "OUTPUT_TOKEN_RATE": "output_token_rate_tps",
        "PROMPT_P50": "prompt_tokens_p50",
        "PROMPT_P95": "prompt_tokens_p95",
    }
    same = ("ERROR_RATE", "RUNNING", "WAITING", "KV_USAGE", "SAMPLES", "TIME_OF_DAY")
    names |= {name: name.lower() for name in same}
    columns = {names[name]: getattr(observe, name) for name in names}
    assert columns == {field.name: k for k, field in enumerate(FIELDS)}


def busy_gateway(seed: int) -> tuple[Gateway, float]:
    """A gateway at its limits: queues, retries, timeouts, errors, evictions; and when it ends."""
    rng = np.random.default_rng(seed)
    n = 7500
    requests = Requests(
        np.sort(rng.uniform(0, 300, n)),
        rng.integers(1, 400, n).astype(np.int32),
        rng.integers(1, 200, n).astype(np.int32),
        1e6,
    )
    g = Gateway(
        requests,
        replicas=2,
        seed=seed,
        faults=[Fault("replica_errors", 60.0, 130.0, 0.6)],
        base_s=0.02,
        per_seq_s=0.0005,
        per_ctx_token_s=1e-7,
        per_prefill_token_s=2e-5,
        max_num_seqs=24,
        chunk_tokens=256,
        kv_blocks=400,
        router="least_outstanding",
        max_retries=1,
        retry_delay_s=1.5,
        request_timeout_s=15.0,
        cold_start_s=20.0,
    )
    return g, 400.0


@pytest.mark.parametrize("seed", [1, 2])
def test_windows_against_the_outcomes(seed: int) -> None:
    g, end_s = busy_gateway(seed)
    names = ["request_rate_rps", "samples", "ttft_p95_s", "e2e_p95_s"]
    names += ["prompt_tokens_p50", "prompt_tokens_p95", "prompt_token_rate_tps"]
    rows = []
    t = 0.0
    while t < end_s:
        t += 15.0
        g.tick(15.0, replicas=3 if t > 100 else 2, max_outstanding=330)
        truth = {name: g.truth(name) for name in ("ttft_p95_s", "error_rate")}
        rows.append((t, {name: g.seen(name) for name in names}, truth))
    assert g.counters["outstanding"] == 0
    arrival_s, out = g.requests.arrival_s, g.outcomes
    first_s, last_s = arrival_s + out.ttft_s, arrival_s + out.e2e_s
    failed, done = out.status >= 2, out.status == 1
    assert min(np.bincount(out.status, minlength=5)[1:]) > 10
    known = 0
    for now, seen, truth in rows:
        start = max(now - 60.0, 0.0)
        firsts = (first_s > start) & (first_s <= now)
        # a timeout is booked when the replica drops it, an iteration after its deadline at most
        bad = failed & (last_s > start) & (last_s <= now)
        answers = firsts.sum() + bad.sum()
        arrived = (arrival_s >= start) & (arrival_s < now)
        assert seen["request_rate_rps"] == pytest.approx(arrived.sum() / (now - start))
        assert seen["samples"] == firsts.sum()
        assert seen["prompt_token_rate_tps"] * (now - start) == pytest.approx(
            g.requests.prompt_tokens[firsts].sum()
        )
        enough = firsts.sum() >= 20
        known += enough
        ttfts = np.sort(out.ttft_s[firsts])
        assert np.isnan(seen["ttft_p95_s"]) != enough
        if enough:
            counts = np.bincount(np.searchsorted(TTFT_BOUNDS_S, ttfts), minlength=23).tolist()
            expected = prometheus_quantile(0.95, TTFT_BOUNDS_S.tolist(), counts)
            assert seen["ttft_p95_s"] == pytest.approx(expected)
        ended = done & (last_s > start) & (last_s <= now)
        if ended.sum() >= 20:
            counts = np.bincount(np.searchsorted(E2E_BOUNDS_S, out.e2e_s[ended]), minlength=22)
            expected = prometheus_quantile(0.95, E2E_BOUNDS_S.tolist(), counts.tolist())
            assert seen["e2e_p95_s"] == pytest.approx(expected)
            prompts = g.requests.prompt_tokens[ended]
            counts = np.bincount(np.searchsorted(PROMPT_BOUNDS, prompts), minlength=17)
            for q, name in ((0.5, "prompt_tokens_p50"), (0.95, "prompt_tokens_p95")):
                expected = prometheus_quantile(q, PROMPT_BOUNDS.tolist(), counts.tolist())
                assert seen[name] == pytest.approx(expected)
        if answers:
            assert truth["error_rate"] == pytest.approx(bad.sum() / answers, abs=0.02)
        waits = (arrival_s < now) & ~(first_s <= now) & ~(last_s <= now) & (now - arrival_s > 0.8)
        all_ttfts = np.sort(np.concatenate([ttfts, now - arrival_s[waits]]))
        if len(all_ttfts):
            rank = math.ceil(0.95 * len(all_ttfts)) - 1
            near = all_ttfts[
                max(rank - 1, 0) : rank + 2
            ]  # one may be past its deadline, not dropped
            assert np.abs(near - truth["ttft_p95_s"]).min() < 1e-9
    assert known > 10


def test_fewer_than_twenty_samples_are_no_quantile_but_the_truth_has_one() -> None:
    rows = [(1.0 + k, 1, 1) for k in range(19)]
    g = Gateway(rows)
    g.tick(60.0)
    for name in ("ttft_p95_s", "e2e_p95_s", "prompt_tokens_p50", "prompt_tokens_p95", "error_rate"):
        assert math.isnan(g.seen(name)), name
    assert g.seen("samples") == 19
    assert g.truth("ttft_p95_s") == 0.125
    assert g.truth("error_rate") == 0.0
    g = Gateway([*rows, (30.0, 1, 1)])
    g.tick(60.0)
    assert 0.1 < g.seen("ttft_p95_s") <= 0.25
    assert g.seen("error_rate") == 0.0


@pytest.mark.parametrize(("late", "p95_s"), [(4, 0.125), (5, 0.125), (6, 10.0)])
def test_the_true_p95_is_above_the_limit_with_more_than_five_percent(
    late: int, p95_s: float
) -> None:
    """Nearest rank: 5 of 100 over the limit are within it, 6 are not; waiting ones count by age."""
    rows = [(0.1 * k, 1, 1) for k in range(100 - late)] + [(50.0, 100_000, 1)] * late
    g = Gateway(rows, replicas=40, max_replicas=40)
    g.tick(60.0)
    assert g.truth("ttft_p95_s") == pytest.approx(p95_s)
    assert g.seen("ttft_p95_s") <= 0.25  # a histogram knows nothing of those who wait


def test_the_true_p95_is_exact_when_it_falls_and_rises() -> None:
    """Samples near the last P95 or above are looked at; all of them, once these are too few."""
    slow = [(0.5 * k, 100_000, 1) for k in range(40)]
    quick = [(100.0 + 0.5 * k, 1, 1) for k in range(200)]
    g = Gateway([*slow, *quick, (200.0, 50_000, 1)], replicas=80, max_replicas=80)
    found = []
    for _ in range(15):
        g.tick(15.0)
        found.append(g.truth("ttft_p95_s"))
    firsts_s = g.requests.arrival_s + g.outcomes.ttft_s
    for tick, p95_s in enumerate(found, start=1):
        window = (firsts_s > 15.0 * tick - 60.0) & (firsts_s <= 15.0 * tick)
        ttfts_s = np.sort(g.outcomes.ttft_s[window])
        if len(ttfts_s) > 0 and tick > 2:  # before, slow ones still wait
            assert p95_s == ttfts_s[math.ceil(0.95 * len(ttfts_s)) - 1], tick
    assert max(found) > 9.0
    assert min(found) == pytest.approx(0.125)


def test_who_waits_for_a_retry_counts_too() -> None:
    faults = [Fault("brown_out", 0.0, 1e3, 1.0)]
    g = Gateway([(6.0, 1, 1)], faults=faults, max_retries=1, retry_delay_s=20.0)
    g.tick(10.0)
    assert g.truth("ttft_p95_s") == pytest.approx(4.0)


def test_no_traffic_has_no_latency_and_no_error_rate() -> None:
    g = Gateway(requests_of([(9e5, 1, 1)]))
    g.tick(60.0)
    for name in ("ttft_p95_s", "error_rate"):
        assert math.isnan(g.truth(name))
    for name in ("request_rate_rps", "prompt_token_rate_tps", "output_token_rate_tps", "running"):
        assert g.seen(name) == 0.0
