"""The breaker: known answers, and a second implementation of Envoy's rule on random failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.envs.sim.faults import Fault

from .reference_detector import Detector
from .sim_kit import Gateway, requests_of

INTERVAL_S = 10.0
QUIET = requests_of([(9e5, 1, 1)])
"""Nothing arrives: what replicas answered is written into their counters."""


def gateway(replicas: int, threshold_percent: int = 50, **changes: Any) -> Gateway:  # noqa: ANN401
    return Gateway(
        QUIET,
        replicas=replicas,
        threshold_percent=threshold_percent,
        breaker_interval_s=INTERVAL_S,
        **changes,
    )


def interval(g: Gateway, answers: Sequence[int], failures: Sequence[int]) -> list[bool]:
    """Ends one interval with so many answers and failures a replica; who is out afterwards."""
    n = len(answers)
    g.places["interval_answers"][:n] = answers
    g.places["interval_failures"][:n] = failures
    g.tick(INTERVAL_S)
    return [bool(out) for out in g.places["ejected"][:n]]


@pytest.mark.parametrize(
    ("threshold_percent", "answers", "failures", "out"),
    [
        (50, 10, 5, True),
        (50, 10, 4, False),
        (50, 11, 5, False),
        (35, 20, 7, True),
        (35, 20, 6, False),
        (35, 100, 34, False),
        (5, 20, 1, True),
        (5, 21, 1, False),
        (95, 20, 19, True),
        (95, 20, 18, False),
        (5, 100, 0, False),
    ],
)
def test_out_at_or_above_the_threshold_in_whole_percent(
    threshold_percent: int, answers: int, failures: int, out: bool
) -> None:
    g = gateway(4, threshold_percent)
    assert interval(g, [answers, 50, 50, 50], [failures, 0, 0, 0]) == [out, False, False, False]
    assert g.env["ejected"] == out
    assert g.seen("replicas_ejected") == out


def test_a_replica_with_too_few_answers_is_not_judged() -> None:
    assert not any(interval(gateway(4, request_volume=10), [9, 50, 50, 50], [9, 0, 0, 0]))


def test_fewer_than_minimum_hosts_with_enough_answers_never_eject() -> None:
    g = gateway(4, minimum_hosts=3)
    assert not any(interval(g, [50, 50, 9, 9], [50, 0, 0, 0]))
    assert interval(g, [50, 50, 10, 9], [50, 0, 0, 0]) == [True, False, False, False]
    assert not any(interval(gateway(1, minimum_hosts=2), [50], [50]))


def test_counters_start_anew_each_interval() -> None:
    g = gateway(2)
    interval(g, [9, 50], [9, 0])
    assert not any(interval(g, [1, 50], [1, 0]))


@pytest.mark.parametrize(
    ("replicas", "percent", "out"),
    [(4, 50, 2), (4, 49, 1), (4, 24, 0), (5, 50, 2), (9, 10, 0), (10, 10, 1)],
)
def test_no_more_than_the_cap_are_out(replicas: int, percent: int, out: int) -> None:
    g = gateway(replicas, max_replicas=16, max_ejection_percent=percent)
    assert sum(interval(g, [50] * replicas, [50] * replicas)) == out


@pytest.mark.parametrize("replicas", range(1, 12))
def test_envoy_3263_the_cap_holds_however_few_replicas_there_are(replicas: int) -> None:
    """At 10 % nobody is out below ten replicas; with `always_eject_one_host` one is, if any."""
    bad = [50] * replicas
    for always, out in ((0, replicas // 10), (1, 1)):
        g = gateway(
            replicas,
            max_replicas=16,
            minimum_hosts=1,
            max_ejection_percent=10.0,
            always_eject_one_host=always,
        )
        for _ in range(3):
            assert sum(interval(g, bad, bad)) == out


@pytest.mark.parametrize(
    ("replicas", "percent", "out"), [(3, 50, 1), (3, 66, 1), (3, 67, 2), (2, 50, 1), (5, 50, 2)]
)
def test_envoy_26877_the_share_is_taken_after_the_ejection(
    replicas: int, percent: int, out: int
) -> None:
    """Taken before it, 2 of 3 replicas were out at 50 %, and all three at 67 %."""
    g = gateway(replicas, max_replicas=16, max_ejection_percent=float(percent))
    assert sum(interval(g, [50] * replicas, [50] * replicas)) == out


@pytest.mark.parametrize("replicas", range(1, 9))
def test_envoy_17504_the_last_replica_stays_in(replicas: int) -> None:
    """All fail, interval after interval: below a cap of 100 % one at least gets traffic."""
    bad = [50] * replicas
    g = gateway(replicas, max_replicas=16, minimum_hosts=1, max_ejection_percent=99.0)
    for _ in range(12):
        assert sum(interval(g, bad, bad)) < replicas
        assert g.env["active"] >= 1


def test_the_time_out_is_base_times_multiplier_and_decays_in_healthy_intervals() -> None:
    g = gateway(4)
    bad, good = ([50] * 4, [50, 0, 0, 0]), ([50] * 4, [0] * 4)
    history = [interval(g, *bad)[0]]  # out at 10 s, for 30 s
    history += [interval(g, *good)[0] for _ in range(3)]  # back at 40 s
    assert history == [True, True, True, False]
    assert interval(g, *bad)[0]  # out again at 50 s, without a healthy interval: 60 s
    assert [interval(g, *good)[0] for _ in range(6)] == [True] * 5 + [False]
    assert g.places["ejections"][0] == 2
    assert not interval(g, *good)[0]  # one healthy interval: the multiplier falls to 1
    assert g.places["ejections"][0] == 1
    assert interval(g, *bad)[0]  # so 60 s once more
    assert [interval(g, *good)[0] for _ in range(6)] == [True] * 5 + [False]
    for _ in range(5):
        interval(g, *good)
    assert g.places["ejections"][0] == 0


def test_the_multiplier_stops_growing_where_the_time_is_capped() -> None:
    """Base 30 s, cap 60 s: after three ejections in a row it stays at 3."""
    g = gateway(4, max_ejection_s=60.0)
    for _ in range(100):
        interval(g, [50] * 4, [50, 0, 0, 0])
    assert g.places["ejections"][0] == 3


def test_it_returns_at_the_end_of_an_interval_not_before() -> None:
    g = gateway(4, base_ejection_s=25.0)
    interval(g, [50] * 4, [50, 0, 0, 0])
    assert [interval(g, [0] * 4, [0] * 4)[0] for _ in range(3)] == [True, True, False]


def test_intervals_that_do_not_add_up_exactly_in_binary_change_nothing() -> None:
    g = Gateway(
        QUIET, replicas=4, breaker_interval_s=0.1, base_ejection_s=0.3, scrape_interval_s=0.1
    )
    for _ in range(20):
        out = []
        for k in range(7):
            g.places["interval_answers"][:4] = 50
            g.places["interval_failures"][0] = 50 if k == 0 else 0
            g.tick(0.1)
            out.append(bool(g.places["ejected"][0]))
        assert out == [True, True, True, False, False, False, False]


def test_an_ejected_replica_that_is_scaled_in_is_no_longer_counted() -> None:
    g = gateway(4)
    interval(g, [50] * 4, [0, 0, 0, 50])
    assert g.env["ejected"] == 1
    g.tick(INTERVAL_S, replicas=3)
    assert g.env["ejected"] == 0
    assert g.states == ["ready"] * 3


def test_with_less_than_half_of_them_left_ejections_are_disregarded() -> None:
    """Envoy's panic threshold: two of four are out, then both healthy ones are scaled in."""
    g = gateway(4)
    interval(g, [50] * 4, [50, 50, 0, 0])
    assert sorted(g.engine._state.active[0, : g.env["active"]]) == [2, 3]
    g.tick(1.0, replicas=2)
    assert g.env["ejected"] == 2
    assert sorted(g.engine._state.active[0, : g.env["active"]]) == [0, 1]


