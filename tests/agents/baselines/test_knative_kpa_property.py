"""Knative's autoscaler against a second implementation, written in another shape.

The controller keeps a mode and two windows; the second implementation keeps every write and every
evaluation, finds the last breach and the beginning of its panic by looking back, and averages over
ranges of ticks.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.knative_kpa import KnativeKpaParams
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import Limits

from .loads import sizes_resumed, sizes_under

FAST, FULL = 200, 3_000


@dataclass(frozen=True)
class Tick:
    load: int | None
    ready: int | None


@dataclass(frozen=True)
class History:
    params: KnativeKpaParams
    limits: Limits
    tick_s: int
    start: int
    ticks: list[Tick]


@dataclass(frozen=True)
class Evaluation:
    now_s: int
    is_breach: bool
    stable: int
    larger: int


def average(written: dict[int, int], now: int, reach: int) -> float:
    """Over the ticks from the first write that counts to the last one."""
    last = max(written)
    if now - last >= reach:
        return 0.0
    first = last
    for earlier, later in reversed(list(pairwise(sorted(written)))):
        if later - earlier >= reach:
            break
        first = earlier
    counted = range(max(first, now - reach + 1), last + 1)
    return math.floor(sum(written.get(t, 0) for t in counted) / len(counted) * 1e6) / 1e6


def evaluated(
    now_s: int, ready: int, averages: list[float], params: KnativeKpaParams
) -> Evaluation:
    pods, target = max(ready, 1), params.concurrency * params.target_utilization
    raw = [math.ceil(average / target) for average in averages]
    low = math.floor(pods / params.max_scale_down_rate)
    high = math.ceil(pods * params.max_scale_up_rate)
    limited = [sorted((low, count, high))[1] for count in raw]
    lifted = [max(n, 1) if count else n for n, count in zip(limited, raw, strict=True)]
    return Evaluation(now_s, raw[1] / pods >= params.panic_threshold, lifted[0], max(lifted))


def wanted(log: list[Evaluation], window_s: float) -> int:
    """What the last evaluation wants."""

    def panics(k: int) -> bool:
        breaches = [e.now_s for e in log[: k + 1] if e.is_breach]
        return bool(breaches) and log[k].now_s <= breaches[-1] + window_s

    last = len(log) - 1
    if not panics(last):
        return log[last].stable
    first = last
    while first > 0 and panics(first - 1):
        first -= 1
    return max(e.larger for e in log[first:])


def reference(history: History) -> list[int]:
    params, tick_s = history.params, history.tick_s
    reaches = [
        max(1, math.ceil(window_s / tick_s))
        for window_s in (
            params.stable_window_s,
            params.stable_window_s * params.panic_window_fraction,
        )
    ]
    written: dict[int, int] = {}
    at_start = history.ticks[0].ready or 0
    log = [Evaluation(0, at_start > 1, at_start, at_start)]
    wishes: list[tuple[int, int]] = []
    asked, sizes = history.start, []
    for i, tick in enumerate(history.ticks):
        if tick.load is not None:
            written[i] = tick.load
        is_known = bool(written) and (i - max(written)) * tick_s <= params.stable_window_s
        if tick.ready is not None and is_known:
            averages = [average(written, i, reach) for reach in reaches]
            log.append(evaluated(i * tick_s, tick.ready, averages, params))
            wishes.append((i * tick_s, wanted(log, params.stable_window_s)))
            now_s = i * tick_s
            recent = [w for t, w in wishes if now_s - t < params.scale_down_delay_s or t == now_s]
            asked = max(history.limits.min_replicas, min(max(recent), history.limits.max_replicas))
        sizes.append(asked)
    return sizes


def controlled(history: History) -> list[int]:
    controller = history.params.make(Site(history.limits, history.tick_s), seed=0)
    loads, ready = [t.load for t in history.ticks], [t.ready for t in history.ticks]
    return sizes_under(controller, loads, history.start, ready)


params_strategy = st.builds(
    KnativeKpaParams,
    st.sampled_from([1.0, 10.0, 100.0]),
    st.sampled_from([0.5, 0.7, 1.0]),
    st.sampled_from([6.0, 50.0, 60.0, 90.0]),
    st.sampled_from([0.1, 0.5, 1.0]),
    st.sampled_from([1.1, 1.5, 2.0]),
    st.sampled_from([1.5, 2.0, 1000.0]),
    st.sampled_from([1.1, 2.0, 3.0]),
    st.sampled_from([0.0, 0.0, 40.0, 120.0]),
)
loads_strategy = st.integers(0, 15) | st.integers(0, 400)
ticks_strategy = st.builds(
    Tick,
    st.one_of(loads_strategy, loads_strategy, st.none()),
    st.one_of(st.integers(0, 20), st.integers(1, 6), st.integers(1, 6), st.none()),
)
histories = st.builds(
    History,
    params_strategy,
    st.tuples(st.integers(1, 4), st.integers(4, 64)).map(lambda pair: Limits(*pair)),
    st.sampled_from([5, 15, 20, 60]),
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
    loads, ready = [t.load for t in history.ticks], [t.ready for t in history.ticks]
    found = sizes_resumed(
        lambda: history.params.make(site, seed=0), loads, history.start, ready, share
    )
    assert found == reference(history)
