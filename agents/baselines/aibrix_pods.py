"""AIBrix's pod autoscaler around an algorithm: windows, cool-down and bounds, fed from snapshots.

Rule of vllm-project/aibrix in September 2026, files under `pkg/controller/podautoscaler/`:
`podautoscaler_controller.go` (015a2e5), `metrics/client.go`, `metrics/fetcher.go` (0dae951),
`types/metrics.go` (7883c07). The algorithms are in `aibrix_replicas`.

Regimes of a sync, every 10 s:

1. no replicas asked for: nothing, the target is switched off;
2. no metric: to the bound if the size is outside, else nothing;
3. the algorithm, its bounds, the guard for pending replicas, the cool-down, the bounds again.

Cool-down: every recommendation is remembered; one for more takes the largest of the growth window,
one for fewer the *smallest* of the shrink window, one for the same size is taken. Ages are compared
strictly, so a window of 0 s holds nothing and the recommendation itself is taken.

Quirks kept:

- the cool-down holds nothing back: the first shrink is at once, and a small one falls to the
  smallest recommendation of the last 300 s, which may stem from before a growth;
- a replica whose scrape fails counts as a value of 0, so a dead scrape of the replicas scales in; a
  failed external metric does not;
- a sample exactly as old as its window still counts;
- samples of a replica's use from before a growth count until they are too old, so APA grows on when
  the pending replicas are ready.

Schedules, prediction and the circuit breaker, all off unless asked for, are not covered.

How a snapshot stands for the metric. What it does not say is not guessed: hold.

| source | a sample | missing `running` or `waiting` | pending replicas |
|---|---|---|---|
| `pod` | (running + waiting) / ready, the mean over replicas | 0 from every replica | guarded |
| `external` | running + waiting | no metric | not looked at |

`pod` has no metric without `replicas_ready`, or while none is ready.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from ...envs.schema.settings import GatewaySettings, Limits
from ...envs.schema.snapshot import MetricsSnapshot
from .aibrix_replicas import (
    Recommendation,
    ScalingContext,
    Strategy,
    apa_recommendation,
    guarded_replicas,
    kpa_recommendation,
)
from .look_back import LookBack, whole_ticks
from .outstanding import outstanding_requests
from .site import Site

Source = Literal["pod", "external"]
"""`metricSourceType`: scraped from every replica, or asked of the cluster's external metrics."""

SYNC_S: Final = 10.0
"""`DefaultResyncInterval`."""
_LONGEST_WINDOW_S: Final = 3600.0
_DECIMALS: Final = 9
"""Takes the binary noise off a quotient of two durations."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Lengths of the windows, seconds."""

    observe_s: float = 180.0
    """Stable window (`observeWindowSeconds`)."""
    panic_s: float = 60.0
    """Panic window (`panicWindowSeconds`)."""
    up_cooldown_s: float = 0.0
    """`scale-up-cooldown-window`."""
    down_cooldown_s: float = 300.0
    """`scale-down-cooldown-window`."""

    def __post_init__(self) -> None:
        """Refuses what upstream refuses, and windows that end before they begin.

        Raises:
            ValueError: A length is out of range: it names the value.
        """
        if not 0 < self.observe_s <= _LONGEST_WINDOW_S:
            raise ValueError(f"observe_window_s is {self.observe_s}, expected 0-3600 s, not 0")
        if not 0 < self.panic_s <= self.observe_s:
            msg = f"panic_window_s is {self.panic_s}, expected 0-{self.observe_s:g} s, not 0"
            raise ValueError(msg)
        for name in ("up_cooldown_s", "down_cooldown_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value}, expected 0 or more seconds")