SCRIPTS = st.integers(1, 6).flatmap(
    lambda hosts: st.tuples(
        st.just(hosts),
        st.lists(
            st.lists(
                st.tuples(st.integers(0, 25), st.integers(0, 100)), min_size=hosts, max_size=hosts
            ),
            min_size=1,
            max_size=60,
        ),
    )
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    SCRIPTS,
    st.integers(1, 19),
    st.integers(1, 4),
    st.integers(1, 12),
    st.integers(1, 4),
    st.integers(0, 6),
    st.integers(0, 100),
)
def test_equal_to_the_second_implementation(
    script: tuple[int, list[list[tuple[int, int]]]],
    threshold_steps: int,
    minimum_hosts: int,
    request_volume: int,
    base: int,
    more: int,
    max_ejection_percent: int,
) -> None:
    hosts, intervals = script
    detector = Detector(
        hosts,
        threshold_percent=5 * threshold_steps,
        minimum_hosts=minimum_hosts,
        request_volume=request_volume,
        base=base,
        cap=base + more,
        max_ejection_percent=max_ejection_percent,
    )
    g = gateway(
        hosts,
        5 * threshold_steps,
        minimum_hosts=minimum_hosts,
        request_volume=request_volume,
        base_ejection_s=INTERVAL_S * base,
        max_ejection_s=INTERVAL_S * (base + more),
        max_ejection_percent=max_ejection_percent,
    )
    for rows in intervals:
        answers = [total for total, _ in rows]
        failures = [total * percent // 100 for total, percent in rows]
        expected = detector.interval(answers, failures)
        assert interval(g, answers, failures) == expected
        assert 100 * sum(expected) <= max_ejection_percent * hosts
        assert g.env["ejected"] == sum(expected)
        assert g.places["ejections"][:hosts].tolist() == [host.backoff for host in detector.table]


def test_so_many_failures_in_a_row_eject_at_once() -> None:
    rows = [(1.0 + k, 1, 1) for k in range(30)]
    faults = [Fault("replica_errors", 0.0, 1e6, 1.0)]
    one = Gateway(rows, replicas=2, faults=faults, consecutive_5xx=5, breaker_interval_s=10.0)
    one.tick(9.0)
    assert one.env["ejected"] == 0
    one.tick(2.0)  # the tenth request is the bad one's fifth
    assert one.env["ejected"] == 1
    assert one.status.count("error") == 5
    one.tick(20.0)
    assert one.status.count("error") == 5


def test_a_good_answer_breaks_the_row() -> None:
    rows = [(1.0 + k, 1, 1) for k in range(300)]
    faults = [Fault("replica_errors", 0.0, 1e6, 0.5)]
    one = Gateway(rows, replicas=2, faults=faults, consecutive_5xx=12)
    one.tick(400.0)
    assert one.env["ejected"] == 0
    assert one.places["consecutive_failures"].max() < 12


def test_timeouts_in_a_row_eject_too() -> None:
    rows = [(1.0 + 0.1 * k, 1, 1) for k in range(20)] + [(30.0, 1, 1), (31.0, 1, 1)]
    hang = [Fault("hang", 0.5, 1e6)]
    one = Gateway(rows, replicas=2, faults=hang, consecutive_5xx=5, request_timeout_s=4.0)
    one.tick(40.0)
    assert one.env["ejected"] == 1
    assert one.status[-2:] == ["ok", "ok"]


def test_the_cap_stops_failures_in_a_row_unless_one_may_always_go() -> None:
    rows = [(1.0 + k, 1, 1) for k in range(30)]
    faults = [Fault("brown_out", 0.0, 1e6, 1.0)]
    for always, ejected in ((0, 0), (1, 1)):
        one = Gateway(
            rows,
            replicas=4,
            faults=faults,
            consecutive_5xx=3,
            max_ejection_percent=20.0,
            always_eject_one_host=always,
        )
        one.tick(40.0)
        assert one.env["ejected"] == ejected


def test_chance_may_spare_an_outlier() -> None:
    rows = [(0.05 * k, 1, 1) for k in range(1, 60_000)]
    faults = [Fault("replica_errors", 0.0, 1e6, 1.0)]
    times = []
    for seed in range(40):
        one = Gateway(
            rows,
            replicas=2,
            faults=faults,
            breaker_interval_s=10.0,
            enforcing_percent=25,
            seed=seed,
        )
        while one.env["ejected"] == 0:
            one.tick(10.0)
        times.append(one.env["now"] / 10.0)
    assert np.mean(times) == pytest.approx(4.0, abs=1.7)  # geometric with a quarter
    assert min(times) == 1.0


def test_jitter_comes_on_top_of_the_ejection() -> None:
    rows = [(0.05 * k, 1, 1) for k in range(1, 20_000)]
    faults = [Fault("replica_errors", 0.0, 15.0, 1.0)]
    lasted = []
    for seed in range(20):
        one = Gateway(
            rows,
            replicas=2,
            faults=faults,
            breaker_interval_s=10.0,
            max_ejection_jitter_s=25.0,
            seed=seed,
        )
        one.tick(11.0)
        assert one.env["ejected"] == 1
        while one.env["ejected"] == 1:
            one.tick(1.0)
        lasted.append(float(one.env["now"]) - 10.0)
    assert set(lasted) <= {40.0, 50.0, 60.0}  # looked at every 10 s
    assert len(set(lasted)) >= 2


def test_a_panic_percentage_of_zero_leaves_nobody_to_route_to() -> None:
    rows = [(0.05 * k, 1, 1) for k in range(1, 400)]
    faults = [Fault("brown_out", 0.0, 1e6, 1.0)]
    full: dict[str, Any] = {"breaker_interval_s": 10.0, "max_ejection_percent": 100.0}
    for panic, active in ((0, 0), (50, 2)):
        one = Gateway(rows, replicas=2, faults=faults, panic_percent=panic, **full)
        one.tick(15.0)
        assert one.env["ejected"] == 2
        assert one.env["active"] == active
