"""A second implementation of an HPA's syncs: it keeps the whole history and scans it each time."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from gatepilot.agents.baselines.hpa_behavior import HpaBehavior, ScalingRules
from gatepilot.envs.schema.settings import Limits


def near_1(ratio: float) -> bool:
    return not (ratio < 1.0 - 0.1 or ratio > 1.0 + 0.1)


def rate_limit(
    rules: ScalingRules, up: bool, now: float, current: int, log: list[tuple[float, int, int]]
) -> int:
    """Counted from the size that the first sync within the period found."""
    if rules.select == "disabled":
        return current
    sizes = []
    for policy in rules.policies:
        found = [before for t, before, _ in log if t > now - policy.period_s]
        start = found[0] if found else current
        share = 1 + (policy.value if up else -policy.value) / 100
        if policy.kind == "pods":
            sizes.append(start + (policy.value if up else -policy.value))
        else:
            sizes.append(math.ceil(start * share) if up else math.floor(start * share))
    sizes.sort()
    return sizes[-1 if (rules.select == "max") is up else 0]


@dataclass
class HpaReference:
    limits: Limits
    behavior: HpaBehavior | None
    wishes: list[tuple[float, int]] = field(default_factory=list)
    log: list[tuple[float, int, int]] = field(default_factory=list)

    def synced(self, now: float, current: int, wish: Callable[[int], int | None]) -> int:
        if not self.log:
            self.wishes.append((now, current))
        size = self._size(now, current, wish)
        self.log.append((now, current, size))
        return size

    def _size(self, now: float, current: int, wish: Callable[[int], int | None]) -> int:
        low, high = self.limits.min_replicas, self.limits.max_replicas
        if not low <= current <= high:
            return max(low, min(current, high))
        wanted = wish(current)
        if wanted is None:
            return current
        behavior = self.behavior
        if behavior is None:
            size = max([wanted] + [w for t, w in self.wishes if now - t <= 300])
            size = min(size, 2 * current if current > 2 else 4)
        else:
            up = min([wanted] + [w for t, w in self.wishes if now - t < behavior.up.window_s])
            down = max([wanted] + [w for t, w in self.wishes if now - t < behavior.down.window_s])
            size = up if current < up else down if current > down else current
            if size > current:
                limit = rate_limit(behavior.up, True, now, current, self.log)
                size = min(size, max(current, limit))
            elif size < current:
                limit = rate_limit(behavior.down, False, now, current, self.log)
                size = max(size, min(current, limit))
        self.wishes.append((now, wanted))
        return max(low, min(size, high))
