"""What the Kubernetes HPA makes of a wanted size: stabilisation over time, then limits per step.

Rule of Kubernetes v1.33 and of the tree of mid 2026 (`pkg/controller/podautoscaler/horizontal.go`,
`pkg/apis/autoscaling/v2/defaults.go`). Two regimes:

- an object without `spec.behavior`: the largest recommendation of the last 300 s, then at most
  max(2 N, 4) at once; nothing limits the way down but the minimum;
- with it: the size moves only as far as the smallest recommendation of the up window and the
  largest of the down window allow; then each policy limits the change per period, counted from the
  size at the period's start: what the autoscaler itself added or removed within it is taken off.

Quirks kept: a recommendation exactly as old as the window counts without `behavior` and does not
with it; a change exactly one period old does not count; recommendations are remembered as the
metrics gave them, before stabilisation and limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ...envs.schema.settings import Limits

UP_LIMIT_FACTOR: Final = 2
"""Growth at once without `behavior`: to twice the size (`scaleUpLimitFactor`) ..."""
UP_LIMIT_REPLICAS: Final = 4
"""... or to four replicas (`scaleUpLimitMinimum`), whichever is more."""
DOWN_WINDOW_S: Final = 300.0
"""`--horizontal-pod-autoscaler-downscale-stabilization`."""
_PERCENT: Final = 100


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """One entry of `behavior.scaleUp.policies` or `scaleDown.policies`."""

    kind: Literal["pods", "percent"]
    """What `value` counts."""
    value: int
    """Largest change per period."""
    period_s: float = 15.0
    """Length of the period."""


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """`behavior.scaleUp` or `behavior.scaleDown`."""

    window_s: float
    """Stabilisation window."""
    policies: tuple[ScalingPolicy, ...]
    """Limits on the change per period, at least one."""
    select: Literal["max", "min", "disabled"] = "max"
    """Which policy holds: that which allows most or least; or no change at all."""

    def __post_init__(self) -> None:
        """Refuses rules without a policy.

        Raises:
            ValueError: `policies` is empty. Upstream fills in its defaults; say what you mean.
        """
        if not self.policies:
            msg = "scaling rules without a policy, expected at least one"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class HpaBehavior:
    """`spec.behavior` with upstream's defaults: what an empty `behavior: {}` becomes."""

    up: ScalingRules = ScalingRules(0.0, (ScalingPolicy("pods", 4), ScalingPolicy("percent", 100)))
    """Growth: at once, by 4 pods or 100 % per 15 s, whichever is more."""
    down: ScalingRules = ScalingRules(DOWN_WINDOW_S, (ScalingPolicy("percent", 100),))
    """Shrinking: after 300 s, by up to 100 % per 15 s."""


@dataclass(slots=True)
class HpaMemory:
    """What an HPA remembers between two syncs."""

    recommendations: list[tuple[float, int]] = field(default_factory=list)
    """Time in seconds and wanted size, before stabilisation and limits."""
    changes: list[tuple[float, int]] = field(default_factory=list)
    """Time in seconds and signed change of size; kept with `behavior` only."""

    def forget(self, before_s: float) -> None:
        """Drops what is older than `before_s`: nothing looks at it any more."""
        self.recommendations = [(t, size) for t, size in self.recommendations if t >= before_s]
        self.changes = [(t, change) for t, change in self.changes if t >= before_s]

    def saved(self) -> dict[str, Any]:
        """All of it, as JSON content."""
        return {
            "recommendations": [list(entry) for entry in self.recommendations],
            "changes": [list(entry) for entry in self.changes],
        }

    @classmethod
    def restored(cls, saved: dict[str, Any]) -> HpaMemory:
        """The inverse of `saved`."""
        return cls(
            [(t, size) for t, size in saved["recommendations"]],
            [(t, change) for t, change in saved["changes"]],
        )


@dataclass(frozen=True, slots=True)
class Wish:
    """What the metrics want at one sync."""

    now_s: float
    """Time of the sync."""
    current: int
    """Replicas in force."""
    wanted: int
    """Replicas the metrics want."""


def synced_size(
    memory: HpaMemory,
    now_s: float,
    current: int,
    wanted: Callable[[], int | None],
    limits: Limits,
    behavior: HpaBehavior | None,
) -> int:
    """The size after one sync.

    Args:
        memory: What is remembered; the first sync records the current size.
        now_s: Time of the sync.
        current: Replicas in force. 0 stays 0: upstream takes it for "autoscaling switched off".
        wanted: What the metrics want, asked only within the limits; `None`: hold and remember
            nothing.
        limits: Outside of them the size is set to the limit, metrics unread.
        behavior: `spec.behavior`; `None`: without it.
    """
    if not memory.recommendations:
        memory.recommendations.append((now_s, current))
    if current == 0:
        return 0
    size = limits.clip(current)
    if size == current:
        asked = wanted()
        if asked is None:
            return current
        wish = Wish(now_s, current, asked)
        if behavior is None:
            size = plain_size(memory, wish, limits)
        else:
            size = behaved_size(memory, wish, limits, behavior)
    if behavior is not None and size != current:
        memory.changes.append((now_s, size - current))
    return size


def plain_size(memory: HpaMemory, wish: Wish, limits: Limits) -> int:
    """The next size of an object without `spec.behavior`; remembers the wish."""
    cutoff_s = wish.now_s - DOWN_WINDOW_S
    stable = max([wish.wanted, *(n for t, n in memory.recommendations if t >= cutoff_s)])
    memory.forget(cutoff_s)
    memory.recommendations.append((wish.now_s, wish.wanted))
    ceiling = max(UP_LIMIT_FACTOR * wish.current, UP_LIMIT_REPLICAS)
    return min(limits.clip(stable), ceiling)


def behaved_size(memory: HpaMemory, wish: Wish, limits: Limits, behavior: HpaBehavior) -> int:
    """The next size of an object with `spec.behavior`; remembers the wish."""
    up_cutoff_s = wish.now_s - behavior.up.window_s
    down_cutoff_s = wish.now_s - behavior.down.window_s
    least = min([wish.wanted, *(n for t, n in memory.recommendations if t > up_cutoff_s)])
    most = max([wish.wanted, *(n for t, n in memory.recommendations if t > down_cutoff_s)])
    stable = min(max(wish.current, least), most)
    periods_s = [p.period_s for rules in (behavior.up, behavior.down) for p in rules.policies]
    memory.forget(min(up_cutoff_s, down_cutoff_s, wish.now_s - max(periods_s)))
    memory.recommendations.append((wish.now_s, wish.wanted))
    if stable > wish.current:
        ceiling = max(_limit(memory, wish, behavior.up, direction=1), wish.current)
        return min(stable, ceiling, limits.max_replicas)
    if stable < wish.current:
        floor = min(_limit(memory, wish, behavior.down, direction=-1), wish.current)
        return max(stable, floor, limits.min_replicas)
    return stable


def _limit(memory: HpaMemory, wish: Wish, rules: ScalingRules, *, direction: int) -> int:
    """The size that the rules allow at most (direction 1, rounded up) or at least (-1, down)."""
    if rules.select == "disabled":
        return wish.current
    sizes = []
    for policy in rules.policies:
        cutoff_s = wish.now_s - policy.period_s
        start = wish.current - sum(change for t, change in memory.changes if t > cutoff_s)
        if policy.kind == "pods":
            sizes.append(start + direction * policy.value)
        else:
            size = start * (1 + direction * (policy.value / _PERCENT))
            sizes.append(math.ceil(size) if direction > 0 else int(size))
    return max(sizes) if (rules.select == "max") == (direction > 0) else min(sizes)
