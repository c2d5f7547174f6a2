"""The saturation analyzer V1 of llm-d's Workload Variant Autoscaler.

Formula: over the replicas that are not saturated, spare KV = threshold - usage and spare queue =
threshold - length; one replica more if either mean is below its trigger; one less if both would
still reach their triggers with the same load on one replica less.

Version: llm-d/llm-d-workload-variant-autoscaler, tree of June 2026 after pull request 1303, before
v0.9 made V2 the default: `internal/saturation/analyzer.go`, `internal/config/saturation_scaling.go`
and `internal/engines/saturation/engine.go`; read in the mirror
red-hat-data-services/workload-variant-autoscaler at 1a33d85. The loop's 15 s: `internal/config/
loader.go` at 0a5809a; until v0.6 it was fixed at 30 s.

Constants: KV threshold 0.80, queue threshold 5, triggers 0.10 and 3; a shrink needs two replicas
that are not saturated.

Regimes of a run:

- no pod reports: hold;
- a replica is pending, or the size decided on last is not reached: keep the latter, both ways;
- saturated: usage >= threshold or queue >= threshold; such replicas leave the means;
- up, else down, else keep; one replica a run. All saturated: both means are 0, so up.

Quirks kept: one saturated replica does not stop a shrink by the others; a replica that never
becomes ready blocks every change for good; at the edge of a trigger binary rounding decides.

`wva_pods` tells how a snapshot stands for pods. All pods stand at one mean, so either all of them
are saturated or none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ...envs.schema.settings import GatewaySettings, Limits
from ...envs.schema.snapshot import MetricsSnapshot
from .look_back import whole_ticks
from .site import Site, Suggest
from .wva_pods import Pod, Scale, check_interval, pods_of, scale_of

LEAST_TO_SHRINK: Final = 2
"""`MinNonSaturatedReplicasForScaleDown`."""


@dataclass(frozen=True, slots=True)
class WvaV1Params:
    """An entry of the saturation ConfigMap; defaults of `internal/config/saturation_scaling.go`."""

    kv_threshold: float = 0.80
    """`kvCacheThreshold`: share of the KV cache (0-1) from which a replica is saturated."""
    queue_threshold: float = 5.0
    """`queueLengthThreshold`: waiting requests from which a replica is saturated."""
    kv_spare_trigger: float = 0.10
    """`kvSpareTrigger`: least mean spare share of the KV cache; below it a replica is added."""
    queue_spare_trigger: float = 3.0
    """`queueSpareTrigger`: least mean spare queue, requests; below it a replica is added."""
    interval_s: float = 15.0
    """`GLOBAL_OPT_INTERVAL`: seconds from one run of the loop to the next."""

    def __post_init__(self) -> None:
        """Refuses what upstream's validation refuses, and 0, which there means the default.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        for name, most in (
            ("kv_threshold", 1.0),
            ("kv_spare_trigger", self.kv_threshold),
            ("queue_threshold", math.inf),
            ("queue_spare_trigger", math.inf),
        ):
            value = getattr(self, name)
            if not (math.isfinite(value) and 0 < value <= most):
                bound = f" and at most {most}" if math.isfinite(most) else ""
                raise ValueError(f"{name} is {value}, expected a number above 0{bound}")
        check_interval(self.interval_s)

    def make(self, site: Site, *, seed: int) -> WvaV1:
        """A controller for one episode; the seed plays no part."""
        del seed
        return WvaV1(self, site.limits, whole_ticks(self.interval_s, site.tick_s))

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> WvaV1Params:
        """Thresholds, triggers as shares of them, and the loop's interval."""
        del site
        kv = suggest.suggest_float("kv_threshold", 0.4, 0.95)
        queue = suggest.suggest_float("queue_threshold", 1.0, 30.0, log=True)
        return cls(
            kv,
            queue,
            kv * suggest.suggest_float("kv_spare_share", 0.02, 0.6),
            queue * suggest.suggest_float("queue_spare_share", 0.05, 0.9),
            suggest.suggest_float("interval_s", 15.0, 120.0, log=True),
        )


@dataclass(frozen=True, slots=True)
class Spare:
    """What the replicas that are not saturated have left, on average."""

    replicas: int
    """Those that are not saturated."""
    kv: float
    """Share of the KV cache up to its threshold; 0 without replicas."""
    queue: float
    """Requests up to the queue's threshold; 0 without replicas."""


def spare_of(pods: Sequence[Pod], params: WvaV1Params) -> Spare:
    """Mean spare capacity; with one variant the model's mean is the variant's."""
    kv = queue = 0.0
    count = 0
    for pod in pods:
        if pod.kv_usage >= params.kv_threshold or pod.queue_length >= params.queue_threshold:
            continue
        kv += params.kv_threshold - pod.kv_usage
        queue += params.queue_threshold - pod.queue_length
        count += 1
    if count == 0:
        return Spare(0, 0.0, 0.0)
    return Spare(count, kv / count, queue / count)


def needs_one_more(spare: Spare, params: WvaV1Params) -> bool:
    """Whether either mean is below its trigger."""
    return spare.kv < params.kv_spare_trigger or spare.queue < params.queue_spare_trigger


def can_spare_one(spare: Spare, params: WvaV1Params) -> bool:
    """Whether both triggers hold with the same load on one replica less."""
    if spare.replicas < LEAST_TO_SHRINK:
        return False
    more = spare.replicas / (spare.replicas - 1)
    kv_left = params.kv_threshold - (params.kv_threshold - spare.kv) * more
    queue_left = params.queue_threshold - (params.queue_threshold - spare.queue) * more
    return kv_left >= params.kv_spare_trigger and queue_left >= params.queue_spare_trigger


def v1_target(pods: Sequence[Pod], scale: Scale, params: WvaV1Params) -> int:
    """The next size, before the limits.

    Args:
        pods: Those that report; more or fewer than there are replicas makes no difference.
        scale: The target's size.
        params: Thresholds and triggers.
    """
    if not pods:
        return scale.current
    if scale.desired not in (0, scale.current):
        return scale.desired
    if scale.pending > 0:
        return scale.current
    spare = spare_of(pods, params)
    if needs_one_more(spare, params):
        return scale.current + 1
    if scale.current > 1 and can_spare_one(spare, params):
        return scale.current - 1
    return scale.current


@dataclass(slots=True)
class WvaV1:
    """The controller; one instance an episode. Moves replicas only."""

    params: WvaV1Params
    limits: Limits
    every_ticks: int
    """Ticks from one run to the next."""
    ticks: int = 0
    """Ticks so far."""

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Runs when a run is due and a pod reports, else holds."""
        tick = self.ticks
        self.ticks += 1
        if tick % self.every_ticks or not (pods := pods_of(snapshot)):
            return settings
        wanted = v1_target(pods, scale_of(settings, len(pods)), self.params)
        size = self.limits.clip(wanted)
        return settings if size == settings.replicas else replace(settings, replicas=size)

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        return {"ticks": self.ticks}

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        self.ticks = saved["ticks"]