@dataclass(slots=True)
class Cooldown:
    """Recommendations that are still looked at, oldest first."""

    up_s: float
    """Window of growth, seconds."""
    down_s: float
    """Window of shrinking, seconds."""
    recommendations: deque[tuple[float, int]] = field(default_factory=deque)
    """Time and replicas."""

    def cooled(self, now_s: float, wanted: int, current: int) -> int:
        """Remembers a recommendation and says what is to be done about it."""
        self.recommendations.append((now_s, wanted))
        oldest_s = now_s - max(self.up_s, self.down_s)
        while self.recommendations and self.recommendations[0][0] <= oldest_s:
            self.recommendations.popleft()
        if wanted == current:
            return current
        select, window_s = (max, self.up_s) if wanted > current else (min, self.down_s)
        recent = [replicas for at, replicas in self.recommendations if at > now_s - window_s]
        return select(recent, default=wanted)


@dataclass(slots=True)
class AibrixState:
    """What changes from tick to tick."""

    stable: LookBack
    """Samples of the stable window."""
    panicking: LookBack
    """Samples of the panic window."""
    cooldown: Cooldown
    """Recommendations."""
    ticks: int = 0
    """Ticks so far."""


@dataclass(slots=True)
class AibrixPods:
    """The controller; one instance an episode. Moves replicas only."""

    strategy: Strategy
    source: Source
    context: ScalingContext
    limits: Limits
    tick_s: float
    state: AibrixState

    @classmethod
    def of(
        cls,
        strategy: Strategy,
        source: Source,
        context: ScalingContext,
        windows: Windows,
        site: Site,
    ) -> AibrixPods:
        """One for an episode at a site."""
        state = AibrixState(
            _inclusive(windows.observe_s, site.tick_s),
            _inclusive(windows.panic_s, site.tick_s),
            Cooldown(windows.up_cooldown_s, windows.down_cooldown_s),
        )
        return cls(strategy, source, context, site.limits, site.tick_s, state)

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Syncs when a sync is due, else holds."""
        tick = self.state.ticks
        self.state.ticks += 1
        if tick % whole_ticks(SYNC_S, self.tick_s) or settings.replicas == 0:
            return settings
        size = self.limits.clip(self._wanted(tick, snapshot, settings.replicas))
        return settings if size == settings.replicas else replace(settings, replicas=size)

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        state = self.state
        return {
            "ticks": state.ticks,
            "stable": state.stable.saved(),
            "panicking": state.panicking.saved(),
            "recommendations": [list(entry) for entry in state.cooldown.recommendations],
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        state = self.state
        state.ticks = saved["ticks"]
        state.stable.restore(saved["stable"])
        state.panicking.restore(saved["panicking"])
        state.cooldown.recommendations.clear()
        state.cooldown.recommendations.extend((at, n) for at, n in saved["recommendations"])

    def _wanted(self, tick: int, snapshot: MetricsSnapshot, current: int) -> int:
        sample = self._sample(snapshot)
        if sample is None:
            return current
        state = self.state
        state.stable.record(tick, sample)
        state.panicking.record(tick, sample)
        raw = self._recommended(current, _mean(state.stable, tick), _mean(state.panicking, tick))
        bounded = replace(raw, replicas=self.limits.clip(raw.replicas))
        wanted = bounded.replicas
        if self.source == "pod":
            ready = round(snapshot.replicas_ready or 0)
            wanted = guarded_replicas(self.strategy, bounded, current, ready, self.context)
        return state.cooldown.cooled(tick * self.tick_s, wanted, current)

    def _sample(self, snapshot: MetricsSnapshot) -> float | None:
        outstanding = outstanding_requests(snapshot)
        if self.source == "external":
            return outstanding
        ready = round(snapshot.replicas_ready or 0)
        if ready == 0:
            return None
        return 0.0 if outstanding is None else outstanding / ready

    def _recommended(self, current: int, stable: float, panic: float) -> Recommendation:
        if self.strategy == "apa":
            return apa_recommendation(current, stable, self.context)
        return kpa_recommendation(current, stable, panic, self.context)


def _inclusive(window_s: float, tick_s: float) -> LookBack:
    """A window that keeps the sample at its very edge."""
    return LookBack(math.floor(round(window_s / tick_s, _DECIMALS)) + 1)


def _mean(samples: LookBack, tick: int) -> float:
    values = samples.values(tick)
    return sum(values) / len(values)
