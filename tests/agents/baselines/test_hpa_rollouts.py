"""What the HPA makes of replicas that are replaced or started: the complaints about it, by number.

Upstream mended some of them. Where the rule that is read here still has the fault, the test shows
it, so that a comparison with this HPA is one with the real one.
"""

import math
from dataclasses import replace

import pytest

from gatepilot.agents.baselines.hpa import Hpa, HpaParams, MetricTarget
from gatepilot.agents.baselines.hpa_replicas import (
    Pod,
    Tolerance,
    average_value_replicas,
    utilization_replicas,
)
from gatepilot.agents.baselines.site import Site
from gatepilot.envs.schema.settings import GatewaySettings, Limits
from gatepilot.envs.schema.snapshot import MetricsSnapshot

LIMITS = Limits(1, 32)
SNAPSHOT = MetricsSnapshot(
    replicas_requested=4,
    breaker_threshold=0.5,
    replicas_ready=4,
    replicas_starting=0,
    cpu_utilization=0.4,
    kv_usage=0.4,
)


def hpa(metric: MetricTarget) -> Hpa:
    return HpaParams(metrics=(metric,)).make(Site(LIMITS, 15.0), seed=0)


def by_value(pods: list[Pod], current: int) -> int | None:
    """Against a target of 1."""
    return average_value_replicas(pods, current, 1000, Tolerance())


def by_cpu(pods: list[Pod], current: int) -> int | None:
    """Against a target of 80 %."""
    return utilization_replicas(pods, current, 80, Tolerance())


ROLLOUTS = [(current, surge) for current in (1, 2, 3, 10) for surge in (1, 2, 5, 10)]


@pytest.mark.parametrize(("current", "surge"), ROLLOUTS)
def test_kubernetes_72775_new_pods_of_an_idle_rollout_create_no_extra_ones(
    current: int, surge: int
) -> None:
    """Mended: what is missing or not ready stands for nothing that could grow."""
    old = [Pod(0)] * current
    for new in (Pod(None), Pod(0, is_pending=True), Pod(900, is_pending=True)):
        assert by_value([*old, *[new] * surge], current) in range(current + 1)
        assert by_cpu([*old, *[new] * surge], current) in range(current + 1)


@pytest.mark.parametrize(("current", "surge"), ROLLOUTS)
def test_kubernetes_98914_the_start_up_spike_of_unready_pods_is_not_load(
    current: int, surge: int
) -> None:
    """Mended for CPU: at most the old pods' own use counts."""
    new = [Pod(3000, is_ready=False)] * surge
    assert by_cpu([*[Pod(400)] * current, *new], current) == math.ceil(0.5 * current)
    assert by_cpu([*[Pod(800)] * current, *new], current) == current


def test_kubernetes_98914_a_spike_after_readiness_is_taken_for_load() -> None:
    """Not mended: upstream waits for one sample window, then a warming pod counts."""
    assert by_cpu([*[Pod(600)] * 3, Pod(3000)], 4) == 6  # 4800 / 4 = 120 %; 1.5 x 4
    controller = hpa(MetricTarget("cpu", 0.8))
    warming = replace(SNAPSHOT, cpu_utilization=1.2)
    assert controller.decide(warming, GatewaySettings(4)).replicas == 6


def test_kubernetes_98914_starting_replicas_damp_the_growth_of_the_controller() -> None:
    """Two ready at 100 % and two starting: 2.0 / 4 = 50 % of 80 %, so it holds."""
    snapshot = replace(SNAPSHOT, replicas_ready=2, replicas_starting=2, cpu_utilization=1.0)
    settings = GatewaySettings(4)
    assert hpa(MetricTarget("cpu", 0.8)).decide(snapshot, settings) is settings


@pytest.mark.parametrize("value_milli", [0, 100, 400, 600, 880, 899, 901, 950, 1000])
def test_kubernetes_123325_a_new_pod_without_a_sample_adds_no_replica(value_milli: int) -> None:
    """Mended: it stands at the target, and a wish against the direction is dropped.

    One pod at 60 %, its successor unknown: (0.6 + 1) / 2 = 0.8, and ceil(0.8 x 2) = 2 was applied.
    """
    assert by_value([Pod(value_milli), Pod(None)], 1) == 1
    controller = hpa(MetricTarget("kv", 0.8))
    snapshot = replace(SNAPSHOT, replicas_ready=1, replicas_starting=1, kv_usage=value_milli / 1250)
    assert controller.decide(snapshot, GatewaySettings(1)).replicas == 1


def test_kubernetes_123325_a_custom_metric_counts_pods_that_are_not_ready() -> None:
    """Not mended: readiness is looked at for CPU alone."""
    assert by_value([Pod(0), *[Pod(900, is_ready=False)] * 5], 1) == 5  # 4500 / 6 = 0.75 x 6
    assert by_cpu([Pod(0), *[Pod(900, is_ready=False)] * 5], 1) == 0


def test_kubernetes_84142_a_rollout_whose_pods_overlap_climbs_to_the_maximum() -> None:
    """Not mended: old and new pods at 60 % of the target each are counted, not those asked for."""
    current, sizes = 5, []
    for _ in range(12):
        wanted = by_value([Pod(600)] * (2 * current), current)
        assert wanted is not None
        current = LIMITS.clip(wanted)
        sizes.append(current)
    assert sizes[:4] == [6, 8, 10, 12]  # ceil(0.6 x 2 N)
    assert sizes[-1] == 32


def test_kubernetes_84142_pods_that_are_being_deleted_are_no_pods() -> None:
    """Draining replicas are left out, so an orderly replacement does not climb."""
    controller = hpa(MetricTarget("kv", 0.8))
    snapshot = replace(SNAPSHOT, replicas_draining=4, kv_usage=0.8)
    settings = GatewaySettings(4)
    assert controller.decide(snapshot, settings) is settings


def test_a_target_of_no_replicas_is_switched_off() -> None:
    controller = hpa(MetricTarget("outstanding", 1.0))
    busy = replace(SNAPSHOT, running=100, waiting=100)
    settings = GatewaySettings(0)
    for _ in range(30):
        assert controller.decide(busy, settings) is settings
