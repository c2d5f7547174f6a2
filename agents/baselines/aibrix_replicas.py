"""What AIBrix's pod autoscaler makes of a metric: APA, KPA, and the guard for pending replicas.

Rule of vllm-project/aibrix in September 2026, after the guard of aibrix#2670 (files under
`pkg/controller/podautoscaler/`): `algorithm/apa.go` (6da8a5b), `algorithm/kpa.go` (its panic test
and bounds at the refactoring of 2025; its dead band as quoted from 774f93f, the file of that commit
was out of reach), `context/context.go` (2576b18), `autoscaler.go` (015a2e5) and its test (029a38b).

APA, with r = use / target and N replicas:

- r > 1 + up tolerance: the smaller of `ceil(N r)` and `ceil(max_scale_up_rate x N)`;
- r < 1 - down tolerance: the larger of `ceil(N r)` and `floor(N / max_scale_down_rate)`;
- else N.

KPA, for either window: N if its average lies within target x (1 -+ tolerance), else
`ceil(average / target)`; clamped to [`floor(N / max_scale_down_rate)`, `ceil(max_scale_up_rate x
N)`, at least 1]. It panics while panic average / stable average > threshold or the stable average
is 0: then the larger of both, else the stable one.

Guard, for metrics that are read from replicas, while replicas are pending: growth is computed anew
with the pending ones at 0, a shrink with them at the target, and neither may turn or go further.

Quirks kept:

- KPA's averages are *means* over replicas if they are read from replicas, but `ceil(average /
  target)` takes them for totals: an overloaded set of replicas is shrunk. An external metric is a
  total, so there it is right; the dead band then compares a total with the target of one replica,
  and a total near it keeps any number of replicas;
- the panic hold is lost: the setter of the largest panic size is empty, so a panic may shrink;
- the guard of KPA's growth divides a mean by the target of one replica, so growth mostly waits
  until none is pending.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Strategy = Literal["apa", "kpa"]
"""`scalingStrategy`. (`HPA` only makes a Kubernetes object.)"""


@dataclass(frozen=True, slots=True)
class ScalingContext:
    """A PodAutoscaler's target and annotations."""

    target: float
    """Value of the metric per replica that is aimed for."""
    up_tolerance: float = 0.1
    """Slack above the target (`scale-up-tolerance`)."""
    down_tolerance: float = 0.1
    """Slack below the target (`scale-down-tolerance`)."""
    max_scale_up_rate: float = 2.0
    """Largest growth at once, a factor."""
    max_scale_down_rate: float = 2.0
    """Largest shrink at once, a divisor."""
    panic_threshold: float = 2.0
    """KPA: panic average / stable average above which it panics."""

    def __post_init__(self) -> None:
        """Refuses what cannot be scaled by. Upstream takes any number.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        for name in ("target", "max_scale_up_rate", "max_scale_down_rate", "panic_threshold"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value}, expected a number above 0")
        for name in ("up_tolerance", "down_tolerance"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value}, expected 0 or more")


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What an algorithm says before cool-down and bounds."""

    replicas: int
    """Replicas wanted."""
    value: float
    """The average it went by; the guard looks at it."""


def apa_recommendation(current: int, use: float, context: ScalingContext) -> Recommendation:
    """APA.

    Args:
        current: Replicas in the target's spec.
        use: Stable average of the metric per replica.
        context: Target, tolerances and rates.
    """
    ratio = use / context.target
    replicas = current
    if ratio > 1 + context.up_tolerance:
        highest = math.ceil(context.max_scale_up_rate * current)
        replicas = min(math.ceil(current * ratio), highest)
    elif ratio < 1 - context.down_tolerance:
        lowest = math.floor(current / context.max_scale_down_rate)
        replicas = max(math.ceil(current * ratio), lowest)
    return Recommendation(replicas, use)


def kpa_recommendation(
    current: int, stable: float, panic: float, context: ScalingContext
) -> Recommendation:
    """KPA.

    Args:
        current: Replicas in the target's spec.
        stable: Average over the stable window.
        panic: Average over the panic window.
        context: Target, tolerances, rates and panic threshold.
    """
    highest = max(1, math.ceil(context.max_scale_up_rate * current))
    lowest = math.floor(current / context.max_scale_down_rate)
    upper = context.target * (1 + context.up_tolerance)
    lower = context.target * (1 - context.down_tolerance)

    def wanted(average: float) -> int:
        is_outside = average > upper or average < lower
        raw = math.ceil(average / context.target) if is_outside else current
        return min(max(raw, lowest), highest)

    if stable <= 0 or panic / stable > context.panic_threshold:
        return Recommendation(max(wanted(stable), wanted(panic)), panic)
    return Recommendation(wanted(stable), stable)


def guarded_replicas(
    strategy: Strategy,
    recommendation: Recommendation,
    current: int,
    ready: int,
    context: ScalingContext,
) -> int:
    """The recommendation while replicas are pending; as it is if none are.

    Args:
        strategy: The algorithm it comes from.
        recommendation: Within the bounds of the target.
        current: Replicas in the target's spec.
        ready: Those that are ready.
        context: The target per replica.
    """
    wanted, target = recommendation.replicas, context.target
    pending = current - ready
    if pending <= 0 or wanted == current:
        return wanted
    if wanted > current:
        thinned = recommendation.value * ready / current
        anew = thinned / target if strategy == "kpa" else current * thinned / target
        return min(max(math.ceil(anew), current), wanted)
    filled = recommendation.value * ready + target * pending
    anew = filled / target if strategy == "kpa" else current * (filled / current) / target
    return max(min(math.ceil(anew), current), wanted)
