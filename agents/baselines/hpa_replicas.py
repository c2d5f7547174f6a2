"""What the Kubernetes HPA makes of one metric: pods in, wanted replicas out.

Rule of Kubernetes v1.33 and of the tree of mid 2026 (`pkg/controller/podautoscaler/`:
`replica_calculator.go`, `metrics/utilization.go`); earlier releases differ at the edge of the
tolerance, see `Tolerance`. All quantities are integers as upstream: resource and metric values in
thousandths ("milli"), utilisation in whole percent. Go's integer division truncates; values are
never negative here.

Regimes, with r = current / target over the pods that are ready and have a value:

1. no value of any ready pod: the metric has failed (`None`);
2. nothing missing, and r <= 1 or nothing unready: r within the tolerance keeps the size, else
   `ceil(r * ready pods)`: unready pods drop out of the mean and of the count;
3. otherwise r is taken again: missing pods stand at the target if r < 1 (utilisation: at
   max(100 %, target)) and at 0 if r > 1, unready ones at 0 if r > 1; keep the size if that lands
   in the tolerance, turns the direction, or would move the size against the direction; else
   `ceil(r * pods in the mean)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

FULL_PERCENT: Final = 100
"""A pod that uses all it requested."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far current / target may be from 1 without a change.

    Since v1.33 the test is `1 - down <= r <= 1 + up`: a ratio of exactly 1.1 keeps the size. Until
    v1.32 it was `|1 - r| <= 0.1`, which 1.1 fails by one binary rounding, so 4 pods at 110 of 100
    grew to 5.
    """

    down: float = 0.1
    """Slack below 1 (`--horizontal-pod-autoscaler-tolerance`, 0.1)."""
    up: float = 0.1
    """Slack above 1."""

    def covers(self, ratio: float) -> bool:
        """Whether a ratio is too near to 1 to act on."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of the target. Those that are being deleted are left out: upstream ignores them."""

    value_milli: int | None
    """Current value in thousandths; `None`: no sample."""
    is_ready: bool = True
    """Looked at for CPU alone, as upstream."""
    is_pending: bool = False
    """Not started: unready for every kind of metric, whatever its value."""
    request_milli: int = 1000
    """What utilisation is a share of (the container's request)."""


@dataclass(frozen=True, slots=True)
class _Groups:
    ready: list[Pod]
    unready: list[Pod]
    missing: list[Pod]


def utilization_replicas(
    pods: Sequence[Pod], current: int, target_percent: int, tolerance: Tolerance
) -> int | None:
    """Replicas by CPU utilisation (`Resource` metric with `averageUtilization`).

    Args:
        pods: The pods that are not being deleted.
        current: Replicas in the target's spec.
        target_percent: Target share of the request, whole percent.
        tolerance: When to keep the size.

    Returns:
        Wanted replicas before stabilisation and limits; `None` if the metric has failed.
    """

    def ratio(values: Sequence[Pod]) -> float:
        used = sum(pod.value_milli or 0 for pod in values)
        percent = used * FULL_PERCENT // sum(pod.request_milli for pod in values)
        return percent / target_percent

    stand_in_percent = max(FULL_PERCENT, target_percent)
    return _replicas(
        _group(pods, needs_ready=True),
        current,
        tolerance,
        ratio,
        lambda pod: pod.request_milli * stand_in_percent // FULL_PERCENT,
    )


def average_value_replicas(
    pods: Sequence[Pod], current: int, target_milli: int, tolerance: Tolerance
) -> int | None:
    """Replicas by a value each pod reports (`Pods` metric with `averageValue`).

    Args:
        pods: The pods that are not being deleted. Readiness is not looked at, only `is_pending`.
        current: Replicas in the target's spec.
        target_milli: Target of the mean, thousandths.
        tolerance: When to keep the size.

    Returns:
        Wanted replicas before stabilisation and limits; `None` if the metric has failed.
    """

    def ratio(values: Sequence[Pod]) -> float:
        return sum(pod.value_milli or 0 for pod in values) // len(values) / target_milli

    return _replicas(
        _group(pods, needs_ready=False), current, tolerance, ratio, lambda _: target_milli
    )


def total_replicas(total_milli: int, current: int, target_milli: int, tolerance: Tolerance) -> int:
    """Replicas by a total over the cluster (`External` metric with `averageValue`).

    `ceil(total / target)`; the tolerance is taken against target x current. Pods and their
    readiness play no part.

    Args:
        total_milli: The total, thousandths.
        current: Replicas in the target's status, 1 or more.
        target_milli: Target per replica, thousandths.
        tolerance: When to keep the size.
    """
    if tolerance.covers(total_milli / (target_milli * current)):
        return current
    return math.ceil(total_milli / target_milli)


def _group(pods: Sequence[Pod], *, needs_ready: bool) -> _Groups:
    groups = _Groups([], [], [])
    for pod in pods:
        if pod.is_pending:
            groups.unready.append(pod)
        elif pod.value_milli is None:
            groups.missing.append(pod)
        elif needs_ready and not pod.is_ready:
            groups.unready.append(pod)
        else:
            groups.ready.append(pod)
    return groups


def _replicas(
    groups: _Groups,
    current: int,
    tolerance: Tolerance,
    ratio: Callable[[Sequence[Pod]], float],
    stand_in_milli: Callable[[Pod], int],
) -> int | None:
    if not groups.ready:
        return None
    first = ratio(groups.ready)
    counts_unready = bool(groups.unready) and first > 1.0
    if not counts_unready and not groups.missing:
        return current if tolerance.covers(first) else math.ceil(first * len(groups.ready))

    counted = list(groups.ready)
    if first < 1.0:
        counted += [_valued(pod, stand_in_milli(pod)) for pod in groups.missing]
    elif first > 1.0:
        counted += [_valued(pod, 0) for pod in groups.missing]
    if counts_unready:
        counted += [_valued(pod, 0) for pod in groups.unready]

    second = ratio(counted)
    turned = (first < 1.0 < second) or (second < 1.0 < first)
    if turned or tolerance.covers(second):
        return current
    wanted = math.ceil(second * len(counted))
    against = (second < 1.0 and wanted > current) or (second > 1.0 and wanted < current)
    return current if against else wanted


def _valued(pod: Pod, value_milli: int) -> Pod:
    return Pod(value_milli, pod.is_ready, pod.is_pending, pod.request_milli)
