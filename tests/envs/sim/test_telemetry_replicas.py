"""The part of a snapshot that is summed up over replicas: tokens, CPU, memory, error shares."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gatepilot.envs.sim.faults import Fault
from gatepilot.envs.sim.params import UNLIMITED_BLOCKS
from gatepilot.envs.workload.request import Requests

from .sim_kit import Gateway, requests_of

QUIET = requests_of([(9e5, 1, 1)])
CPU: dict[str, Any] = {
    "cpu_idle": 0.1,
    "cpu_per_iteration_s": 0.02,
    "cpu_per_token_s": 0.004,
    "cpu_startup": 0.5,
}


def test_tokens_and_cpu_within_one_long_segment() -> None:
    """One answer decodes all the time: eight iterations and eight tokens a second, nothing ends."""
    g = Gateway([(0.0, 1, 4000)], replicas=1, **CPU)
    g.tick(120.0)
    assert g.seen("output_token_rate_tps") == 8.0
    assert g.seen("cpu_utilization") == pytest.approx(0.1 + 8 * 0.02 + 8 * 0.004)
    assert g.seen("running") == 1
    assert g.seen("waiting") == 0


def test_the_cpu_pays_for_prefill_chunk_by_chunk() -> None:
    """Half prefilled: 512 tokens an iteration, and none of the prompt has been counted yet."""
    g = Gateway([(0.0, 10**6, 1)], replicas=1, **CPU)
    g.tick(60.0)
    assert g.seen("prompt_token_rate_tps") == g.seen("output_token_rate_tps") == 0.0
    assert g.seen("cpu_utilization") == 1.0  # clipped
    assert g.params.kv_blocks == UNLIMITED_BLOCKS
    assert math.isnan(g.seen("kv_usage"))  # memory that is not modelled has no usage


def test_a_prompt_counts_whole_with_its_first_token() -> None:
    """1,200 tokens take three chunks, until 0.375 s; then comes one token every eighth of a second.

    Rates over request rate are the mean lengths: 1,200 and 4.
    """
    g = Gateway([(0.0, 1200, 4)], replicas=1)
    counted = []
    for seconds in (0.25, 0.125, 0.375, 59.25):
        g.tick(seconds)
        counted.append((int(g.places["prompt_tokens"][0]), int(g.places["output_tokens"][0])))
    assert counted == [(0, 0), (1200, 1), (1200, 4), (1200, 4)]
    assert g.seen("prompt_token_rate_tps") / g.seen("request_rate_rps") == pytest.approx(1200)
    assert g.seen("output_token_rate_tps") / g.seen("request_rate_rps") == pytest.approx(4)


def test_a_cached_prefix_counts_and_what_an_eviction_computes_again_does_not() -> None:
    """As vLLM counts: the prompt's length, once."""
    turns = Requests(
        np.array([1.0, 10.0]),
        np.array([100, 300], np.int32),
        np.array([1, 1], np.int32),
        1e6,
        prefix_hit_tokens=np.array([0, 100], np.int32),
        prefix_parent=np.array([-1, 0]),
    )
    g = Gateway(turns, replicas=1, prefix_cache=1)
    g.tick(60.0)
    assert g.counters["prefix_hit_tokens"] == 100
    assert g.seen("prompt_token_rate_tps") * 60 == pytest.approx(400)
    assert g.places["tokens"][0] == 300
    crowd = Gateway([(0.0, 100, 200)] * 4, replicas=1, kv_blocks=40)
    crowd.tick(300.0)
    assert crowd.status == ["ok"] * 4
    assert crowd.outcomes.restarts.sum() > 0
    assert crowd.places["prompt_tokens"][0] == 400
    assert crowd.places["output_tokens"][0] == 800
    assert crowd.places["tokens"][0] > 400 + 800 - 4


@pytest.mark.parametrize("seconds", [5.0, 10.0, 60.0, 85.0])
def test_kv_usage_grows_within_a_segment(seconds: float) -> None:
    """After k iterations the prompt and k tokens are there, and the next one's block is granted."""
    g = Gateway([(0.0, 100, 2000)], replicas=1, kv_blocks=1000)
    g.tick(seconds)
    tokens = 100 + 8 * seconds
    assert g.seen("kv_usage") == math.ceil(tokens / 16) / 1000


def test_vram_is_weights_and_kv_in_use_over_all() -> None:
    memory: dict[str, Any] = {"weights_gib": 40.0, "kv_gib": 30.0, "vram_gib": 80.0}
    g = Gateway([(0.0, 100, 2000)], replicas=1, kv_blocks=1000, **memory)
    g.tick(60.0)
    assert g.seen("vram_utilization") == pytest.approx((40 + 30 * g.seen("kv_usage")) / 80)
    g = Gateway([(0.0, 100, 2000)], replicas=1, kv_blocks=1000)
    g.tick(60.0)
    assert math.isnan(g.seen("vram_utilization"))


