"""AIBrix's APA and KPA as controllers, their known quirks, and the complaints about them."""

import math
from dataclasses import replace
from typing import Any

import pytest

from gatepilot.agents.baselines.aibrix_apa import AibrixApaParams
from gatepilot.agents.baselines.aibrix_kpa import AibrixKpaParams
from gatepilot.agents.baselines.aibrix_pods import AibrixPods, Source, Windows
from gatepilot.agents.baselines.aibrix_replicas import (
    ScalingContext,
    apa_recommendation,
    guarded_replicas,
    kpa_recommendation,
)
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import GatewaySettings, Limits

from .loads import sizes_under, snapshot_of

SITE = Site(Limits(1, 32), 15.0)
ONE_SAMPLE: dict[str, Any] = {"observe_window_s": 1.0, "down_cooldown_s": 0.0}
UNKNOWN = None


def apa(target: float = 10.0, **params: Any) -> AibrixPods:  # noqa: ANN401
    return AibrixApaParams(target, **params).make(SITE, seed=0)


def kpa(target: float = 10.0, **params: Any) -> AibrixPods:  # noqa: ANN401
    return AibrixKpaParams(target, **params).make(SITE, seed=0)


# --- feeding ------------------------------------------------------------------------------------


def test_the_load_is_running_plus_waiting_by_replica_or_as_a_total() -> None:
    snapshot = replace(snapshot_of(40, 4, ready=4), waiting=20)
    assert apa().decide(snapshot, GatewaySettings(4)).replicas == 6  # 15 each of 10
    assert kpa().decide(snapshot, GatewaySettings(4)).replicas == 6  # 60 of 10


def test_apa_without_ready_replicas_has_no_metric() -> None:
    settings = GatewaySettings(4)
    for ready in (None, 0.0):
        assert apa().decide(snapshot_of(400, 4, ready), settings) is settings


@pytest.mark.parametrize("name", ["running", "waiting"])
def test_kpa_holds_where_the_total_is_half_known(name: str) -> None:
    settings = GatewaySettings(4)
    snapshot = replace(snapshot_of(0, 4, ready=4), **{name: None})  # type: ignore[arg-type]
    assert kpa().decide(snapshot, settings) is settings


def test_only_replicas_move() -> None:
    settings = GatewaySettings(4, 3, 99)
    for controller in (apa(), kpa()):
        assert controller.decide(snapshot_of(60, 4, ready=4), settings) == GatewaySettings(6, 3, 99)


# --- parameters ---------------------------------------------------------------------------------


def test_the_defaults_are_upstreams() -> None:
    assert Windows() == Windows(180.0, 60.0, 0.0, 300.0) == AibrixKpaParams().windows
    assert AibrixKpaParams().context == ScalingContext(64.0, 0.1, 0.1, 2.0, 2.0, 2.0)
    assert AibrixApaParams().context == AibrixKpaParams().context
    assert AibrixApaParams().windows == replace(Windows(), panic_s=180.0)


@pytest.mark.parametrize("kind", [AibrixApaParams, AibrixKpaParams])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("target", 0.0),
        ("target", math.nan),
        ("max_scale_up_rate", -1.0),
        ("max_scale_down_rate", 0.0),
        ("up_tolerance", -0.1),
        ("down_tolerance", math.inf),
        ("observe_window_s", 0.0),
        ("observe_window_s", 3601.0),
        ("up_cooldown_s", -1.0),
        ("down_cooldown_s", math.nan),
    ],
)
def test_what_cannot_be_scaled_by_is_refused(kind: Any, name: str, value: float) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        kind(**{name: value})


def test_kpa_refuses_windows_in_the_wrong_order_and_unknown_sources() -> None:
    with pytest.raises(ValueError, match=r"panic_window_s is 181\.0, expected 0-180 s, not 0"):
        AibrixKpaParams(panic_window_s=181.0)
    with pytest.raises(ValueError, match=r"panic_threshold is 0\.0"):
        AibrixKpaParams(panic_threshold=0.0)
    with pytest.raises(ValueError, match="source 'domain': expected one of pod, external"):
        AibrixKpaParams(source="domain")  # type: ignore[arg-type]


# --- known quirks -------------------------------------------------------------------------------


def test_quirk_the_cool_down_does_not_hold_the_first_shrink() -> None:
    assert sizes_under(kpa(observe_window_s=60.0), [40], 8) == [4]
    assert sizes_under(apa(), [40], 8) == [4]


def test_quirk_the_cool_down_falls_to_a_low_from_before_the_growth() -> None:
    """50 requests want 5, but 290 s ago one replica was enough."""
    controller = kpa(observe_window_s=1.0, panic_window_s=1.0)
    loads = [10.0, 20.0, 40.0, 60.0, *[60.0] * 15, 50.0]
    assert sizes_under(controller, loads, 1) == [1, 2, 4, *[6] * 16, 1]


def test_quirk_kpa_by_replica_shrinks_an_overloaded_set() -> None:
    """Ten times the target each, and it halves; the same load as a total doubles."""
    by_pod = kpa(source="pod", **ONE_SAMPLE, panic_window_s=1.0)
    total = kpa(**ONE_SAMPLE, panic_window_s=1.0)
    assert sizes_under(by_pod, [3200.0], 32) == [16]
    assert sizes_under(total, [3200.0], 16) == [32]


