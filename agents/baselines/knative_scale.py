"""What the Knative Pod Autoscaler makes of two window averages.

Rule of knative/serving, v1: `pkg/autoscaler/scaling/autoscaler.go` (00a4a55),
`pkg/autoscaler/aggregation/max/` (a862e79), `pkg/autoscaler/config/config.go` (01e2d38).

Formula: stable = `ceil(stable average / target)`, panic = `ceil(panic average / target)`, both
clamped to [`floor(N / max_scale_down_rate)`, `ceil(N x max_scale_up_rate)`] with
N = max(1, ready pods); averages are totals over all pods.

Regimes:

- panic: from the moment the *unclamped* panic count / N reaches `panic_threshold`, each breach
  anew, until more than a stable window has passed without one. Then the wish is the larger of both
  and never below the largest of this panic;
- otherwise the stable count.

A fresh autoscaler with more than one ready pod starts in panic with that number, so that a restart
does not scale in. The scale-down delay takes the largest wish of the last
`ceil(delay / tick)` ticks.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DeciderSpec:
    """What the autoscaler is told of one revision."""

    target: float
    """Value of the metric per pod that is aimed for."""
    stable_window_s: float = 60.0
    """How long a panic outlasts its last breach."""
    panic_threshold: float = 2.0
    """Wanted pods / N at which panic begins."""
    max_scale_up_rate: float = 1000.0
    """Largest growth at once, as a factor of N."""
    max_scale_down_rate: float = 2.0
    """Largest shrink at once, as a divisor of N."""
    activation_scale: int = 1
    """Fewest pods of a revision that is wanted at all."""
    is_reachable: bool = True
    """Whether traffic is routed to the revision; if not, nothing limits the way down."""


@dataclass(slots=True)
class Panic:
    """Whether and since when the autoscaler panics."""

    since_s: float | None = None
    """Time of the last breach, seconds; `None`: stable mode."""
    most_pods: int = 0
    """Largest wish of this panic."""

    @classmethod
    def of_a_fresh_autoscaler(cls, now_s: float, ready: int) -> Panic:
        """The mode to start in; `ready` is 0 if it is not known."""
        return cls(now_s if ready > 1 else None, ready)


def desired_pods(
    panic: Panic, now_s: float, ready: int, averages: tuple[float, float], spec: DeciderSpec
) -> int:
    """The wish before delay and bounds; enters, prolongs or leaves panic.

    Args:
        panic: The mode, changed in place.
        now_s: Time, seconds.
        ready: Ready pods.
        averages: Average of the metric's total over the stable and over the panic window.
        spec: The revision's parameters.
    """
    pods = max(1, ready)
    raw_stable, raw_panic = (math.ceil(average / spec.target) for average in averages)
    highest = math.ceil(spec.max_scale_up_rate * pods)
    lowest = math.floor(pods / spec.max_scale_down_rate) if spec.is_reachable else 0

    def limited(raw: int) -> int:
        clamped = min(max(raw, lowest), highest)
        return max(clamped, spec.activation_scale) if raw > 0 else clamped

    if raw_panic / pods >= spec.panic_threshold:
        panic.since_s = now_s
    elif panic.since_s is not None and panic.since_s + spec.stable_window_s < now_s:
        panic.since_s, panic.most_pods = None, 0
    if panic.since_s is None:
        return limited(raw_stable)
    panic.most_pods = max(panic.most_pods, limited(raw_stable), limited(raw_panic))
    return panic.most_pods


@dataclass(slots=True)
class DelayWindow:
    """Holds back a shrink: the largest wish of the last ticks."""

    ticks: int
    """How many, the current one included."""
    wishes: deque[tuple[int, int]] = field(default_factory=deque)
    """Tick and wish, oldest first; what a later and larger wish covers is dropped."""

    def delayed(self, tick: int, wish: int) -> int:
        """Records the wish of a tick and says what is to be done."""
        while self.wishes and self.wishes[-1][1] <= wish:
            self.wishes.pop()
        self.wishes.append((tick, wish))
        while tick - self.wishes[0][0] >= self.ticks:
            self.wishes.popleft()
        return self.wishes[0][1]