def test_means_are_over_ready_replicas() -> None:
    g = Gateway([(0.0, 100, 4000)], replicas=2, kv_blocks=1000, **CPU)
    g.tick(60.0)
    one = Gateway([(0.0, 100, 4000)], replicas=1, kv_blocks=1000, **CPU)
    one.tick(60.0)
    assert g.seen("kv_usage") == pytest.approx(one.seen("kv_usage") / 2)
    assert g.seen("cpu_utilization") == pytest.approx((one.seen("cpu_utilization") + 0.1) / 2)


def test_a_cold_start_shows_its_cpu_once_the_replica_is_ready() -> None:
    g = Gateway(QUIET, replicas=1, cold_start_s=20.0, **CPU)
    g.tick(60.0)
    g.tick(15.0, replicas=2)
    assert g.seen("replicas_starting") == 1
    assert g.seen("cpu_utilization") == pytest.approx(0.1)
    g.tick(15.0)
    assert g.seen("replicas_ready") == 2
    second = (20 * 0.5 + 10 * 0.1) / 30
    assert g.seen("cpu_utilization") == pytest.approx((0.1 + second) / 2)


def test_with_none_ready_there_is_no_mean() -> None:
    g = Gateway(QUIET, replicas=0, cold_start_s=100.0)
    g.tick(60.0, replicas=2)
    for name in ("cpu_utilization", "kv_usage", "vram_utilization", "replica_error_spread"):
        assert math.isnan(g.seen(name))
    assert g.seen("replicas_ready") == 0
    assert g.seen("replicas_requested") == g.seen("replicas_starting") == 2


def test_a_place_used_again_starts_its_counters_from_zero() -> None:
    """Two busy replicas for a minute; the second is replaced by one that does nothing."""
    rows = [(0.0, 1, 800), (0.0, 1, 480)]
    g = Gateway(rows, replicas=2, cold_start_s=0.0, **CPU)
    g.tick(60.0)
    assert g.seen("output_token_rate_tps") == 16.0
    g.tick(5.0, replicas=1)
    assert g.states == ["ready"]
    assert g.seen("output_token_rate_tps") == 8.0
    g.tick(5.0, replicas=2)
    assert g.places["incarnation"][1] == 2
    assert g.seen("output_token_rate_tps") == 8.0
    assert g.seen("cpu_utilization") == pytest.approx((0.1 + 8 * 0.024 + 0.1) / 2)


def test_a_draining_replica_counts_with_its_tokens_but_not_in_the_means() -> None:
    g = Gateway([(0.0, 1, 800), (0.0, 1, 800)], replicas=2, **CPU)
    g.tick(60.0)
    g.tick(15.0, replicas=1)
    assert g.seen("replicas_draining") == 1
    assert g.seen("running") == 2
    assert g.seen("output_token_rate_tps") == 16.0
    assert g.seen("cpu_utilization") == pytest.approx(0.1 + 8 * 0.024)


def test_the_error_spread_is_the_highest_minus_the_median_share() -> None:
    rows = [(0.1 * k, 1, 1) for k in range(600)]
    one = Gateway(rows, replicas=3, faults=[Fault("replica_errors", 0.0, 1e3, 1.0)])
    one.tick(60.0)
    assert one.seen("replica_error_spread") == 1.0
    everyone = Gateway(rows, replicas=3, faults=[Fault("brown_out", 0.0, 1e3, 1.0)])
    everyone.tick(60.0)
    assert everyone.seen("replica_error_spread") == 0.0
    four = Gateway(rows, replicas=4, faults=[Fault("brown_out", 0.0, 1e3, 0.3)])
    four.tick(60.0)
    shares = np.sort(four.places["failures"][:4] / four.places["answers"][:4])
    assert four.seen("replica_error_spread") == pytest.approx(shares[3] - np.median(shares))


def test_too_few_answers_have_no_error_spread() -> None:
    g = Gateway([(0.1 * k, 1, 1) for k in range(18)], replicas=2)
    g.tick(60.0)
    assert math.isnan(g.seen("replica_error_spread"))


def test_what_left_the_window_is_gone_from_it() -> None:
    rows = [(0.1 * k, 1, 1) for k in range(1, 300)]
    g = Gateway(rows, replicas=2)
    g.tick(60.0)
    assert g.seen("request_rate_rps") == pytest.approx(299 / 60)
    g.tick(60.0)
    assert g.seen("request_rate_rps") == 0.0
    assert g.seen("samples") == 0.0
    assert math.isnan(g.seen("ttft_p95_s"))
    assert math.isnan(g.truth("ttft_p95_s"))
