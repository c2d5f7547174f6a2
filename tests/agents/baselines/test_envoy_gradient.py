"""Envoy's gradient controller: golden vectors, a second implementation, its quirks."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.envoy_gradient import (
    EnvoyGradientParams,
    GradientRule,
    GradientState,
    gradient_limit,
)
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import GatewaySettings, Limits

from .looks import each, limits, look, played, vectors_of

VECTORS = vectors_of("envoy_gradient")
SITE = Site(Limits(1, 8))
STEADY = EnvoyGradientParams(jitter=0.0)


def rule(params: EnvoyGradientParams = STEADY, seed: int = 0) -> GradientRule:
    generator = np.random.default_rng(seed)
    fixed_us = round((params.fixed_min_rtt_s or 0.0) * 1e6)
    return GradientRule(
        params, generator, GradientState(params.min_concurrency, min_rtt_us=fixed_us)
    )


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 50


@each(VECTORS["limits"])
def test_limit(vector: dict[str, Any]) -> None:
    names = ("buffer", "min_concurrency", "max_concurrency_limit")
    params = replace(STEADY, **{name: vector[name] for name in names if name in vector})
    wanted = gradient_limit(params, vector["limit"], vector["min_rtt_us"], vector["sample_rtt_us"])
    assert wanted == vector["wanted"], vector["why"]


@each(VECTORS["events"])
def test_events(vector: dict[str, Any]) -> None:
    one = rule(EnvoyGradientParams(**vector["params"]))
    found = []
    for kind, now_s, rtt_us, _ in vector["events"]:
        if kind == "begin":
            one.measurement_begins(now_s)
        elif kind == "end":
            one.measurement_ends(now_s, rtt_us)
        else:
            one.window_ends(now_s, rtt_us)
        found.append(one.state.limit)
    assert found == [event[3] for event in vector["events"]], vector["why"]
    if "floor" in vector:
        assert one.state.floor_windows == vector["floor"]
    if "due_s" in vector:
        assert one.state.measure_at_s == vector["due_s"]


@each(VECTORS["looks"])
def test_looks(vector: dict[str, Any]) -> None:
    site = Site(Limits(1, 8), vector["tick_s"], vector["window_s"])
    controller = EnvoyGradientParams(**vector["params"]).make(site, seed=0)
    looks = [look(e2e_p95_s=rtt_s, samples=samples) for rtt_s, samples in vector["looks"]]
    assert limits(controller, looks, vector["start"]) == vector["wanted"], vector["why"]


# --- a second implementation --------------------------------------------------------------------


def exact_limit(limit: int, min_rtt_us: int, sample_rtt_us: int, buffer: Fraction) -> int:
    """In whole numbers: the largest n with n <= x + sqrt(x), found from above.

    Where x + sqrt(x) is a whole number, binary rounding decides: such samples are left out.
    """
    raw = min_rtt_us * (1 + buffer) / sample_rtt_us
    x = limit * max(Fraction(1, 2), min(Fraction(2), raw))
    n = int(x) + isqrt(int(x)) + 2
    while n > x and (n - x) ** 2 > x:
        n -= 1
    assume(n == x or (n - x) ** 2 != x or Fraction(float(x)) == x)
    return max(3, min(1000, n))


@settings(deadline=None, max_examples=500)
@given(
    st.integers(3, 1000),
    st.integers(1, 60_000_000),
    st.integers(1, 60_000_000),
    st.sampled_from([0, 1, 2, 4]),
)
def test_one_window_agrees(limit: int, min_rtt_us: int, sample_rtt_us: int, quarters: int) -> None:
    """Buffers that are exact in binary, so that nothing but the division is rounded."""
    params = replace(STEADY, buffer=quarters / 4)
    exact = exact_limit(limit, min_rtt_us, sample_rtt_us, Fraction(quarters, 4))
    assert gradient_limit(params, limit, min_rtt_us, sample_rtt_us) == exact


def phases(
    params: EnvoyGradientParams, site: Site
) -> Generator[int | None, tuple[float, float | None, float | None], None]:
    """Written as what happens one after another; is sent looks, yields the limit in force."""
    limit, force = params.min_concurrency, None
    now, rtt, samples = yield force
    while rtt is None or samples is None:
        now, rtt, samples = yield force
    min_rtt = round((params.fixed_min_rtt_s or 0) * 1e6)
    must_measure = params.fixed_min_rtt_s is None
    next_measurement = np.inf
    while True:
        if must_measure:
            began, force = now, params.min_concurrency
            while True:
                now, rtt, samples = yield force
                if rtt is None or samples is None or now - began < site.window_s:
                    continue
                if samples / site.window_s * (now - began) >= params.request_count:
                    break
            min_rtt, next_measurement = round(rtt * 1e6), now + params.min_rtt_interval_s
        history, last_window, must_measure = [limit], now, False
        while not must_measure:
            force = limit
            now, rtt, samples = yield force
            if rtt is None or samples is None:
                continue
            if now - last_window >= params.update_interval_s:
                g = (min_rtt + params.buffer * min_rtt) / round(rtt * 1e6)
                x = limit * float(np.clip(g, 0.5, 2))
                bounded = np.clip(
                    int(x + x**0.5), params.min_concurrency, params.max_concurrency_limit
                )
                limit, last_window = int(bounded), now
                history.append(limit)
            is_low = len(history) > 5 and set(history[-6:]) == {params.min_concurrency}
            can_measure = params.fixed_min_rtt_s is None
            must_measure = can_measure and (is_low or now >= next_measurement)


def reference(
    params: EnvoyGradientParams, site: Site, looks: Sequence[tuple[float | None, float | None]]
) -> list[int | None]:
    process = phases(params, site)
    next(process)
    return [process.send((i * site.tick_s, *one)) for i, one in enumerate(looks)]


LOOKS = st.lists(
    st.tuples(
        st.none() | st.sampled_from([0.5, 1.0, 1.25, 2.0, 8.0, 40.0]),
        st.none() | st.integers(0, 120),
    ),
    max_size=60,
)


@settings(deadline=None, max_examples=300)
@given(
    LOOKS,
    st.sampled_from([5.0, 15.0, 30.0]),
    st.sampled_from([3, 10]),
    st.sampled_from([0.1, 60.0]),
    st.sampled_from([90.0, 600.0]),
    st.sampled_from([None, None, 1.0]),
)
def test_histories_agree(
    looks: list[tuple[float | None, float | None]],
    tick_s: float,
    floor: int,
    update_s: float,
    interval_s: float,
    fixed_s: float | None,
) -> None:
    params = replace(
        STEADY,
        min_concurrency=floor,
        update_interval_s=update_s,
        min_rtt_interval_s=interval_s,
        fixed_min_rtt_s=fixed_s,
        request_count=20,
    )
    site = Site(Limits(1, 8), tick_s)
    shown = [look(e2e_p95_s=rtt_s, samples=samples) for rtt_s, samples in looks]
    found = limits(params.make(site, seed=0), shown)
    assert found == reference(params, site, looks)


# --- known quirks -------------------------------------------------------------------------------


def test_quirk_it_starts_by_measuring_and_keeps_the_floor_aside() -> None:
    one = rule()
    assert one.state.limit == 3
    one.measurement_begins(0.0)
    assert (one.state.limit, one.state.saved_limit) == (3, 3)


def test_quirk_a_measurement_takes_nearly_all_load_away_and_gives_it_back() -> None:
    one = rule()
    one.measurement_begins(0.0)
    one.measurement_ends(1.0, 10_000)
    for i in range(40):
        one.window_ends(2.0 + i, 10_000)
    grown = one.state.limit
    assert grown == 1000
    one.measurement_begins(100.0)
    assert one.state.limit == 3
    one.measurement_ends(101.0, 10_000)
    assert one.state.limit == grown


def test_quirk_a_measurement_under_load_makes_the_load_look_normal() -> None:
    """minRTT is whatever 50 requests took: a slow time becomes the measure of what is fast."""
    one = rule()
    one.measurement_begins(0.0)
    one.measurement_ends(1.0, 1_000_000)
    one.window_ends(2.0, 1_000_000)
    assert one.state.limit == 5


def test_quirk_the_headroom_lets_the_limit_grow_at_the_same_latency() -> None:
    assert gradient_limit(replace(STEADY, buffer=0.0), 400, 10_000, 10_000) == 420


def test_quirk_below_the_minimum_of_samples_it_never_ends_measuring() -> None:
    """Nine first tokens a minute: the telemetry shows no quantile, so the limit stays at 3."""
    controller = STEADY.make(SITE, seed=0)
    shown = [look(e2e_p95_s=20.0, samples=100.0)] + [look(samples=9.0)] * 200
    assert set(limits(controller, shown)) == {3}


def test_the_jitter_delays_by_up_to_its_share_and_comes_from_the_seed() -> None:
    def delay_s(seed: int) -> float:
        one = rule(EnvoyGradientParams(min_rtt_interval_s=60.0), seed)
        one.measurement_begins(0.0)
        one.measurement_ends(100.0, 10_000)
        assert one.state.measure_at_s is not None
        return one.state.measure_at_s - 160.0

    delays = [delay_s(seed) for seed in range(300)]
    assert delays == [delay_s(seed) for seed in range(300)]
    assert min(delays) >= 0
    assert 8.9 < max(delays) < 9.0  # whole milliseconds below 15 % of a minute
    assert np.mean(delays) == pytest.approx(4.5, abs=0.5)


def test_only_the_admission_limit_moves() -> None:
    controller = STEADY.make(SITE, seed=0)
    shown = [look(e2e_p95_s=10.0, samples=100.0)] * 10
    for one in played(controller, shown, GatewaySettings(5, 3, 77)):
        assert (one.replicas, one.threshold_steps) == (5, 3)


def test_events_out_of_turn_are_refused() -> None:
    one = rule()
    with pytest.raises(ValueError, match="no measurement is on"):
        one.measurement_ends(0.0, 1)
    one.measurement_begins(0.0)
    with pytest.raises(ValueError, match="a measurement is on"):
        one.window_ends(0.0, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"min_concurrency": 0}, "min_concurrency is 0"),
        ({"max_concurrency_limit": 0}, "max_concurrency_limit is 0"),
        ({"request_count": 0}, "request_count is 0"),
        ({"buffer": 1.1}, r"buffer is 1\.1"),
        ({"jitter": -0.1}, r"jitter is -0\.1"),
        ({"update_interval_s": 0.0}, r"update_interval_s is 0\.0"),
        ({"min_rtt_interval_s": float("inf")}, "min_rtt_interval_s is inf"),
        ({"fixed_min_rtt_s": 0.0}, r"fixed_min_rtt_s is 0\.0"),
    ],
)
def test_what_upstream_refuses_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EnvoyGradientParams(**changes)
