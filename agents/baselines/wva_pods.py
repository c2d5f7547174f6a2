"""What the Workload Variant Autoscaler's two saturation analyzers read of a model's pods.

Version: `internal/collector/replica_metrics.go` and `BuildVariantStates` of
`internal/engines/saturation/engine.go` in llm-d/llm-d-workload-variant-autoscaler, tree of
June 2026. One variant: all replicas are alike and cost the same.

Quirk kept: a pod that shows only one of the two gauges is taken to stand at 0 in the other one, so
a missing KV-cache usage looks like an idle cache. A pod that shows neither is left out.

How a snapshot stands for pods. What it does not say is not guessed: no pods, and the size is held.

| upstream | snapshot |
|---|---|
| KV-cache usage of a pod (largest of a minute) | `kv_usage`, the mean over ready replicas |
| queue of a pod (largest of a minute, a whole number) | `waiting` / ready replicas |
| replicas in the target's status | those requested: a Deployment's status follows its spec |
| pending replicas: current - ready, at least 0 | requested - `replicas_ready`, at least 0 |
| the size last decided on | those requested: it is applied within the tick |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod that reports."""

    kv_usage: float
    """Share of its KV cache in use, 0-1."""
    queue_length: float
    """Requests that wait for its batch."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of the target, as the cluster and the last decision tell."""

    current: int
    """Replicas that exist, ready or not."""
    pending: int = 0
    """Those of them that are not ready."""
    desired: int = 0
    """Size that was decided on last; 0: none yet."""

    @property
    def ready(self) -> int:
        """Replicas that are ready."""
        return max(self.current - self.pending, 0)


def pods_of(snapshot: MetricsSnapshot) -> list[Pod]:
    """One pod for each ready replica, all at the mean; none if there is nothing to read."""
    ready = round(snapshot.replicas_ready or 0)
    kv_usage, waiting = snapshot.kv_usage, snapshot.waiting
    if ready == 0 or (kv_usage is None and waiting is None):
        return []
    return [Pod(kv_usage or 0.0, (waiting or 0.0) / ready)] * ready


def scale_of(settings: GatewaySettings, ready: int) -> Scale:
    """The target's size where `ready` replicas report."""
    current = settings.replicas
    return Scale(current, max(current - ready, 0), current)


def check_interval(interval_s: float) -> None:
    """Refuses a loop that never runs.

    Raises:
        ValueError: `interval_s` is not a number above 0.
    """
    if not (math.isfinite(interval_s) and interval_s > 0):
        msg = f"interval_s is {interval_s}, expected a number above 0"
        raise ValueError(msg)
