"""The HPA as a controller, and its known quirks."""

import math
from dataclasses import replace

import pytest

from gatepilot.agents.baselines.hpa import (
    Hpa,
    HpaParams,
    MetricTarget,
    metric_replicas,
)
from gatepilot.agents.baselines.hpa_behavior import (
    HpaBehavior,
    HpaMemory,
    ScalingPolicy,
    ScalingRules,
    Wish,
    behaved_size,
)
from gatepilot.agents.baselines.hpa_replicas import Pod, Tolerance, utilization_replicas
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import GatewaySettings, Limits
from gatepilot.envs.schema.snapshot import MetricsSnapshot

LIMITS = Limits(1, 32)
SNAPSHOT = MetricsSnapshot(
    replicas_requested=4,
    breaker_threshold=0.5,
    replicas_ready=4,
    replicas_starting=0,
    replicas_draining=0,
    cpu_utilization=0.5,
    kv_usage=0.5,
    running=40,
    waiting=0,
)
CPU, KV, OUTSTANDING = (
    MetricTarget("cpu", 0.5),
    MetricTarget("kv", 0.5),
    MetricTarget("outstanding", 10.0),
)


def hpa(*metrics: MetricTarget, limits: Limits = LIMITS, tick_s: float = 15.0) -> Hpa:
    return HpaParams(metrics=metrics).make(Site(limits, tick_s), seed=0)


def size_after(controller: Hpa, replicas: int = 4, **changes: float | None) -> int:
    snapshot = replace(SNAPSHOT, **changes)  # type: ignore[arg-type]
    return controller.decide(snapshot, GatewaySettings(replicas)).replicas


# --- feeding ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "changes", "wanted"),
    [
        (CPU, {"cpu_utilization": 0.9}, 8),  # 1.8 x 4 = 7.2
        (CPU, {"cpu_utilization": 0.9, "replicas_ready": 3, "replicas_starting": 1}, 6),  # 67 %
        (CPU, {"cpu_utilization": 0.2, "replicas_ready": 3, "replicas_starting": 1}, 2),  # 0.4 x 3
        (CPU, {"cpu_utilization": 0.2, "replicas_draining": 3}, 2),  # draining ones are no pods
        (KV, {"kv_usage": 0.9}, 8),
        (KV, {"kv_usage": 0.9, "replicas_ready": 3, "replicas_starting": 1}, 6),  # 675 at 4
        (KV, {"kv_usage": 0.2, "replicas_ready": 3, "replicas_starting": 1}, 3),  # (600 + 500) / 4
        (OUTSTANDING, {"running": 50, "waiting": 25}, 8),  # 75 / 10
        (OUTSTANDING, {"running": 5, "waiting": 0, "replicas_ready": None}, 1),
        (OUTSTANDING, {"running": 43, "waiting": 1}, 4),  # exactly 1.1
    ],
)
def test_what_a_metric_wants(
    metric: MetricTarget, changes: dict[str, float | None], wanted: int
) -> None:
    snapshot = replace(SNAPSHOT, **changes)  # type: ignore[arg-type]
    assert metric_replicas(metric, snapshot, 4, Tolerance()) == wanted


@pytest.mark.parametrize(
    ("metric", "needs"),
    [
        (CPU, ("cpu_utilization", "replicas_ready", "replicas_starting")),
        (KV, ("kv_usage", "replicas_ready", "replicas_starting")),
        (OUTSTANDING, ("running", "waiting")),
    ],
)
def test_a_metric_fails_without_what_it_needs_and_the_size_holds(
    metric: MetricTarget, needs: tuple[str, ...]
) -> None:
    for name in needs:
        snapshot = replace(SNAPSHOT, **{name: None})  # type: ignore[arg-type]
        assert metric_replicas(metric, snapshot, 4, Tolerance()) is None
        settings = GatewaySettings(4)
        assert hpa(metric).decide(snapshot, settings) is settings


def test_no_ready_replica_is_a_failed_metric_not_an_idle_one() -> None:
    for metric in (CPU, KV):
        assert size_after(hpa(metric), replicas_ready=0, replicas_starting=4) == 4


