"""The driver that gives the engine's breaker counts, interval by interval."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gatepilot.envs.sim.breaker_script import play_script
from gatepilot.envs.sim.params import EngineParams

from .reference_detector import Detector
from .sim_kit import PLAIN

INTERVAL_S = 1.5
MOST_HOSTS = 12

Counts = tuple[NDArray[np.int64], NDArray[np.int64]]


def params(**changes: Any) -> EngineParams:  # noqa: ANN401
    return dataclasses.replace(PLAIN, breaker_interval_s=INTERVAL_S, **changes)


@st.composite
def scripts(draw: st.DrawFn) -> Counts:
    """Answers and failures of a random number of hosts; most fail at a level of their own."""
    intervals, hosts = draw(st.integers(1, 40)), draw(st.integers(1, MOST_HOSTS))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))  # a list of all counts draws for long
    answers = rng.integers(0, 40, (intervals, hosts))
    level = rng.choice((0, 5, 30, 60, 100), hosts)
    percent = np.where(rng.random(answers.shape) < 0.8, level, rng.integers(0, 101, answers.shape))
    return answers, answers * percent // 100


TENTHS = st.integers(1, 60).map(lambda tenths: Fraction(tenths, 10))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    scripts(),
    st.integers(1, 19),
    st.integers(1, 6),
    st.integers(1, 30),
    TENTHS,
    TENTHS,
    st.integers(0, 100),
)
def test_equal_to_the_second_implementation_and_never_above_the_cap(
    counts: Counts,
    threshold_steps: int,
    minimum_hosts: int,
    request_volume: int,
    base: Fraction,
    more: Fraction,
    max_ejection_percent: int,
) -> None:
    answers, failures = counts
    hosts = answers.shape[1]
    detector = Detector(
        hosts,
        threshold_percent=5 * threshold_steps,
        minimum_hosts=minimum_hosts,
        request_volume=request_volume,
        base=base,
        cap=base + more,
        max_ejection_percent=max_ejection_percent,
    )
    out = play_script(
        params(
            minimum_hosts=minimum_hosts,
            request_volume=request_volume,
            base_ejection_s=float(INTERVAL_S * base),
            max_ejection_s=float(INTERVAL_S * (base + more)),
            max_ejection_percent=max_ejection_percent,
        ),
        5 * threshold_steps,
        answers,
        failures,
    )
    expected = [
        detector.interval(a, f) for a, f in zip(answers.tolist(), failures.tolist(), strict=True)
    ]
    assert out.tolist() == expected
    assert np.all(100 * out.sum(axis=1) <= max_ejection_percent * hosts)


@pytest.mark.parametrize("percent", [0, 10, 33, 34, 50, 66, 67, 99])
@pytest.mark.parametrize("hosts", range(1, MOST_HOSTS + 1))
def test_one_host_is_left_whatever_fails_unless_the_cap_is_all(hosts: int, percent: int) -> None:
    """Each host fails all the time; Envoy once ejected the last one (envoy#26877)."""
    answers = np.full((30, hosts), 50)
    out = play_script(
        params(minimum_hosts=1, max_ejection_percent=percent), 50, answers, answers
    ).sum(axis=1)
    assert out.max() == hosts * percent // 100 < hosts


def test_a_time_out_that_is_no_multiple_of_the_interval_ends_with_the_next_interval() -> None:
    answers = np.full((12, 4), 20)
    failures = np.zeros_like(answers)
    failures[[0, 3], 2] = 20
    out = play_script(
        params(base_ejection_s=1.4 * INTERVAL_S, max_ejection_s=3.6 * INTERVAL_S),
        85,
        answers,
        failures,
    )
    assert np.flatnonzero(out[:, 2]).tolist() == [0, 1, 3, 4, 5]
    assert not out[:, [0, 1, 3]].any()


def test_what_cannot_be_played_is_refused() -> None:
    answers = np.full((3, 2), 10)
    with pytest.raises(ValueError, match="breaker_interval_s is 0"):
        play_script(PLAIN, 50, answers, answers)
    with pytest.raises(ValueError, match=r"answers are \(3, 2\), failures \(2, 2\)"):
        play_script(params(), 50, answers, answers[:2])
    with pytest.raises(ValueError, match="not between 0 and the answers"):
        play_script(params(), 50, answers, answers + 1)
