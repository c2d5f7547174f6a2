"""What a replica has computed of a prompt it does not compute again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gatepilot.envs.sim.faults import Fault
from gatepilot.envs.sim.whole_run import simulate
from gatepilot.envs.workload.request import Requests

from .sim_kit import PLAIN, Gateway

CACHE: dict[str, Any] = {"prefix_cache": 1, "per_prefill_token_s": 0.01, "chunk_tokens": 10_000}


def conversation(rows: list[tuple[float, int, int, int]], span_s: float = 1e6) -> Requests:
    """Requests from (arrival, prompt, hit, parent); each answers with one token."""
    arrival, prompt, hit, parent = (np.array(column) for column in zip(*rows, strict=True))
    return Requests(
        arrival.astype(float),
        prompt.astype(np.int32),
        np.ones(len(rows), np.int32),
        span_s,
        prefix_hit_tokens=hit.astype(np.int32),
        prefix_parent=parent.astype(np.int64),
    )


TWO_TURNS = conversation([(1.0, 100, 0, -1), (10.0, 300, 100, 0), (20.0, 300, 299, 1)])


def test_a_hit_is_not_computed() -> None:
    g = Gateway(TWO_TURNS, replicas=1, **CACHE)
    g.tick(60.0)
    assert g.outcomes.ttft_s.tolist() == pytest.approx([1.125, 2.125, 0.135])
    assert g.counters["prompt_tokens"] == 700
    assert g.counters["prefix_hit_tokens"] == 399


def test_without_the_cache_all_is_computed() -> None:
    g = Gateway(TWO_TURNS, replicas=1, **(CACHE | {"prefix_cache": 0}))
    g.tick(60.0)
    assert g.outcomes.ttft_s.tolist() == pytest.approx([1.125, 3.125, 3.125])


def test_only_the_replica_that_computed_it_has_it() -> None:
    """Round robin: the second turn goes to the other replica, the third back to the first."""
    rows = [(1.0, 100, 0, -1), (10.0, 300, 100, 0), (20.0, 300, 100, 0), (30.0, 400, 300, 1)]
    g = Gateway(conversation(rows), replicas=2, **CACHE)
    g.tick(60.0)
    assert g.outcomes.replica.tolist() == [0, 1, 0, 1]
    assert g.outcomes.ttft_s.tolist() == pytest.approx([1.125, 3.125, 2.125, 1.125])


def test_a_prompt_still_being_computed_is_no_hit() -> None:
    g = Gateway(conversation([(1.0, 100, 0, -1), (1.5, 300, 100, 0)]), replicas=1, **CACHE)
    g.tick(60.0)
    assert g.outcomes.ttft_s[1] == pytest.approx(2.125 - 1.5 + 3.125)


def test_a_replacement_has_an_empty_cache() -> None:
    crash = Fault("crash", 5.0, 5.0)
    g = Gateway(TWO_TURNS, replicas=1, faults=[crash], cold_start_s=1.0, **CACHE)
    g.tick(60.0)
    assert g.outcomes.ttft_s.tolist() == pytest.approx([1.125, 3.125, 0.135])


def test_blocks_are_taken_for_the_whole_prompt() -> None:
    g = Gateway(TWO_TURNS, replicas=1, kv_blocks=1000, **CACHE)
    g.tick(10.5)
    assert g.places["prefill_blocks"][0] == 19  # 300 tokens


def test_an_episode_begins_with_empty_caches() -> None:
    g = Gateway(TWO_TURNS, replicas=1, **CACHE)
    for _ in range(2):
        g.engine.reset(
            np.zeros(1, np.int64),
            seeds=np.ones(1, np.uint64),
            workloads=np.zeros(1, np.int64),
            start_s=np.array([5.0]),  # after the first turn
            warmup_s=0.0,
            replicas=np.ones(1, np.int64),
            threshold_percent=np.array([50]),
            faults=[[]],
        )
        g.tick(60.0)
        assert g.counters["prefix_hit_tokens"] == 299  # the third finds the second's, not the first


def test_whole_runs_use_the_cache_too() -> None:
    params = {"scrape_interval_s": 0.0, **CACHE}
    values = {name: getattr(PLAIN, name) for name in PLAIN.__slots__} | params
    run = simulate(TWO_TURNS, type(PLAIN)(**values), replicas=1)
    assert run.outcomes.ttft_s.tolist() == pytest.approx([1.125, 2.125, 0.135])
