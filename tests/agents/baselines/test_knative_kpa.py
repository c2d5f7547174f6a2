"""Knative's autoscaler as a controller, its known quirks, and the complaints about it."""

import math
from dataclasses import replace
from typing import Any

import pytest

from gatepilot.agents.baselines.knative_buckets import Buckets
from gatepilot.agents.baselines.knative_kpa import KnativeKpa, KnativeKpaParams
from gatepilot.agents.baselines.knative_scale import (
    DeciderSpec,
    DelayWindow,
    Panic,
    desired_pods,
)
from gatepilot.agents.baselines.knative_zero import ZeroRules
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import GatewaySettings, Limits

from .loads import sizes_under, snapshot_of

UNKNOWN = None


def kpa(limits: Limits | None = None, **params: Any) -> KnativeKpa:  # noqa: ANN401
    """Against a target of 10 requests per replica, four ticks a stable window."""
    made = KnativeKpaParams(10.0, 1.0, **params)
    return made.make(Site(limits or Limits(1, 32), 15.0), seed=0)


# --- feeding ------------------------------------------------------------------------------------


def test_the_load_is_running_plus_waiting() -> None:
    snapshot = replace(snapshot_of(10, 1, ready=1), waiting=21.0)
    assert kpa().decide(snapshot, GatewaySettings(1)).replicas == 4


@pytest.mark.parametrize("name", ["running", "waiting"])
def test_a_load_that_is_half_known_is_no_scrape(name: str) -> None:
    settings = GatewaySettings(1)
    snapshot = replace(snapshot_of(100, 1, ready=1), **{name: None})  # type: ignore[arg-type]
    assert kpa().decide(snapshot, settings) is settings


def test_a_load_without_ready_pods_is_remembered_and_holds() -> None:
    assert sizes_under(kpa(), [60, 60], 1, [None, 1]) == [1, 6]


def test_only_replicas_move() -> None:
    settings = GatewaySettings(1, 3, 99)
    assert kpa().decide(snapshot_of(60, 1, ready=1), settings) == GatewaySettings(6, 3, 99)


def test_the_delay_window_takes_the_largest_of_its_wishes() -> None:
    window = DelayWindow(3)
    wishes = [5, 3, 4, 1, 1, 1, 7]
    assert [window.delayed(tick, wish) for tick, wish in enumerate(wishes)] == [5, 5, 5, 4, 4, 1, 7]


# --- parameters ---------------------------------------------------------------------------------


def test_the_defaults_are_upstreams() -> None:
    params = KnativeKpaParams()
    assert params == KnativeKpaParams(100.0, 0.7, 60.0, 0.1, 2.0, 1000.0, 2.0, 0.0)
    assert params.spec == DeciderSpec(70.0)
    assert ZeroRules() == ZeroRules(True, 60.0, 30.0, 0.0, 610.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("target_utilization", 0.0),
        ("target_utilization", 1.01),
        ("stable_window_s", 5.9),
        ("stable_window_s", 3601.0),
        ("panic_window_fraction", 0.009),
        ("panic_window_fraction", 1.1),
        ("panic_threshold", 1.0),
        ("panic_threshold", 10.1),
        ("max_scale_up_rate", 1.0),
        ("max_scale_down_rate", 1.0),
        ("max_scale_up_rate", math.inf),
        ("scale_down_delay_s", -1.0),
        ("scale_down_delay_s", 3601.0),
        ("scale_down_delay_s", math.nan),
    ],
)
def test_what_upstream_refuses_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        KnativeKpaParams(**{name: value})


def test_a_target_below_upstreams_least_is_refused() -> None:
    assert KnativeKpaParams(0.01, 1.0).spec.target == 0.01
    with pytest.raises(ValueError, match=r"concurrency 0\.01 x target_utilization 0\.9"):
        KnativeKpaParams(0.01, 0.9)
    with pytest.raises(ValueError, match="concurrency nan"):
        KnativeKpaParams(math.nan)


# --- known quirks -------------------------------------------------------------------------------


def test_quirk_a_gap_in_the_scrapes_is_no_load_once_they_come_back() -> None:
    """While they are away the average stands; their return pulls it down."""
    steady = [40.0] * 6
    assert sizes_under(kpa(), [*steady, UNKNOWN, UNKNOWN], 4)[-1] == 4
    assert sizes_under(kpa(), [*steady, UNKNOWN, UNKNOWN, 40], 4)[-1] == 2


