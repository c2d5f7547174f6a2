"""The saturation analyzer V2 of llm-d's Workload Variant Autoscaler, with its cost-aware optimizer.

Formula: c = median of the replicas' capacities in tokens (`wva_capacity`), demand = sum of theirs;
add `ceil(required / c)` with required = demand / 0.85 - (ready + pending) x c if that is above 0,
else remove `floor(spare / c)` with spare = ready x c - demand / 0.70.

Version: llm-d/llm-d-workload-variant-autoscaler, tree of June 2026: `internal/engines/analyzers/
saturation_v2/analyzer.go` at b28a4f6, `internal/engines/pipeline/cost_aware_optimizer.go` at
74afe4c, `internal/config/saturation_scaling.go`; V2 is the default analyzer since v0.9.

Constants: KV threshold 0.80, queue threshold 5, up above 0.85, down below 0.70, loop 15 s.

Regimes of a run:

- no pod reports, or a capacity of 0: hold;
- required > 0: up by as many as it takes, pending ones counted as supply;
- else spare > 0: down by as many whole replicas as are spare, pending ones not counted, one kept;
- else keep.

Quirks kept: growth is not blocked by pending replicas but shrinking is not either, and they are
removed from the size that counts them; a queue at the threshold makes the tokens in use the
capacity, so supply falls when a prefill-bound replica queues with an empty cache, and its mean
stays the capacity afterwards (llm-d-autoscaling 1500); of a waiting request only the prompt counts
(1456).

How a snapshot stands for what a replica reports: `wva_pods`, and

| upstream | snapshot, site |
|---|---|
| tokens in use | `kv_usage` x KV capacity of the replica, rounded |
| mean prompt, mean answer (5 minutes) | `token_means` (the telemetry window); not known: 0 |
| command line of the engine | `site.replica`; its KV capacity must be known |

Upstream adds the requests that wait in the inference scheduler; a gateway here has no such queue.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...envs.schema.settings import GatewaySettings, Limits
from ...envs.schema.snapshot import MetricsSnapshot
from .look_back import whole_ticks
from .site import Site, SiteError, Suggest
from .token_means import mean_output_tokens, mean_prompt_tokens
from .wva_capacity import (
    CapacityMemory,
    EngineSpec,
    Reading,
    capacity_tokens,
    demand_tokens,
    median_tokens,
    used_tokens,
)
from .wva_pods import Scale, check_interval, pods_of, scale_of


@dataclass(frozen=True, slots=True)
class WvaV2Params:
    """An entry of the saturation ConfigMap; defaults of `internal/config/saturation_scaling.go`."""

    kv_threshold: float = 0.80
    """`kvCacheThreshold`: share of the KV cache (0-1) that may be used."""
    queue_threshold: float = 5.0
    """`queueLengthThreshold`: waiting requests from which the tokens in use are the capacity."""
    scale_up_threshold: float = 0.85
    """`scaleUpThreshold`: demand / supply (0-1) to grow to."""
    scale_down_boundary: float = 0.70
    """`scaleDownBoundary`: demand / supply (0-1) to shrink to; below `scale_up_threshold`."""
    interval_s: float = 15.0
    """`GLOBAL_OPT_INTERVAL`: seconds from one run of the loop to the next."""

    def __post_init__(self) -> None:
        """Refuses what upstream's validation refuses, and 0, which there means the default.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        for name in ("kv_threshold", "scale_up_threshold", "scale_down_boundary"):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise ValueError(f"{name} is {value}, expected a number above 0 and at most 1")
        if not self.scale_down_boundary < self.scale_up_threshold:
            msg = (
                f"scale_down_boundary is {self.scale_down_boundary}, expected a number below "
                f"scale_up_threshold ({self.scale_up_threshold})"
            )
            raise ValueError(msg)
        if not (math.isfinite(self.queue_threshold) and self.queue_threshold > 0):
            msg = f"queue_threshold is {self.queue_threshold}, expected a number above 0"
            raise ValueError(msg)
        check_interval(self.interval_s)

    def make(self, site: Site, *, seed: int) -> WvaV2:
        """A controller for one episode; the seed plays no part.

        Raises:
            SiteError: The replica, or its KV capacity, is not known.
        """
        del seed
        spec = site.known_replica("wva_v2")
        if spec.kv_capacity_tokens is None:
            raise SiteError("wva_v2 needs to know the replica's KV capacity (kv_capacity_tokens)")
        engine = EngineSpec(spec.kv_capacity_tokens, spec.chunk_tokens, spec.max_num_seqs)
        every_ticks = whole_ticks(self.interval_s, site.tick_s)
        return WvaV2(self, site.limits, engine, site.window_s, every_ticks)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> WvaV2Params:
        """Thresholds, the lower one as a share of the upper one, and the loop's interval."""
        del site
        up = suggest.suggest_float("scale_up_threshold", 0.3, 1.0)
        return cls(
            suggest.suggest_float("kv_threshold", 0.4, 0.95),
            suggest.suggest_float("queue_threshold", 1.0, 30.0, log=True),
            up,
            up * suggest.suggest_float("scale_down_share", 0.3, 0.98),
            suggest.suggest_float("interval_s", 15.0, 120.0, log=True),
        )


