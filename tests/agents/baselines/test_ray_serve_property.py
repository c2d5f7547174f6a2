"""Ray Serve's policy against a second implementation, written in another shape.

It keeps every sample and every direction, looks back over them, and calculates with fractions.
Loads end in .37 or are 0, so that no wish is a whole number which binary noise could lift.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.ray_serve import RayServeParams
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import Limits

from .loads import sizes_resumed, sizes_under

FAST, FULL = 200, 3_000


@dataclass(frozen=True)
class Tick:
    load: Fraction | None
    ready: int | None


@dataclass(frozen=True)
class History:
    params: RayServeParams
    limits: Limits
    tick_s: int
    start: int
    ticks: list[Tick]


def wish(total: Fraction, ready: int, params: RayServeParams) -> int:
    desired = total / Fraction(params.target_ongoing_requests)
    grows = desired > ready
    share = Fraction(params.upscaling_factor if grows else params.downscaling_factor)
    size = math.ceil((1 - share) * ready + share * desired)
    return ready - 1 if size == ready and desired <= ready - 1 else size


def run_length(directions: list[int]) -> int:
    """How often the last direction stands at the end."""
    length = 0
    while length < len(directions) and directions[-1 - length] == directions[-1]:
        length += 1
    return length


def reference(history: History) -> list[int]:
    params, tick_s = history.params, history.tick_s
    low, high = history.limits.min_replicas, history.limits.max_replicas
    samples: list[tuple[int, Fraction]] = []
    directions: list[int] = []
    asked, sizes = history.start, []
    for i, tick in enumerate(history.ticks):
        if tick.load is not None:
            samples.append((i, tick.load))
        if tick.load is not None and tick.ready is not None:
            seen = [v for at, v in samples if (i - at) * tick_s < params.look_back_period_s]
            mean = sum(seen, Fraction(0)) / len(seen)
            total = {"mean": mean, "max": max(seen), "min": min(seen)}[params.aggregation]
            wanted = asked
            if tick.ready == 0:
                wanted = max(asked, math.ceil(params.upscaling_factor)) if total else asked
            else:
                want = max(low, min(wish(total, tick.ready, params), high))
                directions.append((want > asked) - (want < asked))
                delay_s = params.upscale_delay_s if want > asked else params.downscale_delay_s
                if directions[-1] and run_length(directions) > delay_s // tick_s:
                    wanted = want
                    directions.append(0)
            asked = max(low, min(wanted, high))
        sizes.append(asked)
    return sizes


def controlled(history: History) -> list[int]:
    controller = history.params.make(Site(history.limits, history.tick_s), seed=0)
    loads = [None if t.load is None else float(t.load) for t in history.ticks]
    return sizes_under(controller, loads, history.start, [t.ready for t in history.ticks])


loads_strategy = st.integers(0, 60).map(lambda n: n + Fraction(37, 100)) | st.just(Fraction(0))
ticks_strategy = st.builds(
    Tick,
    st.one_of(loads_strategy, loads_strategy, loads_strategy, st.none()),
    st.integers(0, 12) | st.none() | st.integers(1, 12),
)
params_strategy = st.builds(
    RayServeParams,
    st.sampled_from([0.5, 1.0, 2.0, 4.0]),
    st.sampled_from([0.25, 0.5, 1.0, 2.0, 6.0]),
    st.sampled_from([0.125, 0.5, 1.0]),
    st.sampled_from([0.0, 10.0, 30.0, 45.0]),
    st.sampled_from([0.0, 30.0, 60.0, 100.0]),
    st.sampled_from([1.0, 30.0, 40.0, 90.0]),
    st.sampled_from(["mean", "mean", "max", "min"]),
)
histories = st.builds(
    History,
    params_strategy,
    st.tuples(st.integers(1, 4), st.integers(4, 32)).map(lambda pair: Limits(*pair)),
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
    loads = [None if t.load is None else float(t.load) for t in history.ticks]
    ready = [t.ready for t in history.ticks]
    found = sizes_resumed(
        lambda: history.params.make(site, seed=0), loads, history.start, ready, share
    )
    assert found == reference(history)
