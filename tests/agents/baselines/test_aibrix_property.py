"""AIBrix's autoscalers against a second implementation, written in another shape.

It keeps every sample and every recommendation, takes medians instead of clamping by cases, and
calculates with fractions. Histories in which binary noise could decide are left out.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.aibrix_apa import AibrixApaParams
from gatepilot.agents.baselines.aibrix_kpa import AibrixKpaParams
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import Limits

from .loads import sizes_resumed, sizes_under

FAST, FULL = 200, 3_000
Params = AibrixApaParams | AibrixKpaParams


@dataclass(frozen=True)
class Tick:
    load: Fraction | None
    ready: int | None


@dataclass(frozen=True)
class History:
    params: Params
    limits: Limits
    tick_s: int
    start: int
    ticks: list[Tick]


def clear_of(edge: Fraction, value: Fraction) -> Fraction:
    """The value, if binary noise cannot carry it over the edge."""
    assume(value == 0 or abs(value - edge) > Fraction(1, 10**9))
    return value


def up(value: Fraction) -> int:
    return math.ceil(clear_of(Fraction(round(value)), value))


def median(*values: int) -> int:
    return sorted(values)[1]


def near(share: Fraction, params: Params) -> bool:
    high, low = 1 + Fraction(params.up_tolerance), 1 - Fraction(params.down_tolerance)
    return clear_of(low, clear_of(high, share)) <= high and share >= low


def recommended(current: int, means: list[Fraction], params: Params) -> tuple[int, Fraction]:
    """Replicas, and the mean that they come from."""
    low = math.floor(current / params.max_scale_down_rate)
    high = math.ceil(current * params.max_scale_up_rate)
    target = Fraction(params.target)

    def wish(mean: Fraction, factor: int) -> int:
        share = mean / target
        return current if near(share, params) else median(low, up(factor * share), high)

    stable, panic = means
    if isinstance(params, AibrixApaParams):
        return wish(stable, current), stable
    threshold = Fraction(params.panic_threshold)
    if stable == 0 or clear_of(threshold, panic / stable) > threshold:
        return max(wish(stable, 1), wish(panic, 1)), panic
    return wish(stable, 1), stable


def guarded(wanted: int, value: Fraction, current: int, ready: int, params: Params) -> int:
    """Looks at the replicas one by one: the pending ones are idle, or as busy as they should be."""
    if ready >= current or wanted == current:
        return wanted
    target, grows = Fraction(params.target), wanted > current
    busy = [value] * ready + [Fraction(0) if grows else target] * (current - ready)
    replicas = sum(busy, Fraction(0)) / target
    if isinstance(params, AibrixKpaParams) and grows:
        replicas /= current
    return median(current, up(replicas), wanted)


def reference(history: History) -> list[int]:
    params, limits = history.params, history.limits
    observe_s, panic_s = params.windows.observe_s, params.windows.panic_s
    by_pod = isinstance(params, AibrixApaParams) or params.source == "pod"
    samples: list[tuple[int, Fraction]] = []
    recommendations: list[tuple[int, int]] = []
    current, sizes = history.start, []
    for i, tick in enumerate(history.ticks):
        now_s = i * history.tick_s
        sample = tick.load
        if by_pod:
            sample = (tick.load or Fraction(0)) / tick.ready if tick.ready else None
        is_due = i % math.ceil(10 / history.tick_s) == 0
        if is_due and sample is not None:
            samples.append((now_s, sample))
            seen = [[v for t, v in samples if now_s - t <= w] for w in (observe_s, panic_s)]
            means = [sum(values, Fraction(0)) / len(values) for values in seen]
            wanted, value = recommended(current, means, params)
            wanted = median(limits.min_replicas, wanted, limits.max_replicas)
            if by_pod:
                wanted = guarded(wanted, value, current, tick.ready or 0, params)
            recommendations.append((now_s, wanted))
            window_s = params.up_cooldown_s if wanted > current else params.down_cooldown_s
            recent = [n for t, n in recommendations if now_s - t < window_s] or [wanted]
            if wanted != current:
                current = max(recent) if wanted > current else min(recent)
        if is_due:
            current = median(limits.min_replicas, current, limits.max_replicas)
        sizes.append(current)
    return sizes


def fed(history: History) -> tuple[list[float | None], list[float | None]]:
    loads = [None if t.load is None else float(t.load) for t in history.ticks]
    return loads, [t.ready for t in history.ticks]


def controlled(history: History) -> list[int]:
    controller = history.params.make(Site(history.limits, history.tick_s), seed=0)
    loads, ready = fed(history)
    return sizes_under(controller, loads, history.start, ready)


loads_strategy = st.integers(0, 40) | st.integers(0, 400)
ticks_strategy = st.builds(
    Tick,
    st.one_of(loads_strategy.map(lambda n: n + Fraction(37, 100)), st.just(Fraction(0)), st.none()),
    st.one_of(st.integers(1, 12), st.integers(1, 12), st.integers(0, 3), st.none()),
)
targets, tolerances = st.sampled_from([1.0, 8.0, 10.0]), st.sampled_from([0.0, 0.125, 0.5])
rates, cooldowns = st.sampled_from([1.5, 2.0, 3.0]), st.sampled_from([0.0, 30.0, 300.0])
apa = st.builds(
    AibrixApaParams,
    targets,
    tolerances,
    tolerances,
    rates,
    rates,
    st.sampled_from([1.0, 20.0, 180.0]),
    cooldowns,
    cooldowns,
)
kpa = st.builds(
    AibrixKpaParams,
    targets,
    st.sampled_from(["external", "pod"]),
    tolerances,
    tolerances,
    rates,
    rates,
    st.sampled_from([1.25, 2.0]),
    st.sampled_from([60.0, 180.0]),
    st.sampled_from([10.0, 60.0]),
    cooldowns,
    cooldowns,
)
histories = st.builds(
    History,
    apa | kpa,
    st.tuples(st.integers(1, 4), st.integers(4, 64)).map(lambda pair: Limits(*pair)),
    st.sampled_from([5, 10, 15, 60]),
    st.integers(1, 33),
    st.integers(1, 30).flatmap(lambda n: st.lists(ticks_strategy, min_size=n, max_size=n)),
)


@settings(deadline=None, max_examples=FAST)
@given(histories)
def test_histories_agree(history: History) -> None:
    assert controlled(history) == reference(history)


@pytest.mark.slow
@pytest.mark.timeout(300)
@settings(deadline=None, max_examples=FULL)
@given(histories)
def test_many_histories_agree(history: History) -> None:
    assert controlled(history) == reference(history)


@settings(deadline=None, max_examples=FAST)
@given(histories, st.floats(0, 1))
def test_it_remembers_all_that_it_needs(history: History, share: float) -> None:
    site = Site(history.limits, history.tick_s)
    loads, ready = fed(history)
    found = sizes_resumed(
        lambda: history.params.make(site, seed=0), loads, history.start, ready, share
    )
    assert found == reference(history)