def test_quirk_a_window_without_scrapes_scales_in_once_and_then_holds() -> None:
    sizes = sizes_under(kpa(), [80.0] * 6 + [UNKNOWN] * 20, 8)
    assert sizes == [8] * 9 + [4] * 17


def test_quirk_an_empty_window_is_not_one_that_ends_now() -> None:
    buckets = Buckets.of(60.0, 15.0)
    buckets.record(0, 40.0)
    assert [buckets.average(tick) for tick in (3, 4, 5)] == [40.0, 0.0, 0.0]
    assert [buckets.is_empty(tick) for tick in (3, 4, 5)] == [False, False, True]


def test_quirk_averages_are_cut_to_six_decimals() -> None:
    """So seventy pods' worth of load and a third of a millionth more is seventy."""
    buckets = Buckets.of(60.0, 15.0)
    for tick, load in enumerate((70.000001, 70.0, 70.0)):
        buckets.record(tick, load)
    assert buckets.average(2) == 70.0


def test_quirk_panic_lasts_longer_than_60_s_by_whatever_the_next_tick_is() -> None:
    for now_s, wish in ((59.0, 8), (60.0, 8), (60.1, 4)):
        assert desired_pods(Panic(0.0, 8), now_s, 8, (10.0, 10.0), DeciderSpec(10.0)) == wish


def test_quirk_panic_is_measured_against_ready_pods_so_a_slow_start_prolongs_it() -> None:
    """The load fits what was asked for, but its pods are not ready for 300 s."""
    loads, slow = [60.0] * 30, [1.0] * 20 + [6.0] * 10
    controller = kpa()
    assert set(sizes_under(controller, loads, 1, slow)) == {6}
    assert controller.state.panic.since_s is None
    early = kpa()
    sizes_under(early, loads[:24], 1, slow[:24])
    assert early.state.panic.since_s == 19 * 15.0


def test_quirk_the_panic_threshold_looks_past_the_largest_rate() -> None:
    panic = Panic()
    spec = DeciderSpec(10.0, max_scale_up_rate=1.1)
    assert desired_pods(panic, 0.0, 10, (50.0, 200.0), spec) == 11
    assert panic.since_s == 0.0


# --- complaints ---------------------------------------------------------------------------------


def test_knative_9121_the_end_of_a_panic_halves_the_pods_at_once() -> None:
    """Not mended: held for the whole window, then nothing but the rate stops the fall."""
    sizes = sizes_under(kpa(), [10.0] + [200.0] + [60.0] * 8, 1)
    assert sizes == [1, 20, 20, 20, 20, 20, 10, 6, 6, 6]


def test_knative_3153_the_end_of_a_panic_undoes_what_was_ordered_beyond_the_ready_pods() -> None:
    """Not mended: the rate is one of ready pods. 1000 are ordered, 40 are ready, 20 remain."""
    spike, later = 10_000.0, 100.0
    loads = [10.0, spike, *[later] * 5]
    ready = [1.0, 1.0, *[40.0] * 5]
    sizes = sizes_under(kpa(Limits(1, 1000)), loads, 1, ready)
    assert sizes == [1, 1000, 1000, 1000, 1000, 1000, 20]


@pytest.mark.parametrize("load", [0.0, 10.0, UNKNOWN])
def test_knative_pr_4795_a_restart_does_not_scale_in_within_the_first_window(
    load: float | None,
) -> None:
    """Mended: a fresh autoscaler starts in panic with the pods it finds."""
    assert sizes_under(kpa(), [load] * 5, 7) == [7] * 5


def test_knative_pr_4795_a_restart_finds_nothing_to_keep_at_one_pod() -> None:
    assert Panic.of_a_fresh_autoscaler(5.0, 1).since_s is None
    assert Panic.of_a_fresh_autoscaler(5.0, 2) == Panic(5.0, 2)


def test_knative_pr_4795_what_is_restored_is_no_restart() -> None:
    """With its memory, the controller goes on as if nothing had been."""
    loads = [10.0] * 12
    whole = sizes_under(kpa(), loads, 7)
    first, second = kpa(), kpa()
    before = sizes_under(first, loads[:3], 7)
    second.restore(first.saved())
    assert before + sizes_under(second, loads[3:], before[-1]) == whole
    assert whole == [7] * 5 + [3] + [1] * 6
