"""resilience4j's breaker: golden vectors, a second implementation, its quirks, its complaints."""

from __future__ import annotations

from collections.abc import Generator
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.circuit_breaker import CircuitBreaker, CircuitBreakerConfig
from gatepilot.agents.baselines.resilience4j import Resilience4jParams, spread
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import GatewaySettings, Limits

from .looks import each, limits, look, played, vectors_of

VECTORS = vectors_of("resilience4j")
SITE = Site(Limits(1, 8))
SMALL = CircuitBreakerConfig(window_calls=10, minimum_calls=10)


def looks_of(rows: list[list[float | None]]) -> list[Any]:
    names = ("request_rate_rps", "error_rate", "samples", "e2e_p95_s")
    return [look(dict(zip(names, row, strict=False))) for row in rows]


def record(breaker: CircuitBreaker, now_s: float, outcomes: str) -> None:
    """S: success, F: failure, L: slow success, X: slow failure."""
    for one in outcomes:
        breaker.record(now_s, has_failed=one in "FX", is_slow=one in "LX")


def test_there_are_enough_vectors() -> None:
    assert sum(len(group) for group in VECTORS.values()) >= 25


@each(VECTORS["calls"])
def test_calls(vector: dict[str, Any]) -> None:
    breaker = CircuitBreaker(CircuitBreakerConfig(**vector["config"]))
    for kind, now_s, argument, state in vector["steps"]:
        if kind == "record":
            record(breaker, now_s, argument)
        elif kind == "ask":
            assert breaker.permits_call(now_s) is argument
        else:
            breaker.time_passes(now_s)
        assert breaker.state == state, vector["why"]


@each(VECTORS["looks"])
def test_looks(vector: dict[str, Any]) -> None:
    params = Resilience4jParams(CircuitBreakerConfig(**vector["config"]))
    controller = params.make(Site(Limits(1, 8), vector["tick_s"]), seed=0)
    found = limits(controller, looks_of(vector["looks"]), vector["start"])
    assert found == vector["wanted"], vector["why"]


# --- a second implementation --------------------------------------------------------------------

Event = tuple[str, float]
"""S, F, L, X: a result; `?`: a call that asks; `.`: nothing but time. And when."""
Shown = tuple[str, bool | None]
"""The state after an event, and the answer to a call that asked."""


def judged(config: CircuitBreakerConfig, results: str, size: int) -> bool | None:
    """Whether the last results are over a threshold; exact; `None`: too few."""
    window = results[-size:]
    if len(window) < min(config.minimum_calls, size):
        return None
    failed = Fraction(sum(one in "FX" for one in window), len(window))
    slow = Fraction(sum(one in "LX" for one in window), len(window))
    return failed >= Fraction(str(config.failure_fraction)) or slow >= Fraction(
        str(config.slow_fraction)
    )


def closed(config: CircuitBreakerConfig, event: Event) -> Generator[Shown, Event, Event]:
    results = ""
    while True:
        if event[0] in "SFLX":
            results += event[0]
            if judged(config, results, config.window_calls):
                return event
        event = yield "closed", True if event[0] == "?" else None


def waiting(config: CircuitBreakerConfig, event: Event) -> Generator[Shown, Event, Event]:
    since = event[1]
    while True:
        event = yield "open", False if event[0] == "?" else None
        passed = event[1] - since
        is_due = event[0] == "?" and passed > config.open_s
        if is_due or (config.is_automatic and passed >= config.open_s):
            return event


def probing(
    config: CircuitBreakerConfig, event: Event
) -> Generator[Shown, Event, tuple[Event, bool]]:
    since, results, asked = event[1], "", 0
    while True:
        if config.longest_half_open_s and event[1] - since >= config.longest_half_open_s:
            return event, True
        if event[0] in "SFLX":
            results += event[0]
            verdict = judged(config, results, config.permitted_calls)
            if verdict is not None:
                return event, verdict
        asked += event[0] == "?"
        event = yield "half_open", asked <= config.permitted_calls if event[0] == "?" else None