def test_quantities_are_rounded_up_without_binary_noise() -> None:
    noisy = 0.19 * 3  # 570.0000000000001 thousandths
    assert (
        metric_replicas(MetricTarget("kv", 0.57), replace(SNAPSHOT, kv_usage=noisy), 4, ZERO) == 4
    )
    noisier = replace(SNAPSHOT, kv_usage=0.1 + 0.2)  # 300.00000000000006 thousandths
    assert metric_replicas(MetricTarget("kv", 0.3), noisier, 4, ZERO) == 4
    above = replace(SNAPSHOT, kv_usage=0.5701)  # 570.1 -> 571
    assert metric_replicas(MetricTarget("kv", 0.57), above, 4, ZERO) == 5


ZERO = Tolerance(0.0, 0.0)


def test_only_replicas_move() -> None:
    settings = GatewaySettings(4, 3, 99)
    assert hpa(CPU).decide(replace(SNAPSHOT, cpu_utilization=0.9), settings) == GatewaySettings(
        8, 3, 99
    )


# --- several metrics ----------------------------------------------------------------------------


def test_the_largest_wish_wins() -> None:
    assert size_after(hpa(CPU, OUTSTANDING), cpu_utilization=0.6, running=75) == 8


def test_a_failed_metric_does_not_stop_growth() -> None:
    assert size_after(hpa(CPU, OUTSTANDING), cpu_utilization=None, running=75) == 8


def test_a_failed_metric_stops_a_shrink_and_is_not_remembered() -> None:
    controller = hpa(CPU, OUTSTANDING, tick_s=400.0)  # the window of 300 s is over at each tick
    assert size_after(controller, cpu_utilization=0.1, running=4) == 4  # the first records the size
    assert size_after(controller, cpu_utilization=None, running=4) == 4
    assert size_after(controller, cpu_utilization=0.1, running=4) == 1


def test_a_failed_metric_with_the_others_at_the_size_holds_it_and_is_remembered() -> None:
    controller = hpa(CPU, OUTSTANDING)
    assert size_after(controller, cpu_utilization=None, running=40) == 4
    assert [size for _, size in controller.state.memory.recommendations] == [4, 4]


def test_all_failed_holds_even_outside_what_they_wanted_before() -> None:
    controller = hpa(CPU, OUTSTANDING)
    assert size_after(controller, cpu_utilization=0.9) == 8
    assert size_after(controller, 8, cpu_utilization=None, running=None) == 8
    assert size_after(controller, 8, cpu_utilization=None, waiting=None) == 8


# --- known quirks -------------------------------------------------------------------------------


def test_quirk_a_ratio_of_exactly_1_1_holds_since_v1_33_and_grew_before() -> None:
    assert utilization_replicas([Pod(1100)] * 4, 4, 100, Tolerance()) == 4
    assert abs(1.0 - 1.1) > 0.1  # the test of v1.32 and before, by one binary rounding
    assert math.ceil(1.1 * 4) == 5


def test_quirk_binary_rounding_costs_one_replica() -> None:
    """56 % of 50 % at 25 pods is exactly 28, but 1.12 * 25 is 28.000000000000004."""
    assert utilization_replicas([Pod(560)] * 25, 25, 50, Tolerance()) == 29


def test_quirk_the_tolerance_swallows_single_steps_from_ten_replicas_on() -> None:
    """A load for one replica more is seen up to 9 replicas, and never from 10 on."""
    grown = [
        metric_replicas(OUTSTANDING, replace(SNAPSHOT, running=10 * (n + 1)), n, Tolerance())
        for n in range(1, 33)
    ]
    assert grown[:9] == list(range(2, 11))
    assert grown[9:] == list(range(10, 33))


def test_quirk_unready_replicas_make_it_wait_while_they_start() -> None:
    """Growing from 4 to 8, it does not ask for more until the new ones are ready."""
    controller = hpa(CPU)
    assert size_after(controller, cpu_utilization=0.9) == 8
    starting = {"replicas_ready": 4, "replicas_starting": 4}
    assert size_after(controller, 8, cpu_utilization=0.9, **starting) == 8
    assert size_after(controller, 8, cpu_utilization=0.9, replicas_ready=8) == 15


