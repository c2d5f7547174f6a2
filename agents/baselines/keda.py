"""KEDA: a ScaledObject over outstanding requests, fed from snapshots.

Formula: `ceil(outstanding / target)` unless outstanding / (target x replicas) is within 0.1 of 1,
by the HPA that KEDA makes for the object (`External` metric with `averageValue`); a dead source is
stood in for by the fallback; KEDA itself switches the target on and off. `keda_activation` and
`hpa_behavior` hold the exact rules and their regimes.

Version: KEDA v2.17 and the tree of mid 2026 (kedacore/keda, files under `keda_activation`), the HPA
as in `hpa`. Constants: polling 30 s, HPA sync 15 s, cooldown 300 s, tolerance 0.1.

Regimes of a tick, in this order, each if it is due:

- poll, every 30 s: activation. With limits of at least one replica it only lifts a size below the
  minimum; scaling to zero cannot happen;
- sync, every 15 s: the HPA asks for the metric and decides. KEDA reads the source on the spot, or
  hands on what the last poll said if metrics are cached. Every failed answer counts as a failure,
  so it is syncs and not polls that a fallback waits for.

Quirks kept: those of `keda_activation`; the source's value and the target are cut, not rounded, to
thousandths; a fallback goes through the HPA, which holds it within the tolerance, limits its growth
and keeps it for 300 s on the way down.

How a snapshot stands for the source: it answers `running + waiting`, and it fails if either is
missing. Replicas are those asked for; readiness plays no part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Final, get_args

from ...envs.schema.settings import GatewaySettings, Limits
from ...envs.schema.snapshot import MetricsSnapshot
from .hpa_behavior import HpaBehavior, HpaMemory, synced_size
from .hpa_replicas import Tolerance, total_replicas
from .keda_activation import (
    MILLI,
    Activation,
    Activity,
    Fallback,
    FallbackBehavior,
    Poll,
    SourceHealth,
    activated_size,
)
from .look_back import whole_ticks
from .outstanding import outstanding_requests
from .site import Site, Suggest

_LONGEST_WINDOW_S: Final = 600.0
"""Longest stabilisation window on the way down a search may try, as for the HPA."""


@dataclass(frozen=True, slots=True)
class KedaParams:
    """A ScaledObject with one trigger, and the HPA's flags."""

    target: float = 64.0
    """Outstanding requests per replica (the trigger's threshold). Upstream has no default: half of
    the 128 sequences that a replica holds."""
    activation_target: float = 0.0
    """Outstanding requests above which the target counts as active (`activationThreshold`)."""
    polling_s: float = 30.0
    """Seconds between two polls (`pollingInterval`)."""
    has_cached_metrics: bool = False
    """Whether the HPA gets what the last poll said (`useCachedMetrics`)."""
    cooldown_s: float = 300.0
    """Seconds without activity before the last replicas go (`cooldownPeriod`)."""
    fallback: Fallback | None = None
    """What stands in for a dead source; `None`: the HPA holds."""
    behavior: HpaBehavior | None = None
    """`advanced.horizontalPodAutoscalerConfig.behavior`; `None`: an HPA without it."""
    tolerance: Tolerance = Tolerance()  # noqa: RUF009  # frozen
    """Ratios too near to 1 to act on."""
    sync_s: float = 15.0
    """Seconds between two syncs of the HPA."""

    def __post_init__(self) -> None:
        """Refuses an object that upstream's integers cannot hold, or that never runs.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        if not math.isfinite(self.target) or self.target_milli < 1:
            msg = f"KEDA target is {self.target}, expected 0.001 or more requests per replica"
            raise ValueError(msg)
        for name in ("polling_s", "sync_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value}, expected a number above 0")
        for name in ("activation_target", "cooldown_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value}, expected 0 or more")

    @property
    def target_milli(self) -> int:
        """The target as upstream stores it: thousandths, cut."""
        return int(self.target * MILLI)

    def make(self, site: Site, *, seed: int) -> Keda:
        """A controller for one episode; the seed plays no part."""
        del seed
        return Keda(self, site.limits, site.tick_s)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> KedaParams:
        """The target, with `behavior` or without, and what happens while the source is dead."""
        target = suggest.suggest_float("target", 1.0, 192.0, log=True)
        behavior = None
        if suggest.suggest_categorical("has_behavior", [False, True]):
            window_s = suggest.suggest_float("down_window_s", 0.0, _LONGEST_WINDOW_S)
            behavior = HpaBehavior(down=replace(HpaBehavior().down, window_s=window_s))
        fallback = None
        how = suggest.suggest_categorical("fallback", ["none", *get_args(FallbackBehavior)])
        if how != "none":
            low, high = site.limits.min_replicas, site.limits.max_replicas
            replicas = suggest.suggest_int("fallback_replicas", low, high)
            fallback = Fallback(replicas, suggest.suggest_int("failure_threshold", 0, 10), how)
        return cls(target, fallback=fallback, behavior=behavior)


@dataclass(slots=True)
class KedaState:
    """What changes from tick to tick."""

    ticks: int = 0
    """Ticks so far."""
    activity: Activity = field(default_factory=Activity)
    """When the target was last active."""
    health: SourceHealth = field(default_factory=SourceHealth)
    """Whether the source answers the HPA."""
    polled_milli: int | None = None
    """What the last poll read, thousandths; `None`: it failed."""
    memory: HpaMemory = field(default_factory=HpaMemory)
    """The HPA's recommendations and changes."""