def test_quirk_a_panic_keeps_no_peak() -> None:
    """Knative would stay at 8 for a stable window."""
    shrunk = kpa_recommendation(8, 5.0, 12.0, ScalingContext(10.0))
    assert (shrunk.replicas, shrunk.value) == (4, 12.0)


def test_quirk_a_total_near_the_target_of_one_keeps_ten() -> None:
    context = ScalingContext(10.0)
    found = [kpa_recommendation(10, total, total, context).replicas for total in (8.9, 9.0, 11.0)]
    assert found == [5, 10, 10]


def test_quirk_a_dead_scrape_of_the_replicas_scales_in_and_a_dead_total_does_not() -> None:
    loads = [80.0, *[UNKNOWN] * 5]
    assert sizes_under(apa(**ONE_SAMPLE), loads, 8) == [8, 4, 2, 1, 1, 1]
    by_pod = kpa(source="pod", **ONE_SAMPLE, panic_window_s=1.0)
    assert sizes_under(by_pod, loads, 8)[-1] == 1
    assert sizes_under(kpa(**ONE_SAMPLE, panic_window_s=1.0), loads, 8) == [8] * 6


def test_quirk_a_sample_exactly_as_old_as_its_window_counts() -> None:
    edge = {"panic_window_s": 1.0, "down_cooldown_s": 0.0}
    loads = [90.0, 30.0, 30.0]
    assert sizes_under(kpa(observe_window_s=30.0, **edge), loads, 8)[-1] == 5  # 150 / 3
    assert sizes_under(kpa(observe_window_s=29.9, **edge), loads, 8)[-1] == 3  # 60 / 2


def test_quirk_only_a_step_to_five_times_panics_with_the_default_windows() -> None:
    """Panic compares the windows with each other: 19 samples with 7."""

    def panics(factor: float) -> bool:
        ratios = []
        for high in range(1, 20):
            stable = (19 - high) + high * factor
            panic = max(7 - high, 0) + min(high, 7) * factor
            ratios.append((panic / 7) / (stable / 19))
        return max(ratios) > ScalingContext(1.0).panic_threshold

    assert [panics(factor) for factor in (2, 4, 4.8, 5)] == [False, False, False, True]


# --- complaints ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [apa, kpa])
def test_aibrix_1159_and_593_the_way_down_is_bounded(make: Any) -> None:  # noqa: ANN401
    """Mended: no delay window any more. 180 s of old samples and the halvings, then the minimum."""
    busy, idle = [160.0] * 20, [0.0] * 30
    sizes = sizes_under(make(), busy + idle, 16)
    assert set(sizes[:20]) == {16}
    until_least = sizes.index(1) - 20
    assert until_least <= 180 / 15 + 4
    assert set(sizes[20 + until_least :]) == {1}


def test_aibrix_2670_the_bare_algorithm_cascades_while_replicas_are_pending() -> None:
    """What the guard was made for: two ready replicas at twice the target."""
    current, sizes, context = 2, [], ScalingContext(50.0)
    for _ in range(3):
        current = apa_recommendation(current, 100.0, context).replicas
        sizes.append(current)
    assert sizes == [4, 8, 16]


def test_aibrix_2670_pending_replicas_do_not_cascade() -> None:
    """Mended: two ready, two pending, and it waits for them, however long."""
    assert set(sizes_under(apa(50.0), [200.0] * 40, 2, [2.0] * 40)) == {4}
    by_pod = kpa(50.0, source="pod")
    assert set(sizes_under(by_pod, [900.0] * 40, 4, [2.0] * 40)) == {5}


def test_aibrix_2670_the_window_remembers_what_fewer_replicas_had() -> None:
    """Not mended: 12 samples of 100 and one of 50 are 96 each, so it doubles once more."""
    loads, ready = [200.0] * 41, [2.0] * 40 + [4.0]
    assert sizes_under(apa(50.0), loads, 2, ready)[-2:] == [4, 8]


def test_aibrix_2670_a_total_is_not_guarded_and_does_not_need_to_be() -> None:
    assert set(sizes_under(kpa(50.0), [200.0] * 40, 2, [2.0] * 40)) == {4}


@pytest.mark.parametrize("source", ["pod", "external"])
def test_aibrix_pr_1629_both_averages_reach_the_algorithm(source: Source) -> None:
    """Mended: they were always 0, so nothing ever grew."""
    share = 4 if source == "pod" else 1
    calm = kpa(source=source)
    assert sizes_under(calm, [60.0 * share], 4, [4.0]) == [6]
    stepping = kpa(source=source, observe_window_s=180.0, panic_window_s=1.0)
    sizes = sizes_under(stepping, [40.0 * share] * 10 + [150.0 * share], 4, [4.0] * 11)
    assert sizes[-1] == 8  # panic: 150 / 50 = 3; 15, limited to twice
    without = kpa(source=source, observe_window_s=180.0, panic_window_s=180.0)
    assert sizes_under(without, [40.0 * share] * 10 + [150.0 * share], 4, [4.0] * 11)[-1] == 5


def test_aibrix_guard_knows_replicas_that_nobody_asked_for() -> None:
    grown = apa_recommendation(4, 90.0, ScalingContext(50.0))
    for ready in (4, 5, 40):
        assert guarded_replicas("apa", grown, 4, ready, ScalingContext(50.0)) == grown.replicas
