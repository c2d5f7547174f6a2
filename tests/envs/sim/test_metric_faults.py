"""Metric faults, by hand: what each kind shows of a gateway whose counters grow evenly.

Two requests a second, scrapes every 5 s, a window of 60 s. After t seconds 2 t have arrived, and as
many first tokens have come.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gatepilot.envs.schema.fields import FIELDS
from gatepilot.envs.sim.metric_faults import METRIC_FAULT_KINDS, MetricFault, packed_metric_faults

from .sim_kit import Gateway

EVEN = [(0.5 * k, 1, 1) for k in range(2000)]
SIZES: dict[str, Any] = {"kv_blocks": 1000, "weights_gib": 40.0, "kv_gib": 30.0, "vram_gib": 80.0}
CPU: dict[str, Any] = {"cpu_idle": 0.1, "cpu_per_iteration_s": 0.02, "cpu_per_token_s": 0.004}
WINDOWED = ("request_rate_rps", "samples", "error_rate", "ttft_p95_s", "e2e_p95_s")
TOKEN_RATES = ("prompt_token_rate_tps", "output_token_rate_tps")
OF_NEWEST = (
    *("replicas_ready", "replicas_starting", "replicas_draining", "replicas_ejected"),
    *("running", "waiting", "kv_usage", "vram_utilization"),
    *TOKEN_RATES,
    *("cpu_utilization", "replica_error_spread"),
)
SETTINGS = ("replicas_requested", "breaker_threshold")


def gap(start_s: float, end_s: float) -> MetricFault:
    return MetricFault("metrics_gap", start_s, end_s)


def late(start_s: float, end_s: float, delay_s: float) -> MetricFault:
    return MetricFault("metrics_late", start_s, end_s, delay_s)


def stale(start_s: float, end_s: float) -> MetricFault:
    return MetricFault("metrics_stale", start_s, end_s)


def reset(at_s: float) -> MetricFault:
    return MetricFault("counter_reset", at_s)


class Watched:
    """One gateway with metric faults and its twin without."""

    def __init__(
        self,
        faults: Sequence[MetricFault],
        rows: Sequence[tuple[float, int, int]] = EVEN,
        **more: Any,  # noqa: ANN401
    ) -> None:
        self.faulty = Gateway(rows, metric_faults=faults, **(SIZES | CPU | more))
        self.clean = Gateway(rows, **(SIZES | CPU | more))
        self.now_s = 0.0

    def to(self, time_s: float, replicas: int | None = None) -> Gateway:
        for g in (self.faulty, self.clean):
            g.tick(time_s - self.now_s, replicas=replicas)
        self.now_s = time_s
        np.testing.assert_array_equal(self.faulty.engine.truth, self.clean.engine.truth)
        return self.faulty

    @property
    def is_clean(self) -> bool:
        """To the bit."""
        return self.faulty.engine.seen.tobytes() == self.clean.engine.seen.tobytes()


def missing(g: Gateway) -> set[str]:
    return {field.name for field in FIELDS if math.isnan(g.seen(field.name))} - {"time_of_day"}


def test_a_gap_takes_gauges_at_once_and_leaves_rates_of_what_is_left() -> None:
    w = Watched([gap(61.0, 91.0)])
    w.to(60.0)
    assert w.is_clean
    g = w.to(90.0)  # left of [30, 90]: 30 ... 60; carried on by half an interval
    assert missing(g) == set(OF_NEWEST)
    assert g.seen("samples") == pytest.approx(60 * 32.5 / 30)
    assert g.seen("request_rate_rps") == pytest.approx(65 / 60)
    assert g.seen("error_rate") == 0.0
    g = w.to(105.0)  # 45 ... 60 and 95 ... 105: nothing is lost, counters are cumulative
    assert missing(g) == set()
    assert g.seen("request_rate_rps") == pytest.approx(2.0)
    g = w.to(135.0)  # 95 ... 135 of [75, 135]
    assert g.seen("request_rate_rps") == pytest.approx(80 * 42.5 / 40 / 60)
    g = w.to(150.0)  # 95 is near enough to 90: carried on to the boundary
    assert g.seen("request_rate_rps") == pytest.approx(2.0)
    w.to(155.0)
    assert w.is_clean


def test_a_gap_of_a_window_leaves_nothing_but_the_settings() -> None:
    w = Watched([gap(61.0, 200.0)])
    assert missing(w.to(110.0)) == set(OF_NEWEST)  # 50, 55, 60
    for time_s in (120.0, 135.0, 195.0):  # 60 alone; none
        g = w.to(time_s)
        assert missing(g) | set(SETTINGS) == {f.name for f in FIELDS} - {"time_of_day"}
        assert g.seen("replicas_requested") == 2
        assert g.seen("breaker_threshold") == 0.5
    g = w.to(200.0)  # the first one after it: gauges, and one sample has no rate
    assert missing(g).isdisjoint({"running", "replicas_ready", "kv_usage", "vram_utilization"})
    assert {*TOKEN_RATES, "cpu_utilization", *WINDOWED} <= missing(g)


def test_a_missing_scrape_within_the_window_changes_nothing_but_rounding() -> None:
    """All columns of the stored row against those of the usual one."""
    w = Watched([gap(121.0, 126.0)])
    for time_s in (135.0, 150.0, 165.0):
        w.to(time_s)
        assert not w.is_clean or time_s > 165
        np.testing.assert_allclose(w.faulty.engine.seen, w.clean.engine.seen, rtol=1e-12)


def test_late_samples_are_seen_as_of_then() -> None:
    rows = sorted([*EVEN, (72.0, 1, 4000)])
    w = Watched([late(61.0, 121.0, 20.0)], rows)
    g = w.to(75.0)  # what was there at the onset stays: 15 ... 60
    assert g.seen("samples") == pytest.approx(90 * 47.5 / 45)
    assert g.seen("running") == 0
    g = w.to(90.0)  # 30 ... 70
    assert g.seen("samples") == pytest.approx(80 * 42.5 / 40)
    assert g.seen("running") == 0
    assert w.clean.seen("running") == 1
    g = w.to(105.0)  # 45 ... 85
    assert g.seen("running") == 1
    assert missing(g) == set()
    w.to(125.0)  # what was on its way has come
    assert w.is_clean


def test_samples_later_than_a_window_have_no_rates_later_than_the_lookback_nothing() -> None:
    w = Watched([late(61.0, 1000.0, 400.0)])
    g = w.to(75.0)
    assert missing(g) == set()
    g = w.to(120.0)
    assert missing(g) >= set(WINDOWED)
    assert g.seen("replicas_ready") == 2
    assert w.to(360.0).seen("replicas_ready") == 2
    g = w.to(365.0)
    assert missing(g) | set(SETTINGS) == {f.name for f in FIELDS} - {"time_of_day"}
    w = Watched([late(61.0, 1000.0, 200.0)])
    w.to(165.0, replicas=2)
    w.to(170.0, replicas=3)
    assert w.to(360.0).seen("replicas_ready") == 2  # as of 160
    assert w.to(370.0).seen("replicas_ready") == 3


def test_stale_values_stand_still_and_catch_up_at_once() -> None:
    rows = sorted([*EVEN, (72.0, 1, 4000)])
    w = Watched([stale(61.0, 121.0)], rows)
    g = w.to(90.0)  # 30 ... 60, then the same again
    assert g.seen("request_rate_rps") == 60 / 60
    assert g.seen("running") == 0
    g = w.to(120.0)
    for name in ("request_rate_rps", "samples", *TOKEN_RATES, "cpu_utilization"):
        assert g.seen(name) == 0.0
    unknown = {"error_rate", "ttft_p95_s", "e2e_p95_s", "prompt_tokens_p50", "prompt_tokens_p95"}
    assert missing(g) == {*unknown, "replica_error_spread"}
    assert g.seen("running") == 0
    g = w.to(135.0)  # 75 ... 120 show 120 arrivals, 125 shows 251
    assert g.seen("request_rate_rps") == pytest.approx((271 - 120) / 60)
    assert g.seen("running") == 1
    g = w.to(180.0)
    assert g.seen("request_rate_rps") == pytest.approx((361 - 120) / 60)
    w.to(185.0)
    assert w.is_clean


def test_old_values_begin_with_the_last_good_scrape() -> None:
    """A frozen exporter behind a scrape that failed."""
    w = Watched([gap(56.0, 61.0), stale(61.0, 121.0)])
    g = w.to(90.0)  # 30 ... 55, gap at 60, then those of 55
    assert g.seen("request_rate_rps") == pytest.approx(50 / 60)


def test_nothing_is_older_than_the_first_scrape() -> None:
    w = Watched([stale(0.0, 31.0)])
    assert missing(w.to(30.0)) >= {*WINDOWED, *OF_NEWEST}
    g = w.to(60.0)  # 35 ... 60; the counter's zero lies 35 s back, half an interval is nearer
    assert g.seen("samples") == pytest.approx(50 * 27.5 / 25)


def test_a_reset_loses_one_interval_and_is_never_negative() -> None:
    w = Watched([reset(152.0)])
    w.to(150.0)
    assert w.is_clean
    for time_s in (155.0, 165.0, 210.0):  # (150, 155] is lost
        g = w.to(time_s)
        assert g.seen("request_rate_rps") == pytest.approx(110 / 60)
        assert g.seen("samples") == pytest.approx(110)
        assert g.seen("running") == w.clean.seen("running")
        assert missing(g) == set()
    assert w.to(215.0).seen("request_rate_rps") == 2.0  # [155, 215]
    w.to(220.0)
    assert w.is_clean


def test_a_reset_behind_a_gap_is_noticed_by_a_smaller_value_alone() -> None:
    w = Watched([gap(51.0, 71.0), reset(52.0)])  # 100 at 50; then 40 at 75
    g = w.to(90.0)
    assert g.seen("samples") == pytest.approx(110)
    w = Watched([gap(11.0, 61.0), reset(12.0)])  # 20 at 10; then 100 at 65
    g = w.to(70.0)
    assert g.seen("samples") == pytest.approx(90)


def test_resets_in_a_row_lose_one_interval_each() -> None:
    w = Watched([reset(152.0), reset(157.0), reset(170.0)])
    assert w.to(180.0).seen("samples") == pytest.approx(90)


def test_a_removed_replica_does_not_count_however_old_the_values() -> None:
    """Two replicas decode 8 tokens a second; the second ends at 60 s and is taken away."""
    rows = [(0.0, 1, 1600), (0.0, 1, 480)]
    for fault in (stale(41.0, 500.0), gap(41.0, 64.0), reset(41.0)):
        w = Watched([fault], rows)
        assert w.to(40.0).seen("running") == 2
        w.to(60.0)
        g = w.to(65.0, replicas=1)
        assert g.states == ["ready"]
        assert g.seen("running") == 1, fault
        assert g.seen("replica_error_spread") != 1
    assert g.seen("output_token_rate_tps") == pytest.approx(8 * 55 / 60)
    w = Watched([stale(41.0, 500.0)], rows)
    w.to(60.0)
    g = w.to(65.0, replicas=1)
    there = 8 * 35 / 60  # the one that is there, 5 ... 40
    assert g.seen("output_token_rate_tps") == pytest.approx(there)
    alone = Gateway(rows[:1], replicas=1, **SIZES)
    alone.tick(40.0)
    assert g.seen("kv_usage") == alone.seen("kv_usage")
    assert g.seen("replicas_ready") == 2  # the cluster's own count is as old as the rest


def test_late_samples_of_a_removed_replica_go_when_time_has_come() -> None:
    rows = [(0.0, 1, 1600), (0.0, 1, 480)]
    w = Watched([late(41.0, 500.0, 20.0)], rows)
    w.to(60.0)
    assert w.to(75.0, replicas=1).seen("running") == 2  # as of 55
    assert w.to(80.0).seen("running") == 1  # as of 60, after its answer
    assert w.to(85.0).seen("replicas_ready") == 1


def test_a_replica_that_came_unseen_counts_from_its_first_sample() -> None:
    """A second one decodes from 90 s on; its tokens before 125 s are no increase."""
    rows = [(0.0, 1, 1600), (90.0, 1, 1600)]
    w = Watched([stale(61.0, 121.0)], rows, replicas=1, router="round_robin")
    w.to(75.0)
    g = w.to(120.0, replicas=2)
    assert g.seen("running") == 1
    g = w.to(135.0)
    assert g.seen("running") == 2
    first = 8 * (135 - 60)  # caught up
    assert g.seen("output_token_rate_tps") == pytest.approx((first + 8 * 10) / 60)
    assert g.seen("prompt_token_rate_tps") == 0.0
    w.to(185.0)
    assert w.is_clean


def test_a_gateway_with_room_and_no_fault_is_the_gateway_without() -> None:
    far = [gap(1e5, 2e5)] * 3
    w = Watched(far)
    for time_s in (15.0, 60.0, 90.0, 300.0):
        w.to(time_s)
        assert w.is_clean
    assert (w.faulty.engine._state.stored_scrapes["number"] < 0).all()  # nothing was stored


def test_a_new_episode_forgets_the_faults_of_the_last() -> None:
    w = Watched([stale(61.0, 500.0), reset(30.0)])
    w.to(120.0)
    for g, faults in ((w.faulty, [[gap(1e5, 2e5)]]), (w.clean, [[]])):
        g.engine.reset(
            np.zeros(1, np.int64),
            seeds=np.ones(1, np.uint64),
            workloads=np.zeros(1, np.int64),
            start_s=np.zeros(1),
            warmup_s=60.0,
            replicas=np.array([2]),
            threshold_percent=np.array([50]),
            faults=[[]],
            metric_faults=faults,
        )
    assert w.is_clean
    w.to(180.0)
    assert w.is_clean


def test_times_count_from_the_end_of_the_warm_up() -> None:
    records = packed_metric_faults([late(10.0, 20.0, 5.0), reset(30.0)], 3, 60.0)
    assert records["kind"].tolist()[:2] == [1, 3]
    assert records["start"].tolist() == [70.0, 90.0, math.inf]
    assert records["end"].tolist() == [80.0, 90.0, math.inf]
    assert records["delay"].tolist() == [5.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (("metric_gap", 0.0, 1.0), "kind 'metric_gap': expected one of metrics_gap"),
        (("metrics_gap", 5.0, 5.0), "end_s is 5.0, expected more than start_s 5.0"),
        (("metrics_late", 0.0, 1.0), "delay_s is 0.0, expected more than 0 for metrics_late"),
        (("metrics_gap", 0.0, 1.0, 2.0), "delay_s is 2.0, expected 0 for metrics_gap"),
    ],
)
def test_a_fault_that_does_nothing_is_refused(fault: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MetricFault(*fault)


def test_more_faults_than_room_are_refused() -> None:
    with pytest.raises(ValueError, match="2 metric faults in one episode, room for 1"):
        packed_metric_faults([gap(0.0, 1.0)] * 2, 1, 0.0)
    assert len(METRIC_FAULT_KINDS) == 4
