"""The Knative Pod Autoscaler over concurrency, fed from snapshots.

Formula: `ceil(average / target)` over a stable window of 60 s, and over a panic window of 6 s while
the load would take twice the ready pods or did so within the last 60 s; at most 1000-fold growth
and halving at once. `knative_scale`, `knative_buckets` and `knative_zero` hold the exact rules and
their regimes.

Version: knative/serving, v1 (files and commits there). Constants: target
100 x 0.7, windows 60 s and 10 % of it, panic at 2, rates 1000 and 2, no scale-down delay.

Ticks: upstream scrapes every second and decides every 2 s; here both are once a tick, buckets are
ticks, and a panic window shorter than a tick is that tick.

Quirks kept: those of `knative_buckets`, so a gap in the scrapes counts as no load once they come
back, and one whole stable window without any scales in as if there were none; panic is measured
against ready pods, so pods that start prolong it; leaving panic drops to the stable count at once
(knative#3153, knative#9121).

How a snapshot stands for a revision. What it does not say is not guessed: hold.

| upstream | here |
|---|---|
| concurrency over all pods and the activator | `running + waiting`; missing: no scrape this tick |
| ready pods | `replicas_ready`; missing: hold, and a fresh autoscaler takes it for 0 |
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ...envs.schema.settings import GatewaySettings, Limits
from ...envs.schema.snapshot import MetricsSnapshot
from .knative_buckets import Buckets
from .knative_scale import DeciderSpec, DelayWindow, Panic, desired_pods
from .look_back import whole_ticks
from .outstanding import outstanding_requests
from .site import Site, Suggest

_RANGES: Final = {
    "target_utilization": (0.01, 1.0),
    "stable_window_s": (6.0, 3600.0),
    "panic_window_fraction": (0.01, 1.0),
    "panic_threshold": (1.1, 10.0),
    "scale_down_delay_s": (0.0, 3600.0),
}
"""What upstream's validation allows."""
_LEAST_TARGET: Final = 0.01


@dataclass(frozen=True, slots=True)
class KnativeKpaParams:
    """Keys of `config-autoscaler`."""

    concurrency: float = 100.0
    """Requests a replica may have in flight (`container-concurrency-target-default`)."""
    target_utilization: float = 0.7
    """Share of it that is aimed for (`container-concurrency-target-percentage`)."""
    stable_window_s: float = 60.0
    """`stable-window`, 6-3600 s."""
    panic_window_fraction: float = 0.1
    """Share of the stable window (`panic-window-percentage`), 0.01-1."""
    panic_threshold: float = 2.0
    """Wanted / ready replicas at which panic begins (`panic-threshold-percentage`)."""
    max_scale_up_rate: float = 1000.0
    """Largest growth at once, a factor above 1."""
    max_scale_down_rate: float = 2.0
    """Largest shrink at once, a divisor above 1."""
    scale_down_delay_s: float = 0.0
    """Seconds that a shrink is held back."""

    def __post_init__(self) -> None:
        """Refuses what upstream refuses.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} is {value}, expected {low:g}-{high:g}")
        if not (math.isfinite(self.concurrency) and self.spec.target >= _LEAST_TARGET):
            msg = (
                f"concurrency {self.concurrency} x target_utilization {self.target_utilization}: "
                f"expected a product of {_LEAST_TARGET} or more"
            )
            raise ValueError(msg)
        for name in ("max_scale_up_rate", "max_scale_down_rate"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 1):
                raise ValueError(f"{name} is {value}, expected a number above 1")

    @property
    def spec(self) -> DeciderSpec:
        """What the rule is told."""
        return DeciderSpec(
            self.concurrency * self.target_utilization,
            self.stable_window_s,
            self.panic_threshold,
            self.max_scale_up_rate,
            self.max_scale_down_rate,
        )

    def make(self, site: Site, *, seed: int) -> KnativeKpa:
        """A controller for one episode; the seed plays no part."""
        del seed
        state = KnativeKpaState(
            Buckets.of(self.stable_window_s, site.tick_s),
            Buckets.of(self.stable_window_s * self.panic_window_fraction, site.tick_s),
            DelayWindow(whole_ticks(self.scale_down_delay_s, site.tick_s)),
        )
        return KnativeKpa(self, site.limits, site.tick_s, state)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> KnativeKpaParams:
        """Concurrency, stable window, panic, rates and delay."""
        del site
        return cls(
            suggest.suggest_float("concurrency", 1.0, 256.0, log=True),
            stable_window_s=suggest.suggest_float("stable_window_s", 15.0, 600.0, log=True),
            panic_threshold=suggest.suggest_float("panic_threshold", 1.1, 10.0, log=True),
            max_scale_up_rate=suggest.suggest_float("max_scale_up_rate", 1.1, 1000.0, log=True),
            max_scale_down_rate=suggest.suggest_float("max_scale_down_rate", 1.05, 10.0, log=True),
            scale_down_delay_s=suggest.suggest_float("scale_down_delay_s", 0.0, 600.0),
        )


@dataclass(slots=True)
class KnativeKpaState:
    """What changes from tick to tick."""

    stable: Buckets
    """Outstanding requests of the stable window."""
    panicking: Buckets
    """The same of the panic window."""
    delay: DelayWindow
    """Wishes of the scale-down delay."""
    ticks: int = 0
    """Ticks so far."""
    panic: Panic = field(default_factory=Panic)
    """The mode."""


@dataclass(slots=True)
class KnativeKpa:
    """The controller; one instance an episode. Moves replicas only."""

    params: KnativeKpaParams
    limits: Limits
    tick_s: float
    state: KnativeKpaState
    spec: DeciderSpec = field(init=False)
    """What the rule is told."""

    def __post_init__(self) -> None:
        """Makes the rule's parameters once."""
        self.spec = self.params.spec

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Takes the tick's sample and decides."""
        state = self.state
        tick, now_s = state.ticks, state.ticks * self.tick_s
        state.ticks += 1
        ready = None if snapshot.replicas_ready is None else round(snapshot.replicas_ready)
        if tick == 0:
            state.panic = Panic.of_a_fresh_autoscaler(now_s, ready or 0)
        outstanding = outstanding_requests(snapshot)
        if outstanding is not None:
            state.stable.record(tick, outstanding)
            state.panicking.record(tick, outstanding)
        if ready is None or state.stable.is_empty(tick):
            return settings
        averages = (state.stable.average(tick), state.panicking.average(tick))
        wish = desired_pods(state.panic, now_s, ready, averages, self.spec)
        if self.params.scale_down_delay_s > 0:
            wish = state.delay.delayed(tick, wish)
        size = self.limits.clip(wish)
        return settings if size == settings.replicas else replace(settings, replicas=size)

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        state = self.state
        return {
            "ticks": state.ticks,
            "stable": state.stable.saved(),
            "panicking": state.panicking.saved(),
            "wishes": [list(entry) for entry in state.delay.wishes],
            "panic_since_s": state.panic.since_s,
            "most_pods": state.panic.most_pods,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        state = self.state
        state.ticks = saved["ticks"]
        state.stable.restore(saved["stable"])
        state.panicking.restore(saved["panicking"])
        state.delay.wishes.clear()
        state.delay.wishes.extend((tick, wish) for tick, wish in saved["wishes"])
        state.panic = Panic(saved["panic_since_s"], saved["most_pods"])
