"""Metric faults at random: held against a second implementation, and what must always hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.envs.schema.fields import FIELD_INDEX
from gatepilot.envs.sim.faults import Fault
from gatepilot.envs.sim.metric_faults import MetricFault
from gatepilot.envs.workload.request import Requests

from .shown_scrapes import record, row, seen_row, stored, visible
from .sim_kit import Gateway

TICK_S = 15.0
TICKS = 24
MAX_REPLICAS = 4
ALWAYS_KNOWN = [FIELD_INDEX["replicas_requested"], FIELD_INDEX["breaker_threshold"]]


@st.composite
def metric_faults(draw: st.DrawFn) -> list[MetricFault]:
    """One to four faults that may overlap; some begin or end at scrapes, some between."""
    faults = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(
            st.sampled_from(["metrics_gap", "metrics_late", "metrics_stale", "counter_reset"])
        )
        start_s = draw(st.integers(0, 230)) + draw(st.sampled_from([0.0, 0.5]))
        end_s = start_s + draw(st.sampled_from([1.0, 5.0, 17.0, 45.0, 60.0, 100.0]))
        delay_s = draw(st.sampled_from([1.0, 5.0, 12.0, 40.0, 90.0]))
        late = kind == "metrics_late"
        faults.append(MetricFault(kind, start_s, end_s, delay_s if late else 0.0))
    return faults


class Case:
    """A busy gateway: failures, retries, ejections, cold starts, drains; replicas come and go."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        n = int(rng.integers(200, 3000))
        self.requests = Requests(
            np.sort(rng.uniform(0, TICKS * TICK_S, n)),
            rng.integers(1, 300, n).astype(np.int32),
            rng.integers(1, 80, n).astype(np.int32),
            1e6,
        )
        self.steps = rng.integers(1, MAX_REPLICAS + 1, TICKS)
        if rng.random() < 0.3:
            self.steps[:] = 2
        onset_s = float(rng.uniform(0, 200))
        self.plant: dict[str, Any] = {
            "replicas": int(self.steps[0]),
            "max_replicas": MAX_REPLICAS,
            "seed": seed,
            "faults": [
                Fault("replica_errors", onset_s, onset_s + 90, 0.8),
                Fault("brown_out", onset_s / 2, onset_s / 2 + 40, 0.3),
                Fault("crash", onset_s * 0.7, np.inf),
                Fault("hang", onset_s * 1.3, onset_s * 1.3 + 30),
                Fault("slow_replica", onset_s * 0.4, onset_s * 0.4 + 60, factor=2.0),
            ],
            "base_s": 0.02,
            "per_seq_s": 1e-3,
            "max_num_seqs": 16,
            "chunk_tokens": 128,
            "kv_blocks": 600,
            "router": "least_outstanding",
            "breaker_interval_s": 10.0,
            "max_retries": 1,
            "request_timeout_s": 8.0,
            "cold_start_s": float(rng.choice([0.0, 17.0])),
            "cold_start_spread": 0.3,
            "minimum_samples": int(rng.choice([1, 20])),
            "cpu_idle": 0.05,
            "cpu_per_iteration_s": 0.005,
            "cpu_per_token_s": 1e-4,
            "cpu_startup": 0.9,
            "weights_gib": 40.0,
            "kv_gib": 30.0,
            "vram_gib": 80.0,
        }

    def gateway(self, faults: list[MetricFault]) -> Gateway:
        return Gateway(self.requests, metric_faults=faults, **self.plant)

    def replicas(self, time_s: float) -> int:
        return int(self.steps[int(time_s // TICK_S)])


def check_every_row(seed: int, faults: list[MetricFault]) -> None:
    case = Case(seed)
    scrapes = record(case.gateway([]), TICKS * TICK_S, case.replicas)
    kept = stored(scrapes, faults)
    g = case.gateway(faults)
    for tick in range(TICKS):
        g.tick(TICK_S, replicas=case.replicas(tick * TICK_S))
        now_s = (tick + 1) * TICK_S
        expected = row(g, visible(kept, scrapes, faults, now_s), now_s)
        found = seen_row(g)
        assert found.keys() == expected.keys(), now_s
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9), now_s


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(0, 1 << 30), metric_faults())
def test_every_row_is_what_prometheus_would_answer(seed: int, faults: list[MetricFault]) -> None:
    check_every_row(seed, faults)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.integers(0, 1 << 30), metric_faults())
def test_five_hundred_times_every_row(seed: int, faults: list[MetricFault]) -> None:
    check_every_row(seed, faults)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 1 << 30), metric_faults())
def test_the_plant_knows_nothing_of_metric_faults(seed: int, faults: list[MetricFault]) -> None:
    """Truth and counters to the bit; the rows seen before and a window after them, too."""
    case = Case(seed)
    g, clean = case.gateway(faults), case.gateway([])
    first_s = min(f.start_s for f in faults)
    last_s = max(f.start_s if f.kind == "counter_reset" else f.end_s for f in faults)
    over_s = last_s + g.params.window_s + g.params.scrape_interval_s
    for tick in range(TICKS):
        replicas = case.replicas(tick * TICK_S)
        g.tick(TICK_S, replicas=replicas)
        clean.tick(TICK_S, replicas=replicas)
        assert g.engine.truth.tobytes() == clean.engine.truth.tobytes()
        assert g.counters == clean.counters
        settings_seen = g.engine.seen[0, ALWAYS_KNOWN]
        np.testing.assert_array_equal(settings_seen, clean.engine.seen[0, ALWAYS_KNOWN])
        now_s = (tick + 1) * TICK_S
        if now_s < first_s or now_s >= over_s:
            assert g.engine.seen.tobytes() == clean.engine.seen.tobytes(), now_s
    np.testing.assert_array_equal(g.outcomes.status, clean.outcomes.status)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.integers(0, 1 << 30),
    st.sampled_from(["metrics_gap", "metrics_late", "metrics_stale"]),
    st.integers(0, 100),
)
def test_a_blind_window_never_reads_as_success(seed: int, kind: str, start_s: int) -> None:
    """Once no fresh sample is left in the window there is no share and no latency."""
    case = Case(seed)
    fault = MetricFault(kind, start_s, 1e3, 1e3 if kind == "metrics_late" else 0.0)
    g = case.gateway([fault])
    blind = ["error_rate", "ttft_p95_s", "e2e_p95_s", "replica_error_spread"]
    if kind != "metrics_stale":  # old values under new times do have a rate: none
        blind += ["request_rate_rps", "prompt_token_rate_tps", "output_token_rate_tps"]
        blind += ["samples", "cpu_utilization"]
    for tick in range(TICKS):
        g.tick(TICK_S, replicas=case.replicas(tick * TICK_S))
        now_s = (tick + 1) * TICK_S
        if now_s - g.params.window_s >= start_s:
            assert blind == [name for name in blind if np.isnan(g.seen(name))], now_s
