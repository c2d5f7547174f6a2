"""The router `dynamic_weight`: its formula by hand, and that traffic follows it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gatepilot.envs.sim.faults import Fault

from .sim_kit import Gateway

MEMORY: dict[str, Any] = {
    "kv_blocks": 1000,
    "weights_gib": 40.0,
    "kv_gib": 40.0,
    "vram_gib": 100.0,
    "cpu_idle": 0.09,
}


def test_an_idle_replica_has_the_weight_of_the_formula() -> None:
    """CPU 0.09 of 0.9, memory 40 of 100, no latency: 0.4 x 0.9 + 0.35 x 0.6 + 0.25."""
    g = Gateway([(100.0, 1, 1)], replicas=2, router="dynamic_weight", **MEMORY)
    g.tick(8.0)
    assert g.places["weight"][0] == 1.0  # four samples: 14.4 % less, which is not published
    g.tick(2.0)
    assert g.places["weight"][0] == pytest.approx(0.82)


def test_latency_lowers_the_weight_of_a_slow_replica_and_its_traffic() -> None:
    rng = np.random.default_rng(3)
    rows = [(float(t), 1, 4) for t in np.sort(rng.uniform(0, 600, 6000))]
    slow = Fault("slow_replica", 0.0, 1e6, factor=40.0)
    g = Gateway(rows, replicas=4, faults=[slow], router="dynamic_weight", base_s=0.01, **MEMORY)
    g.tick(700.0)
    shares = np.bincount(g.outcomes.replica, minlength=4) / len(rows)
    bad = int(np.argmin(shares))
    weights = g.places["weight"][:4]
    assert weights[bad] == min(weights)
    expected = weights / weights.sum()
    assert shares == pytest.approx(expected, abs=0.03)


def test_without_any_weight_all_are_alike() -> None:
    full = {**MEMORY, "cpu_idle": 1.0, "weights_gib": 100.0, "base_s": 3.0}
    rows = [(0.5 * k, 1, 1) for k in range(1, 900)]
    g = Gateway(rows, replicas=3, router="dynamic_weight", **full)
    g.tick(1000.0)
    assert g.places["weight"][:3].tolist() == [0.0] * 3
    shares = np.bincount(g.outcomes.replica, minlength=3) / len(rows)
    assert shares == pytest.approx([1 / 3] * 3, abs=0.06)


def test_a_retry_avoids_the_replica_that_failed() -> None:
    rows = [(0.5 * k, 1, 1) for k in range(1, 200)]
    faults = [Fault("replica_errors", 0.0, 1e6, 1.0)]
    g = Gateway(rows, replicas=3, router="dynamic_weight", faults=faults, max_retries=1, **MEMORY)
    g.tick(200.0)
    assert set(g.status) == {"ok"}