def test_quirk_a_target_without_ready_values_never_recovers_by_itself() -> None:
    controller = hpa(KV)
    for _ in range(50):
        assert size_after(controller, replicas_ready=0, replicas_starting=4, waiting=1000) == 4


def test_quirk_truncation_of_utilisation_can_hide_nearly_one_percent() -> None:
    # 55.9 % against 50 %: 1.118 is outside the tolerance, 55 % / 50 % = 1.1 is inside.
    assert size_after(hpa(CPU), cpu_utilization=0.559) == 4
    assert size_after(hpa(CPU), cpu_utilization=0.56) == 5


def test_quirk_a_wish_above_the_limits_is_remembered_and_keeps_the_size_up() -> None:
    controller = hpa(OUTSTANDING, limits=Limits(1, 6))
    assert size_after(controller, running=1000) == 6
    assert size_after(controller, 6, running=1) == 6
    assert max(size for _, size in controller.state.memory.recommendations) == 100


# --- behavior -----------------------------------------------------------------------------------

TWO = (ScalingPolicy("pods", 2), ScalingPolicy("percent", 50))


@pytest.mark.parametrize(
    ("select", "up", "down"),
    [("max", 15, 5), ("min", 12, 8), ("disabled", 10, 10)],
)
def test_the_selected_policy_limits_either_way(select: str, up: int, down: int) -> None:
    rules = ScalingRules(0.0, TWO, select)  # type: ignore[arg-type]
    behavior = HpaBehavior(rules, rules)
    assert behaved_size(HpaMemory(), Wish(0.0, 10, 32), LIMITS, behavior) == up
    assert behaved_size(HpaMemory(), Wish(0.0, 10, 1), LIMITS, behavior) == down


def test_percentages_round_up_to_grow_and_down_to_shrink() -> None:
    rules = ScalingRules(0.0, (ScalingPolicy("percent", 10),))
    behavior = HpaBehavior(rules, rules)
    assert behaved_size(HpaMemory(), Wish(0.0, 5, 32), LIMITS, behavior) == 6  # 5.5
    assert behaved_size(HpaMemory(), Wish(0.0, 5, 1), LIMITS, behavior) == 4  # 4.5


def test_an_up_window_takes_the_smallest_recent_wish() -> None:
    behavior = HpaBehavior(up=ScalingRules(60.0, (ScalingPolicy("percent", 900),)))
    memory = HpaMemory()
    sizes = [
        behaved_size(memory, Wish(15.0 * i, 4, wanted), LIMITS, behavior)
        for i, wanted in enumerate([6, 20, 20, 20, 20, 20])
    ]
    assert sizes == [6, 6, 6, 6, 20, 20]


# --- parameters ---------------------------------------------------------------------------------


def test_the_default_is_upstreams_80_percent_cpu_without_behavior() -> None:
    assert HpaParams() == HpaParams((MetricTarget("cpu", 0.8),), None, Tolerance(0.1, 0.1), 15.0)


@pytest.mark.parametrize("target", [0.0, -1.0, math.nan, math.inf, 0.001])
def test_targets_that_upstream_cannot_hold_are_refused(target: float) -> None:
    with pytest.raises(ValueError, match=f"HPA target of cpu is {target}"):
        MetricTarget("cpu", target)


def test_what_could_never_act_is_refused() -> None:
    with pytest.raises(ValueError, match="HPA metric 'gpu'"):
        MetricTarget("gpu", 1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="HPA with 0 metrics"):
        HpaParams(metrics=())
    with pytest.raises(ValueError, match=r"sync_s 0\.0"):
        HpaParams(sync_s=0.0)
    with pytest.raises(ValueError, match=r"tick_s is 0\.0"):
        HpaParams().make(Site(LIMITS, 0.0), seed=0)
    with pytest.raises(ValueError, match="without a policy"):
        ScalingRules(0.0, ())