def lives(config: CircuitBreakerConfig) -> Generator[Shown, Event, None]:
    """One state after another, each as a loop over its events."""
    event = yield "closed", None
    while True:
        event = yield from closed(config, event)
        is_over = True
        while is_over:
            event = yield from waiting(config, event)
            event, is_over = yield from probing(config, event)
        event = yield "closed", None


CONFIGS = st.builds(
    CircuitBreakerConfig,
    st.sampled_from([0.07, 0.3, 0.5, 1.0]),
    st.sampled_from([0.3, 1.0]),
    st.just(60.0),
    st.integers(1, 12),
    st.integers(1, 15),
    st.integers(1, 6),
    st.sampled_from([5.0, 20.0]),
    st.sampled_from([0.0, 12.0]),
    st.booleans(),
)


@settings(deadline=None, max_examples=400)
@given(CONFIGS, st.lists(st.tuples(st.sampled_from("SSFFLX??."), st.integers(0, 9)), max_size=80))
def test_event_by_event_agrees(config: CircuitBreakerConfig, events: list[tuple[str, int]]) -> None:
    breaker, process, now = CircuitBreaker(config), lives(config), 0.0
    next(process)
    for kind, passed in events:
        now += passed
        answer = None
        if kind == "?":
            answer = breaker.permits_call(now)
        elif kind == ".":
            breaker.time_passes(now)
        else:
            breaker.time_passes(now)
            record(breaker, now, kind)
        assert (breaker.state, answer) == process.send((kind, now))


@settings(deadline=None, max_examples=300)
@given(CONFIGS, st.text("SSSSFLX", max_size=30), st.text("SSSSFLX", max_size=30))
def test_many_calls_at_once_are_calls_one_by_one(
    config: CircuitBreakerConfig, before: str, calls: str
) -> None:
    one_by_one, at_once = CircuitBreaker(config), CircuitBreaker(config)
    for breaker in (one_by_one, at_once):
        record(breaker, 0.0, before)
    state = one_by_one.state
    for call in calls:
        if one_by_one.state == state:
            record(one_by_one, 1.0, call)
    at_once.record_calls(1.0, [(call in "FX", call in "LX") for call in calls])
    assert at_once == one_by_one


