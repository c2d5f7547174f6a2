"""Nothing is lost, nothing grows beyond its room, and the same seed gives the same bytes."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gatepilot.envs.schema.fields import FIELD_INDEX, FIELDS
from gatepilot.envs.sim.faults import KINDS, Fault
from gatepilot.envs.sim.params import NO_LIMIT, UNLIMITED_BLOCKS
from gatepilot.envs.sim.router import ROUTERS
from gatepilot.envs.workload.request import Requests

from .sim_kit import Gateway

MAX_REPLICAS = 5
TICKS = 25


def draw_gateway(rng: np.random.Generator) -> Gateway:
    """All at once: overload, evictions, retries, breaker, timeouts, faults, starts, drains."""
    n = int(rng.integers(1, 1500))
    span_s = float(rng.choice([30.0, 200.0]))
    longest = int(rng.choice([4, 60, 400]))
    requests = Requests(
        np.sort(rng.uniform(0, span_s, n)),
        rng.integers(1, longest + 1, n).astype(np.int32),
        rng.integers(1, longest + 1, n).astype(np.int32),
        1e6,
    )
    block_tokens = int(rng.choice([1, 4, 16]))
    max_num_seqs = int(rng.choice([1, 4, 32]))
    onset = float(rng.uniform(0, 100))
    changes: dict[str, Any] = {
        "base_s": rng.uniform(0.002, 0.05),
        "per_seq_s": rng.uniform(0, 1e-3),
        "per_ctx_token_s": rng.uniform(0, 1e-6),
        "per_prefill_token_s": rng.uniform(0, 1e-4),
        "max_num_seqs": max_num_seqs,
        "chunk_tokens": max_num_seqs + int(rng.choice([0, 16, 256])),
        "block_tokens": block_tokens,
        "kv_blocks": int(rng.choice([UNLIMITED_BLOCKS, 3 * longest // block_tokens + 3])),
        "router": str(rng.choice(ROUTERS)),
        "breaker_interval_s": 10.0,
        "request_volume": 3,
        "max_ejection_percent": float(rng.choice([20, 50, 100])),
        "max_retries": int(rng.integers(0, 4)),
        "retry_delay_s": float(rng.choice([0.0, 0.025, 3.0])),
        "request_timeout_s": float(rng.choice([0.05, 2.0, 30.0, np.inf])),
        "cold_start_s": float(rng.choice([0.0, 20.0])),
        "cold_start_spread": 0.3,
        "drain_min_s": float(rng.choice([0.0, 30.0])),
        "cpu_idle": 0.05,
        "cpu_per_iteration_s": 0.01,
        "cpu_per_token_s": 1e-4,
        "cpu_startup": 0.9,
        "max_ejection_jitter_s": float(rng.choice([0.0, 15.0])),
        "enforcing_percent": int(rng.choice([100, 60])),
        "always_eject_one_host": int(rng.integers(0, 2)),
        "consecutive_5xx": int(rng.choice([0, 3])),
        "panic_percent": int(rng.choice([0, 50])),
        "timeout_step_s": float(rng.choice([0.0, 5.0])),
        "timeout_step_tokens": 32,
        "max_waiting": int(rng.choice([NO_LIMIT, 30])),
        "max_pending": int(rng.choice([0, 40])),
        "client_retries": int(rng.choice([0, 0, 3])),
        "client_retry_delay_s": float(rng.choice([0.2, 4.0])),
        "bucket_rps": float(rng.choice([np.inf, 4.0])),
        "bucket_size": 20.0,
        "replica_bucket_rps": float(rng.choice([np.inf, 2.0])),
        "replica_bucket_size": 10.0,
        "kv_limit_rps": float(rng.choice([np.inf, 20.0])),
        "lazy_load_s": float(rng.choice([0.0, 0.0, 12.0])),
    }
    changes["error_limit"] = int(np.isfinite(changes["bucket_rps"]) and rng.integers(0, 2))
    if changes["router"] == "dynamic_weight":
        changes["kv_blocks"] = max(3 * longest // block_tokens + 3, 50)
    faults = [
        Fault(
            kind,
            begin := onset * float(rng.uniform(0, 2)),
            begin if kind == "crash" else begin + float(rng.uniform(5, 120)),
            error_share=float(rng.uniform(0, 1)),
            factor=float(rng.uniform(1, 4)),
            period_s=float(rng.uniform(2, 30)),
            max_shift_s=20.0,
        )
        for kind in KINDS
        if rng.random() < 0.5
    ]
    return Gateway(
        requests,
        replicas=int(rng.integers(1, MAX_REPLICAS + 1)),
        max_replicas=MAX_REPLICAS,
        faults=faults,
        seed=int(rng.integers(1 << 30)),
        **changes,
    )


def run_and_check(seed: int) -> tuple[str, NDArray[np.int64]]:
    """One random gateway under random settings; a hash of all rows, and how its requests ended."""
    rng = np.random.default_rng(seed)
    g = draw_gateway(rng)
    digest = hashlib.sha256()
    billed_s, most_billed_s = 0.0, 0.0
    for _ in range(TICKS):
        limit = None if rng.random() < 0.8 else int(rng.integers(0, 40))
        g.threshold_percent = 5 * int(rng.integers(1, 20))
        g.tick(15.0, replicas=int(rng.integers(1, MAX_REPLICAS + 1)), max_outstanding=limit)
        most_billed_s += 15.0 * 2 * MAX_REPLICAS
        check(g, billed_s, most_billed_s)
        billed_s = g.counters["billed_s"]
        digest.update(g.engine.seen.tobytes())
        digest.update(g.engine.truth.tobytes())
    return digest.hexdigest(), np.bincount(g.outcomes.status, minlength=5)


def check(g: Gateway, billed_before_s: float, most_billed_s: float) -> None:
    c = g.counters
    ended = c["ok"] + c["error"] + c["timeout"] + c["shed"]
    assert c["arrived"] == ended + c["outstanding"]
    if g.each_once:  # neither copies nor second tries: a result a row
        ends = [c[status] for status in ("ok", "error", "timeout", "shed")]
        assert np.bincount(g.outcomes.status, minlength=5)[1:].tolist() == ends
    assert c["first_tokens"] == c["cool"] + c["warm"] + c["hot"] + c["burning"]
    assert billed_before_s <= c["billed_s"] <= most_billed_s
    places = g.places
    alive = places["state"] != 0
    waits_for_retry = g.env["retry_tail"] - g.env["retry_head"]
    at_gateway = waits_for_retry + g.env["pending"]
    assert places["outstanding"][alive].sum() + at_gateway == c["outstanding"]
    assert 0 <= g.env["pending"] <= g.params.max_pending
    assert c["returning"] >= 0
    assert (places["bucket"][alive] >= 0).all()
    assert 0 <= g.env["retrying"] <= c["outstanding"]
    assert g.env["ejected"] == places["ejected"][places["state"] == 2].sum()
    assert np.isin(places["state"], [1, 2]).sum() <= g.replicas <= MAX_REPLICAS
    for r in np.flatnonzero(alive).tolist():
        rep = places[r]
        assert rep["waiting"] + rep["held"] == rep["outstanding"]
        assert 0 <= rep["decoding"] <= rep["held"] <= g.params.max_num_seqs
        assert rep["prefill_blocks"] >= 0
        assert max(g.blocks_held(r)) <= g.params.kv_blocks
    for rows in (g.engine.seen[0], g.engine.truth[0]):
        for k, field in enumerate(FIELDS):
            assert not rows[k] < field.low, field.name
            if field.unit == "0-1":
                assert not rows[k] > 1.0, field.name
        total = sum(rows[FIELD_INDEX[f"replicas_{s}"]] for s in ("ready", "starting", "draining"))
        assert total == alive.sum()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 1 << 31))
def test_conservation(seed: int) -> None:
    run_and_check(seed)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_conservation_of_fifteen_hundred_gateways() -> None:
    statuses = np.sum([run_and_check(10**6 + seed)[1] for seed in range(1500)], axis=0)
    assert statuses[1:].min() > 1000


def test_the_same_seed_gives_the_same_bytes() -> None:
    for seed in range(5):
        assert run_and_check(seed)[0] == run_and_check(seed)[0]


def test_the_random_gateways_reach_every_end() -> None:
    statuses = np.sum([run_and_check(seed)[1] for seed in range(20)], axis=0)
    assert statuses[1:].min() > 100
