"""The script exercises what it is meant to, and nothing in it depends on milliseconds."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest

from gatepilot.experiments.validation.failure_script import (
    BEGIN,
    BEGIN_REQUESTS,
    INTERVAL_S,
    PHASES,
    REPLICAS,
    SECOND_HALF,
    THRESHOLDS_PERCENT,
    fails,
    gateway,
    phase_of_each_interval,
)

from ...envs.sim.reference_detector import Detector

Changes = list[tuple[int, int, bool]]


def play(
    threshold_percent: int, order: Sequence[int], is_late: Callable[[], bool] = lambda: False
) -> tuple[Changes, list[int]]:
    """The script through the plain detector: changes, and the back-offs after each interval."""
    spec = gateway(threshold_percent)
    detector = Detector(
        REPLICAS,
        threshold_percent=threshold_percent,
        minimum_hosts=spec.minimum_hosts,
        request_volume=spec.request_volume,
        base=Fraction(round(10 * spec.base_ejection_s / INTERVAL_S), 10),
        cap=Fraction(round(10 * spec.max_ejection_s / INTERVAL_S), 10),
        max_ejection_percent=spec.max_ejection_percent,
        is_late=is_late,
        order=order,
    )
    before = [False] * REPLICAS
    changes: Changes = []
    backoffs: list[int] = []
    phases = phase_of_each_interval()
    first_half: set[int] = set()
    for interval in range(1, BEGIN + len(phases) + 1):
        if interval > BEGIN:
            phase = phases[interval - BEGIN - 1]
            percent, requests = phase.percent, phase.requests
        else:
            failing = {1: set(range(REPLICAS)), SECOND_HALF: set(range(REPLICAS)) - first_half}
            guilty = failing.get(interval, set())
            percent = tuple(100 * (r in guilty) for r in range(REPLICAS))
            requests = BEGIN_REQUESTS
        active = [r for r in range(REPLICAS) if not before[r]]
        answers = [0] * REPLICAS
        for number in range(requests):
            answers[active[number % len(active)]] += 1
        failures = [n * share // 100 for n, share in zip(answers, percent, strict=True)]
        after = list(detector.interval(answers, failures))
        changes += [(interval, r, after[r]) for r in range(REPLICAS) if after[r] != before[r]]
        backoffs.append(max(host.backoff for host in detector.table))
        before = after
        if interval == 1:
            first_half = {r for r in range(REPLICAS) if after[r]}
    return changes, backoffs


@pytest.mark.parametrize("threshold_percent", THRESHOLDS_PERCENT)
def test_in_whatever_order_envoy_looks_its_timer_decides_nothing(threshold_percent: int) -> None:
    rng = random.Random(0)  # noqa: S311
    for _ in range(40):
        order = rng.sample(range(REPLICAS), REPLICAS)
        expected = play(threshold_percent, order)
        assert play(threshold_percent, order, lambda: True)[0] == expected[0]
        assert play(threshold_percent, order, lambda: rng.random() < 0.5)[0] == expected[0]


def test_each_threshold_finds_others_guilty() -> None:
    found = {percent: tuple(play(percent, range(REPLICAS))[0]) for percent in THRESHOLDS_PERCENT}
    assert len(set(found.values())) == len(THRESHOLDS_PERCENT)
    assert all(len(changes) > 2 * REPLICAS + 10 for changes in found.values())


@pytest.mark.parametrize("threshold_percent", THRESHOLDS_PERCENT)
def test_cap_growing_times_and_recovery_are_in_it(threshold_percent: int) -> None:
    changes, backoffs = play(threshold_percent, range(REPLICAS))
    lengths = set()
    for interval, replica, is_out in changes:
        if is_out:
            back = min(k for k, r, out in changes if r == replica and k > interval and not out)
            lengths.add(back - interval)
    assert lengths == {2, 3, 4}  # 1.4, 2.8, and 3.6 for 4.2 intervals
    assert max(backoffs) == 3
    assert backoffs[BEGIN - 1] == 0
    out = {
        interval: sum(k <= interval and (1 if way else -1) for k, _, way in changes)
        for interval in range(1, BEGIN + len(phase_of_each_interval()) + 1)
    }
    assert max(out.values()) == REPLICAS // 2
    assert out[max(out)] == 0


def test_the_cap_is_what_stops_the_lower_thresholds() -> None:
    uncapped = [
        sum(share >= percent for share in PHASES[0].percent) for percent in THRESHOLDS_PERCENT
    ]
    assert uncapped == [5, 4, 3, 2, 1]


@pytest.mark.parametrize("percent", [0, 1, 5, 33, 45, 85, 99, 100])
def test_errors_are_spread_evenly(percent: int) -> None:
    for answers in range(130):
        assert sum(fails(percent, n) for n in range(1, answers + 1)) == answers * percent // 100


def test_the_breaker_is_the_project_s_but_for_its_clock() -> None:
    default, under_test = gateway(50), gateway(10)
    assert replace(default, threshold_steps=2) == under_test
    assert (default.minimum_hosts, default.request_volume) == (2, 10)
    assert default.max_ejection_percent == 50
