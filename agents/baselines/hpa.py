"""The Kubernetes HorizontalPodAutoscaler, fed from snapshots.

Formula: per metric `desired = ceil(ready * current / target)` unless current / target is within 0.1
of 1; the largest of all metrics; the largest of the last 300 s on the way down; at most max(2 N, 4)
at once on the way up. `hpa_replicas` and `hpa_behavior` hold the exact rules and their regimes.

Version: `autoscaling/v2` of Kubernetes v1.33 and of the tree of mid 2026. Sources, in
kubernetes/kubernetes: `pkg/controller/podautoscaler/{horizontal,replica_calculator}.go`,
`pkg/controller/podautoscaler/config/v1alpha1/defaults.go`, `pkg/apis/autoscaling/v2/defaults.go`.

Constants: sync 15 s, tolerance 0.1 each way, CPU target 80 %, down window 300 s, up window 0 s.

Regimes of a sync:

- size 0: nothing, the target is switched off; size outside the limits: set to the limit, metrics
  unread;
- all metrics failed, or some failed and the largest of the others is below the current size: hold
  and remember nothing;
- else stabilise, limit, set. The first sync records the current size, so nothing shrinks for 300 s.

How a snapshot stands for pods. What it does not say is not guessed: the metric fails.

| metric | upstream kind | a ready replica | a starting one |
|---|---|---|---|
| `cpu` | `Resource`, utilisation | at the mean, its request is the whole CPU share | unready |
| `kv` | `Pods`, average value | at the mean | missing: its endpoint is not up yet |
| `outstanding` | `External`, average value | plays no part | plays no part |

`cpu` fails without `cpu_utilization`, `kv` without `kv_usage`, both without `replicas_ready` or
`replicas_starting`; `outstanding` fails without `running` or `waiting`. (`kv` is an average value
because upstream knows utilisation for resources only.) Draining replicas are being deleted, so they
are no pods. A replica that has just become ready counts at once; upstream waits for one full sample
window first, which a snapshot cannot show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

from ...envs.schema.settings import GatewaySettings, Limits
from ...envs.schema.snapshot import MetricsSnapshot
from .hpa_behavior import HpaBehavior, HpaMemory, synced_size
from .hpa_replicas import (
    FULL_PERCENT,
    Pod,
    Tolerance,
    average_value_replicas,
    total_replicas,
    utilization_replicas,
)
from .look_back import whole_ticks
from .outstanding import outstanding_requests
from .site import Site, Suggest

Metric = Literal["cpu", "outstanding", "kv"]
"""CPU utilisation, running plus waiting requests per replica, KV-cache usage."""

_MILLI: Final = 1000
_MILLI_DECIMALS: Final = 6
_TARGETS: Final[dict[Metric, tuple[float, float]]] = {
    "cpu": (0.2, 1.0),
    "outstanding": (1.0, 192.0),
    "kv": (0.05, 0.95),
}
"""Targets a search may try."""
_LONGEST_WINDOW_S: Final = 600.0
"""Longest stabilisation window on the way down a search may try: twice upstream's default."""


@dataclass(frozen=True, slots=True)
class MetricTarget:
    """One entry of `spec.metrics`."""

    metric: Metric
    """What is measured."""
    target: float
    """`cpu`, `kv`: share, 0-1 (over 1 is allowed upstream); `outstanding`: requests per replica."""

    def __post_init__(self) -> None:
        """Refuses a target that upstream's integers cannot hold.

        Raises:
            ValueError: An unknown metric, or a target that is not a number above 0.
        """
        if self.metric not in get_args(Metric):
            msg = f"HPA metric {self.metric!r}: expected one of {', '.join(get_args(Metric))}"
            raise ValueError(msg)
        if not math.isfinite(self.target) or self.quantity < 1:
            msg = f"HPA target of {self.metric} is {self.target}, expected a number above 0"
            raise ValueError(msg)

    @property
    def quantity(self) -> int:
        """The target as upstream stores it: whole percent for `cpu`, else thousandths."""
        return round(self.target * (FULL_PERCENT if self.metric == "cpu" else _MILLI))