@dataclass(frozen=True, slots=True)
class Balance:
    """What a model needs beside what its replicas can hold, in tokens."""

    per_replica: int
    """c: median capacity of the replicas that report."""
    required: float
    """Missing up to `scale_up_threshold`, pending replicas counted as supply; 0: none."""
    spare: float
    """Left over down to `scale_down_boundary`, ready replicas alone; 0: none."""


def balance_of(per_replica: int, demand: float, scale: Scale, params: WvaV2Params) -> Balance:
    """Required and spare tokens at one demand."""
    supply, anticipated = scale.ready * per_replica, (scale.ready + scale.pending) * per_replica
    return Balance(
        per_replica,
        max(0.0, demand / params.scale_up_threshold - anticipated),
        max(0.0, supply - demand / params.scale_down_boundary),
    )


def replicas_after(balance: Balance, current: int) -> int:
    """What the cost-aware optimizer makes of it with one variant; the last replica is kept."""
    if balance.per_replica <= 0:
        return current
    if balance.required > 0:
        return current + math.ceil(balance.required / balance.per_replica)
    removable = max(current - 1, 0)
    return current - min(math.floor(balance.spare / balance.per_replica), removable)


def v2_target(
    readings: Sequence[Reading],
    scale: Scale,
    engine: EngineSpec,
    memory: CapacityMemory,
    params: WvaV2Params,
) -> int:
    """The next size, before the limits; remembers what the readings show.

    Args:
        readings: One of each replica that reports.
        scale: The target's size.
        engine: What a replica can hold.
        memory: What was seen before; changed.
        params: Thresholds.
    """
    if not readings:
        return scale.current
    capacities = [
        capacity_tokens(
            reading,
            engine,
            memory,
            kv_threshold=params.kv_threshold,
            queue_threshold=params.queue_threshold,
        )
        for reading in readings
    ]
    demand = sum(demand_tokens(reading) for reading in readings)
    balance = balance_of(median_tokens(capacities), demand, scale, params)
    return replicas_after(balance, scale.current)


@dataclass(slots=True)
class WvaV2State:
    """What changes from tick to tick."""

    ticks: int = 0
    """Ticks so far."""
    memory: CapacityMemory = field(default_factory=CapacityMemory)
    """Capacities seen."""


@dataclass(slots=True)
class WvaV2:
    """The controller; one instance an episode. Moves replicas only."""

    params: WvaV2Params
    limits: Limits
    engine: EngineSpec
    window_s: float
    """Telemetry window of the snapshots."""
    every_ticks: int
    """Ticks from one run to the next."""
    state: WvaV2State = field(default_factory=WvaV2State)

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Runs when a run is due and a pod reports, else holds."""
        tick = self.state.ticks
        self.state.ticks += 1
        if tick % self.every_ticks or not (pods := pods_of(snapshot)):
            return settings
        reading = Reading(
            used_tokens(pods[0].kv_usage, self.engine.kv_capacity_tokens),
            pods[0].queue_length,
            mean_prompt_tokens(snapshot, self.window_s) or 0.0,
            mean_output_tokens(snapshot, self.window_s) or 0.0,
        )
        wanted = v2_target(
            [reading] * len(pods),
            scale_of(settings, len(pods)),
            self.engine,
            self.state.memory,
            self.params,
        )
        size = self.limits.clip(wanted)
        return settings if size == settings.replicas else replace(settings, replicas=size)

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        observed = self.state.memory.observed
        return {"ticks": self.state.ticks, "observed": {k: list(v) for k, v in observed.items()}}

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        memory = CapacityMemory({k: list(v) for k, v in saved["observed"].items()})
        self.state = WvaV2State(saved["ticks"], memory)