@dataclass(slots=True)
class Keda:
    """The controller; one instance an episode. Moves replicas only."""

    params: KedaParams
    limits: Limits
    tick_s: float
    state: KedaState = field(default_factory=KedaState)

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Polls and syncs when they are due, else holds."""
        tick = self.state.ticks
        self.state.ticks += 1
        size = settings.replicas
        outstanding = outstanding_requests(snapshot)
        if tick % whole_ticks(self.params.polling_s, self.tick_s) == 0:
            size = self._polled(tick * self.tick_s, outstanding, size)
        if tick % whole_ticks(self.params.sync_s, self.tick_s) == 0:
            size = self._synced(tick * self.tick_s, outstanding, size)
        return settings if size == settings.replicas else replace(settings, replicas=size)

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        state = self.state
        return {
            "ticks": state.ticks,
            "last_active_s": state.activity.last_active_s,
            "failures": state.health.failures,
            "polled_milli": state.polled_milli,
            **state.memory.saved(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        self.state = KedaState(
            saved["ticks"],
            Activity(last_active_s=saved["last_active_s"]),
            SourceHealth(saved["failures"]),
            saved["polled_milli"],
            HpaMemory.restored(saved),
        )

    def _polled(self, now_s: float, outstanding: float | None, current: int) -> int:
        self.state.polled_milli = _milli(outstanding)
        is_active = outstanding is not None and outstanding > self.params.activation_target
        poll = Poll(now_s, is_active, has_failed=outstanding is None)
        activation = Activation(
            self.limits.min_replicas, self.params.cooldown_s, fallback=self.params.fallback
        )
        return activated_size(current, poll, self.state.activity, activation)

    def _synced(self, now_s: float, outstanding: float | None, current: int) -> int:
        params, state = self.params, self.state

        def wanted() -> int | None:
            answer = state.polled_milli if params.has_cached_metrics else _milli(outstanding)
            total_milli = state.health.total_milli(
                answer, current, params.target_milli, params.fallback
            )
            if total_milli is None:
                return None
            return total_replicas(total_milli, current, params.target_milli, params.tolerance)

        return synced_size(state.memory, now_s, current, wanted, self.limits, params.behavior)


def _milli(value: float | None) -> int | None:
    """Thousandths, cut as upstream's quantities are."""
    return None if value is None else int(value * MILLI)