@dataclass(frozen=True, slots=True)
class HpaParams:
    """An HPA object and the controller manager's flags."""

    metrics: tuple[MetricTarget, ...] = (MetricTarget("cpu", 0.8),)
    """Metrics; the largest wish wins. 80 % CPU is what upstream fills in for an empty list."""
    behavior: HpaBehavior | None = None
    """`None`: an object without `spec.behavior`, as most are; its limits are other ones."""
    tolerance: Tolerance = Tolerance()  # noqa: RUF009  # frozen
    """Ratios too near to 1 to act on."""
    sync_s: float = 15.0
    """Seconds between two syncs (`--horizontal-pod-autoscaler-sync-period`)."""

    def __post_init__(self) -> None:
        """Refuses an object that could never act.

        Raises:
            ValueError: No metric, or a sync period that is not above 0.
        """
        if not self.metrics or not self.sync_s > 0:
            msg = (
                f"HPA with {len(self.metrics)} metrics and sync_s {self.sync_s}: "
                "expected at least one metric and a period above 0"
            )
            raise ValueError(msg)

    def make(self, site: Site, *, seed: int) -> Hpa:
        """A controller for one episode; the seed plays no part."""
        del seed
        return Hpa(self, site.limits, site.tick_s)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> HpaParams:
        """One metric and its target; with `spec.behavior` or without."""
        metric: Metric = suggest.suggest_categorical("metric", list(get_args(Metric)))
        low, high = _TARGETS[metric]
        target = suggest.suggest_float(f"{metric}_target", low, high, log=True)
        behavior = None
        if suggest.suggest_categorical("has_behavior", [False, True]):
            window_s = suggest.suggest_float("down_window_s", 0.0, _LONGEST_WINDOW_S)
            down = replace(HpaBehavior().down, window_s=window_s)
            behavior = HpaBehavior(down=down)
        return cls(metrics=(MetricTarget(metric, target),), behavior=behavior)


@dataclass(slots=True)
class HpaState:
    """What changes from tick to tick."""

    ticks: int = 0
    """Ticks so far."""
    memory: HpaMemory = field(default_factory=HpaMemory)
    """Recommendations and changes."""


@dataclass(slots=True)
class Hpa:
    """The controller; one instance an episode. Moves replicas only."""

    params: HpaParams
    limits: Limits
    tick_s: float
    state: HpaState = field(default_factory=HpaState)

    def __post_init__(self) -> None:
        """Refuses a tick without length.

        Raises:
            ValueError: `tick_s` is not above 0.
        """
        if not self.tick_s > 0:
            msg = f"tick_s is {self.tick_s}, expected a number above 0"
            raise ValueError(msg)

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Syncs when a sync is due, else holds."""
        tick = self.state.ticks
        self.state.ticks += 1
        if tick % whole_ticks(self.params.sync_s, self.tick_s):
            return settings
        size = self._sync(tick * self.tick_s, snapshot, settings.replicas)
        return settings if size == settings.replicas else replace(settings, replicas=size)

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        return {"ticks": self.state.ticks, **self.state.memory.saved()}

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        self.state = HpaState(saved["ticks"], HpaMemory.restored(saved))

    def _sync(self, now_s: float, snapshot: MetricsSnapshot, current: int) -> int:
        return synced_size(
            self.state.memory,
            now_s,
            current,
            lambda: self._wanted(snapshot, current),
            self.limits,
            self.params.behavior,
        )

    def _wanted(self, snapshot: MetricsSnapshot, current: int) -> int | None:
        wishes = [
            metric_replicas(target, snapshot, current, self.params.tolerance)
            for target in self.params.metrics
        ]
        valid = [wish for wish in wishes if wish is not None]
        if not valid or (len(valid) < len(wishes) and max(valid) < current):
            return None
        return max(valid)


def metric_replicas(
    target: MetricTarget, snapshot: MetricsSnapshot, current: int, tolerance: Tolerance
) -> int | None:
    """What one metric wants; `None` if the snapshot does not say enough."""
    if target.metric == "outstanding":
        outstanding = outstanding_requests(snapshot)
        if outstanding is None:
            return None
        return total_replicas(_milli(outstanding), current, target.quantity, tolerance)

    ready, starting = snapshot.replicas_ready, snapshot.replicas_starting
    mean = snapshot.cpu_utilization if target.metric == "cpu" else snapshot.kv_usage
    if ready is None or starting is None or mean is None:
        return None
    pods = [Pod(_milli(mean))] * round(ready)
    if target.metric == "cpu":
        pods += [Pod(0, is_ready=False)] * round(starting)
        return utilization_replicas(pods, current, target.quantity, tolerance)
    pods += [Pod(None)] * round(starting)
    return average_value_replicas(pods, current, target.quantity, tolerance)


def _milli(value: float) -> int:
    """Thousandths, rounded up as upstream's quantities are, without binary noise."""
    return math.ceil(round(value * _MILLI, _MILLI_DECIMALS))
