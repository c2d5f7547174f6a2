"""KEDA as a controller, its known quirks, and the complaints about it."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from gatepilot.agents.baselines.hpa import HpaParams, MetricTarget
from gatepilot.agents.baselines.hpa_behavior import HpaBehavior, ScalingPolicy, ScalingRules
from gatepilot.agents.baselines.keda import Keda, KedaParams
from gatepilot.agents.baselines.keda_activation import (
    Activation,
    Activity,
    Fallback,
    FallbackBehavior,
    Poll,
    SourceHealth,
    activated_size,
    fallback_replicas,
)
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import GatewaySettings, Limits

from .loads import sizes_under, snapshot_of

LIMITS = Limits(1, 32)
AT_ONCE = HpaBehavior(down=ScalingRules(0.0, (ScalingPolicy("percent", 100),)))
"""Without a window on the way down."""
DEAD = None


def keda(target: float = 1.0, *, limits: Limits = LIMITS, **params: Any) -> Keda:  # noqa: ANN401
    return KedaParams(target, **params).make(Site(limits, 15.0), seed=0)


# --- feeding ------------------------------------------------------------------------------------


def test_the_load_is_running_plus_waiting_and_readiness_plays_no_part() -> None:
    snapshot = replace(snapshot_of(40, 4, ready=1), waiting=20)
    assert keda(10).decide(snapshot, GatewaySettings(4)).replicas == 6


@pytest.mark.parametrize("name", ["running", "waiting"])
def test_a_source_that_says_half_has_failed(name: str) -> None:
    settings = GatewaySettings(4)
    snapshot = replace(snapshot_of(0, 4), **{name: None})  # type: ignore[arg-type]
    assert keda().decide(snapshot, settings) is settings


def test_only_replicas_move() -> None:
    settings = GatewaySettings(4, 3, 99)
    assert keda().decide(snapshot_of(6, 4), settings) == GatewaySettings(6, 3, 99)


def test_between_the_limits_it_is_the_hpa() -> None:
    loads = [24 + 20 * math.sin(i / 7) for i in range(150)]
    hpa = HpaParams((MetricTarget("outstanding", 3.0),)).make(Site(LIMITS, 15.0), seed=0)
    whole = [float(round(load)) for load in loads]
    assert sizes_under(keda(3), whole, 4) == sizes_under(hpa, whole, 4)


def test_a_restored_one_hands_on_what_the_last_poll_said() -> None:
    first, second = (keda(has_cached_metrics=True, fallback=Fallback(9, 0)) for _ in range(2))
    assert sizes_under(first, [6], 4) == [6]
    second.restore(json.loads(json.dumps(first.saved())))
    assert sizes_under(second, [DEAD, DEAD], 6) == [6, 9]


# --- parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [0.0, -1.0, 0.0009, math.nan, math.inf])
def test_targets_that_upstream_cannot_hold_are_refused(target: float) -> None:
    with pytest.raises(ValueError, match=f"KEDA target is {target}"):
        KedaParams(target)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"polling_s": 0.0}, "polling_s is 0.0"),
        ({"sync_s": math.nan}, "sync_s is nan"),
        ({"activation_target": -1.0}, "activation_target is -1.0"),
        ({"cooldown_s": math.inf}, "cooldown_s is inf"),
    ],
)
def test_what_never_runs_is_refused(params: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KedaParams(**params)  # type: ignore[arg-type]


def test_fallbacks_that_upstream_refuses_are_refused() -> None:
    with pytest.raises(ValueError, match="replicas -1 and failure_threshold 3"):
        Fallback(-1)
    with pytest.raises(ValueError, match="replicas 4 and failure_threshold -1"):
        Fallback(4, -1)
    with pytest.raises(ValueError, match="behavior 'higher': expected one of static, current, "):
        Fallback(4, behavior="higher")  # type: ignore[arg-type]


# --- known quirks -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target_milli", "total_milli"), [(500, 0), (2500, 12_000), (3999, 18_000)]
)
def test_quirk_a_fallback_loses_the_fraction_of_the_target(
    target_milli: int, total_milli: int
) -> None:
    health = SourceHealth()
    assert health.total_milli(None, 4, target_milli, Fallback(6, 0)) == total_milli


def test_quirk_values_are_cut_to_thousandths_with_their_binary_noise() -> None:
    assert KedaParams(1.001).target_milli == 1000  # 1.001 * 1000 = 1000.9999999999999
    assert KedaParams(1.9999).target_milli == 1999


def test_quirk_the_cooldown_ends_only_after_its_last_second() -> None:
    activation = Activation(cooldown_s=300.0)
    at, after = Poll(400.0, is_active=False), Poll(400.001, is_active=False)
    assert activated_size(3, at, Activity(last_active_s=100.0), activation) == 3
    assert activated_size(3, after, Activity(last_active_s=100.0), activation) == 0


def test_quirk_a_target_that_was_never_active_goes_at_its_second_poll() -> None:
    activity = Activity()
    polls = [Poll(30.0 * i, is_active=False) for i in range(2)]
    assert [activated_size(3, poll, activity, Activation()) for poll in polls] == [3, 0]


def test_quirk_failures_are_counted_by_the_hpas_syncs_not_by_polls() -> None:
    """Four syncs are 45 s; four polls would be 90 s."""
    loads = [4, *[DEAD] * 6]
    assert sizes_under(keda(fallback=Fallback(8)), loads, 4) == [4, 4, 4, 4, 8, 8, 8]


def test_quirk_a_fallback_is_only_a_metric_that_the_hpa_may_overrule() -> None:
    fallback = Fallback(11, 0)
    assert sizes_under(keda(fallback=fallback), [DEAD] * 50, 10) == [10] * 50  # tolerance
    assert sizes_under(keda(fallback=fallback), [DEAD] * 2, 3) == [6, 11]  # growth
    fewer = sizes_under(keda(fallback=Fallback(2, 0)), [DEAD] * 22, 10)  # 300 s
    assert fewer == [10] * 21 + [2]


def test_quirk_cached_metrics_hand_a_failure_on_after_the_source_is_back() -> None:
    loads = [DEAD, 4, 4]
    cached = keda(fallback=Fallback(7, 1), has_cached_metrics=True)
    assert sizes_under(cached, loads, 4) == [4, 7, 7]
    assert sizes_under(keda(fallback=Fallback(7, 1)), loads, 4) == [4, 4, 4]


def test_quirk_a_fallback_of_none_lets_a_dead_source_switch_the_target_off() -> None:
    dead, activity = Poll(1000.0, is_active=False, has_failed=True), Activity(last_active_s=0.0)
    assert activated_size(9, dead, activity, Activation(fallback=Fallback(0))) == 0
    assert activated_size(9, dead, activity, Activation(fallback=Fallback(1))) == 9
    assert activated_size(9, dead, activity, Activation()) == 9


@pytest.mark.parametrize(
    ("behavior", "at_3", "at_9"),
    [("static", 6, 6), ("current", 3, 9), ("current_if_higher", 6, 9), ("current_if_lower", 3, 6)],
)
def test_the_four_behaviours(behavior: FallbackBehavior, at_3: int, at_9: int) -> None:
    fallback = Fallback(6, behavior=behavior)
    assert (fallback_replicas(fallback, 3), fallback_replicas(fallback, 9)) == (at_3, at_9)


# --- complaints ---------------------------------------------------------------------------------

ONE_HOUR = 240
"""Ticks."""


@pytest.mark.parametrize("ticks", [4, 20, ONE_HOUR])
def test_keda_965_a_dead_source_holds_the_last_size(ticks: int) -> None:
    """Mended upstream: no value is handed on, and the HPA holds."""
    assert sizes_under(keda(), [9, *[DEAD] * ticks], 5)[1:] == [9] * ticks


def test_keda_965_a_source_that_comes_back_with_0_is_believed() -> None:
    """Not mended: an empty store says 0, and that is no failure."""
    sizes = sizes_under(keda(), [9, *[DEAD] * 40, 0], 9)
    assert sizes[-2:] == [9, 1]


def test_keda_886_an_unknown_metric_does_not_switch_the_target_off() -> None:
    """Mended upstream: failed is not inactive, whatever the cooldown."""
    activity = Activity(last_active_s=0.0)
    for poll in range(1, 2 * ONE_HOUR):
        dead = Poll(30.0 * poll, is_active=False, has_failed=True)
        assert activated_size(9, dead, activity, Activation()) == 9


def test_keda_1850_a_dead_source_scales_in_only_to_what_was_asked_for() -> None:
    outage = [20, *[DEAD] * ONE_HOUR]
    assert min(sizes_under(keda(), outage, 20)) == 20
    higher = keda(fallback=Fallback(6, behavior="current_if_higher"))
    assert min(sizes_under(higher, outage, 20)) == 20
    assert sizes_under(keda(fallback=Fallback(6)), outage, 20)[-1] == 6


def test_keda_4249_a_source_that_stays_dead_does_not_oscillate() -> None:
    """Mended upstream: polls leave a failed target with a fallback alone."""
    sizes = sizes_under(keda(fallback=Fallback(5), behavior=AT_ONCE), [DEAD] * ONE_HOUR, 1)
    assert sizes == [1] * 3 + [5] * (ONE_HOUR - 3)


def test_keda_4249_an_intermittent_source_oscillates_without_a_window() -> None:
    """Not mended: two changes an outage. The default window hides it if outages follow soon."""
    cycle = [9] * 8 + [DEAD] * 8
    restless = sizes_under(keda(fallback=Fallback(5), behavior=AT_ONCE), cycle * 5, 9)
    assert set(restless) == {9, 5}
    assert sum(a != b for a, b in pairwise(restless)) == 9
    assert set(sizes_under(keda(fallback=Fallback(5)), cycle * 5, 9)) == {9}
    slow = [9] * 8 + [DEAD] * 30
    assert set(sizes_under(keda(fallback=Fallback(5)), slow * 3, 9)) == {9, 5}


def test_keda_5475_state_and_input_replay_a_decision() -> None:
    """As far as a controller: what it knew before a change is open, and gives the change again."""
    controller = keda(fallback=Fallback(8, 1))
    sizes_under(controller, [4, DEAD], 4)
    before = json.loads(json.dumps(controller.saved()))
    assert before["failures"] == 1
    snapshot, settings = snapshot_of(DEAD, 4), GatewaySettings(4)
    changed = controller.decide(snapshot, settings)
    again = keda(fallback=Fallback(8, 1))
    again.restore(before)
    assert again.decide(snapshot, settings) == changed == GatewaySettings(8)
    assert again.saved() == controller.saved()
