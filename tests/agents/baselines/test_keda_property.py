"""KEDA against a second implementation, written from the documented rule in another shape.

The controller counts failures and remembers the last activity; the second implementation keeps all
answers, looks back over them each time, and calculates with fractions.
"""

import json
import math
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepilot.agents.baselines.hpa_behavior import HpaBehavior, ScalingPolicy, ScalingRules
from gatepilot.agents.baselines.keda import KedaParams
from gatepilot.agents.baselines.keda_activation import (
    Activation,
    Activity,
    Fallback,
    Poll,
    activated_size,
)
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import Limits

from .hpa_reference import HpaReference, near_1
from .loads import sizes_under

FAST, FULL = 200, 3_000


@dataclass(frozen=True)
class History:
    params: KedaParams
    limits: Limits
    tick_s: int
    start: int
    loads: list[float | None]


def fallen_back(fallback: Fallback, current: int) -> int:
    asked = fallback.replicas
    return {
        "static": asked,
        "current": current,
        "current_if_higher": sorted((asked, current))[1],
        "current_if_lower": sorted((asked, current))[0],
    }[fallback.behavior]


def wish(answers: list[Fraction | None], params: KedaParams, current: int) -> int | None:
    """From all answers the HPA ever got, the latest last."""
    total, fallback = answers[-1], params.fallback
    if total is None:
        if fallback is None or any(
            a is not None for a in answers[-1 - fallback.failure_threshold :]
        ):
            return None
        if len(answers) <= fallback.failure_threshold:
            return None
        total = Fraction(math.floor(params.target) * fallen_back(fallback, current))
    target = Fraction(math.floor(Fraction(params.target) * 1000), 1000)
    if near_1(float(total / (target * current))):
        return current
    return math.ceil(total / target)


def reference(history: History) -> list[int]:
    params, low = history.params, history.limits.min_replicas
    hpa = HpaReference(history.limits, params.behavior)
    answers: list[Fraction | None] = []
    polled: Fraction | None = None
    current, sizes = history.start, []
    for i, load in enumerate(history.loads):
        now = i * history.tick_s
        said = None if load is None else Fraction(math.floor(Fraction(load) * 1000), 1000)
        if now % (history.tick_s * math.ceil(params.polling_s / history.tick_s)) == 0:
            polled = said
            stays = load is None and (params.fallback is None or params.fallback.replicas > 0)
            is_active = load is not None and load > params.activation_target
            if current < low and not stays and not is_active:
                current = low
        if now % (history.tick_s * math.ceil(params.sync_s / history.tick_s)) == 0:
            answer = polled if params.has_cached_metrics else said

            def wanted(size: int, answer: Fraction | None = answer) -> int | None:
                answers.append(answer)
                return wish(answers, params, size)

            current = hpa.synced(now, current, wanted)
        sizes.append(current)
    return sizes


def controlled(history: History) -> list[int]:
    controller = history.params.make(Site(history.limits, history.tick_s), seed=0)
    return sizes_under(controller, history.loads, history.start)


behaviors = st.sampled_from(
    [
        None,
        HpaBehavior(),
        HpaBehavior(down=ScalingRules(0.0, (ScalingPolicy("percent", 100),))),
        HpaBehavior(down=ScalingRules(60.0, (ScalingPolicy("pods", 1, 60.0),))),
    ]
)
fallbacks = st.none() | st.builds(
    Fallback,
    st.integers(0, 20),
    st.integers(0, 4),
    st.sampled_from(["static", "current", "current_if_higher", "current_if_lower"]),
)
params_strategy = st.builds(
    KedaParams,
    st.sampled_from([0.5, 1.0, 2.5, 4.0, 10.0]),
    st.sampled_from([0.0, 0.0, 5.0]),
    polling_s=st.sampled_from([30.0, 30.0, 10.0, 120.0]),
    has_cached_metrics=st.booleans(),
    fallback=fallbacks,
    behavior=behaviors,
)
load_strategy = st.none() | st.integers(0, 120) | st.integers(0, 960).map(lambda n: n / 8)
loads_strategy = st.integers(1, 40).flatmap(
    lambda n: st.lists(load_strategy, min_size=n, max_size=n)
)
histories = st.builds(
    History,
    params_strategy,
    st.tuples(st.integers(1, 4), st.integers(4, 32)).map(lambda pair: Limits(*pair)),
    st.sampled_from([5, 15, 20, 60, 100]),
    st.integers(1, 33),
    loads_strategy,
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
    half = round(share * len(history.loads))
    site = Site(history.limits, history.tick_s)
    first, second = (history.params.make(site, seed=0) for _ in range(2))
    before = sizes_under(first, history.loads[:half], history.start)
    second.restore(json.loads(json.dumps(first.saved())))
    after = sizes_under(second, history.loads[half:], before[-1] if before else history.start)
    assert before + after == reference(history)


# --- on and off ---------------------------------------------------------------------------------


def activation_reference(polls: list[Poll], start: int, activation: Activation) -> list[int]:
    """Each poll from the list of all polls before it."""
    sizes, low = [start], activation.min_replicas
    for i, poll in enumerate(polls):
        current = sizes[-1]
        noted = [
            p.now_s
            for p, size in zip(polls[: i + 1], sizes, strict=True)
            if p.is_active and not (p.has_failed and size > 0)
        ]
        idle_s = poll.now_s - noted[-1] if noted else poll.now_s
        wait_s = activation.cooldown_s if noted else activation.initial_cooldown_s
        keeps_fallback = activation.fallback is None or activation.fallback.replicas > 0
        if poll.is_active:
            size = current or max(1, low)
        elif poll.has_failed and keeps_fallback:
            size = current
        elif low == 0:
            size = 0 if idle_s > wait_s else current
        else:
            size = max(low, current)
        sizes.append(size)
    return sizes[1:]


@settings(deadline=None, max_examples=FAST)
@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30),
    st.integers(0, 5),
    st.builds(
        Activation,
        st.sampled_from([0, 0, 2]),
        st.sampled_from([0.0, 60.0, 300.0]),
        st.sampled_from([0.0, 90.0]),
        st.sampled_from([None, Fallback(0), Fallback(4)]),
    ),
)
def test_activations_agree(
    answers: list[tuple[bool, bool]], start: int, activation: Activation
) -> None:
    polls = [Poll(30.0 * i, *answer) for i, answer in enumerate(answers)]
    activity, current, sizes = Activity(), start, []
    for poll in polls:
        current = activated_size(current, poll, activity, activation)
        sizes.append(current)
    assert sizes == activation_reference(polls, start, activation)