@given(st.integers(0, 120), st.integers(0, 100), st.integers(0, 99))
def test_a_share_is_spread_evenly_and_carried_over(calls: int, share: int, carried: int) -> None:
    """In whole hundredths: a call is one of the share where the running sum passes a hundred."""
    sums = [carried + share * i for i in range(calls + 1)]
    exact = [after // 100 > before // 100 for before, after in pairwise(sums)]
    flags, left = spread(calls, share / 100, carried / 100)
    assert flags == exact
    assert left == pytest.approx(sums[-1] % 100 / 100, abs=1e-7)


# --- known quirks -------------------------------------------------------------------------------


def opened(config: CircuitBreakerConfig = SMALL) -> CircuitBreaker:
    breaker = CircuitBreaker(config)
    record(breaker, 0.0, "F" * config.window_calls)
    assert breaker.state == "open"
    return breaker


def test_quirk_it_leaves_open_only_on_a_call_and_after_more_than_the_wait() -> None:
    breaker = opened()
    breaker.time_passes(1e6)
    assert breaker.state == "open"
    assert not opened().permits_call(60.0)
    assert opened().permits_call(60.0 + 1e-6)


def test_quirk_late_results_count_in_whatever_state_holds() -> None:
    breaker = opened()
    assert breaker.permits_call(61.0)
    record(breaker, 62.0, "F" * 10)  # calls that began before it opened
    assert breaker.state == "open"


def test_quirk_a_burst_of_failures_hides_behind_many_successes() -> None:
    """A count-based window forgets by calls, not by time: an hour-old success counts."""
    breaker = CircuitBreaker(CircuitBreakerConfig())
    record(breaker, 0.0, "S" * 100)
    record(breaker, 3600.0, "F" * 49)
    assert breaker.state == "closed"


def test_quirk_the_controller_takes_successes_alone_for_a_verdict_in_half_open() -> None:
    """Nine of ten fail, but more than the ten permitted calls pass in a window: it closes."""
    controller = Resilience4jParams().make(SITE, seed=0)
    bad: list[float | None] = [10.0, 1.0, 0]
    rows = [bad] * 9 + [[10.0, 0.9, 60]]
    assert limits(controller, looks_of(rows))[-1] is None


# --- complaints ---------------------------------------------------------------------------------


def test_resilience4j_1362_one_failure_opens_it_and_it_stays_open() -> None:
    """With a minimum of one call, a single failure costs the full minute: the fault is there."""
    config = CircuitBreakerConfig(minimum_calls=1)
    breaker = CircuitBreaker(config)
    record(breaker, 0.0, "F")
    assert breaker.state == "open"
    assert not breaker.permits_call(59.0)
    record(by_default := CircuitBreaker(CircuitBreakerConfig()), 0.0, "S" * 99 + "F")
    assert by_default.state == "closed"


def test_resilience4j_2093_it_can_stick_in_open_and_in_half_open() -> None:
    """Without a call it stays open; without the permitted calls' results, half-open: both do."""
    breaker = opened()
    breaker.time_passes(7 * 24 * 3600.0)
    assert breaker.state == "open"
    asked = [breaker.permits_call(8 * 24 * 3600.0) for _ in range(10)]
    asked.append(breaker.permits_call(30 * 24 * 3600.0))  # ten are out and never come back
    assert asked == [True] * 10 + [False]
    states: list[str] = [breaker.state]
    assert states == ["half_open"]


def test_resilience4j_1349_a_minimum_above_the_window_is_silently_the_window() -> None:
    config = CircuitBreakerConfig(window_calls=5, minimum_calls=10)
    breaker = CircuitBreaker(config)
    record(breaker, 0.0, "F" * 5)
    assert breaker.state == "open"


def test_praxis_ai_90_a_heavy_tail_does_not_open_it_but_a_low_volume_may() -> None:
    """Slow answers alone never open it by default; a small minimum makes it misfire."""
    slow: list[float | None] = [0.2, 0.0, 12, 300.0]
    assert set(limits(Resilience4jParams().make(SITE, seed=0), looks_of([slow] * 40))) == {None}
    few = CircuitBreakerConfig(window_calls=2, minimum_calls=2)
    quiet: list[float | None] = [0.1, 0.5, 3]
    assert 0 in limits(Resilience4jParams(few).make(SITE, seed=0), looks_of([quiet] * 40))
    assert 0 not in limits(Resilience4jParams().make(SITE, seed=0), looks_of([quiet] * 10))


def test_nearai_ironclaw_5203_one_breaker_before_all_makes_everybody_fail_together() -> None:
    """A process-wide breaker knows no tenant and no replica: open, it lets nothing in at all."""
    controller = Resilience4jParams().make(SITE, seed=0)
    half_bad = look(request_rate_rps=10.0, error_rate=0.5, samples=300, replica_error_spread=1.0)
    (settings_after,) = played(controller, [half_bad], GatewaySettings(4, 7, 200))
    assert settings_after == GatewaySettings(4, 7, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"failure_fraction": 0.0}, r"failure_fraction is 0\.0"),
        ({"slow_fraction": 1.1}, r"slow_fraction is 1\.1"),
        ({"window_calls": 0}, "window_calls is 0"),
        ({"minimum_calls": 0}, "minimum_calls is 0"),
        ({"permitted_calls": 0}, "permitted_calls is 0"),
        ({"slow_s": 0.0}, r"slow_s is 0\.0"),
        ({"open_s": 0.0}, r"open_s is 0\.0"),
        ({"longest_half_open_s": -1.0}, r"longest_half_open_s is -1\.0"),
    ],
)
def test_what_upstream_refuses_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CircuitBreakerConfig(**changes)
