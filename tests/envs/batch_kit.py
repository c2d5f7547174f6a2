"""Busy little gateways, and all of what one shows as bytes."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatepilot.envs.batch import BatchStep, GatewayBatch
from gatepilot.envs.fault_spec import FaultKind
from gatepilot.envs.scenario import (
    ClusterSpec,
    ControlSpec,
    FaultSpec,
    GatewaySpec,
    Scenario,
    load_scenario,
)
from gatepilot.envs.scenario_spec import LimitsSpec
from gatepilot.envs.workload.request import Requests
from gatepilot.reward.documented import default_reward

TICKS = 10
SPAN_S = 400.0


def scenario(**changes: Any) -> Scenario:  # noqa: ANN401
    """The demo with everything going wrong, in short episodes."""
    busy = replace(
        load_scenario("demo"),
        cluster=ClusterSpec(max_replicas=4, initial_replicas=2, cold_start_s=20.0, kv_blocks=600),
        gateway=GatewaySpec(request_timeout_s=20.0),
        control=ControlSpec(episode_ticks=TICKS),
        faults=(
            FaultSpec("replica_errors", 40.0, error_share=(0.2, 1.0), mean_interval_s=60.0),
            FaultSpec("brown_out", 20.0, error_share=(0.1, 0.5), start_s=75.0),
        ),
    )
    return replace(busy, **changes)


def workload(seed: int = 0, rate_rps: float = 12.0, span_s: float = SPAN_S) -> Requests:
    rng = np.random.default_rng(seed)
    n = int(rate_rps * span_s)
    return Requests(
        np.sort(rng.uniform(0, span_s, n)),
        rng.integers(1, 3000, n).astype(np.int32),
        rng.integers(1, 300, n).astype(np.int32),
        span_s,
    )


def make(n: int, *, threads: int = 1, seed: int = 0, **changes: Any) -> GatewayBatch:  # noqa: ANN401
    requests = changes.pop("requests", None) or [workload()]
    return GatewayBatch(
        scenario(**changes),
        n,
        reward_fn=default_reward,
        seed=seed,
        requests=requests,
        threads=threads,
    )


def actions_of(seeds: NDArray[np.int64], tick: int) -> NDArray[np.int64]:
    """Each row's own random actions."""
    return np.array([np.random.default_rng((seed, tick)).integers(0, 3, 2) for seed in seeds])


def row_bytes(batch: GatewayBatch, step: BatchStep, i: int) -> bytes:
    parts = [step.observation[i], step.reward[i], step.truncated[i], batch.seen[i], batch.truth[i]]
    parts += [values[i] for values in (*step.info.values(), *step.parts.values())]
    return b"".join(np.asarray(part).tobytes() for part in parts)


def episode(batch: GatewayBatch, seeds: NDArray[np.int64], ticks: int = TICKS) -> list[str]:
    """A hash a row over everything an episode shows."""
    observation = batch.reset(seeds=seeds)
    digests = [hashlib.sha256(row.tobytes()) for row in observation]
    for tick in range(ticks):
        step = batch.step(actions_of(seeds, tick))
        for i, digest in enumerate(digests):
            digest.update(row_bytes(batch, step, i))
    return [digest.hexdigest() for digest in digests]


SEEDS = np.array([5, 6, 7, 5, 9])

ALL_KINDS: tuple[tuple[FaultKind, dict[str, Any]], ...] = (
    ("replica_errors", {"duration_s": 30.0, "error_share": (0.2, 1.0)}),
    ("brown_out", {"duration_s": 20.0, "error_share": (0.1, 0.5)}),
    ("slow_replica", {"duration_s": 30.0, "factor": (2.0, 5.0)}),
    ("sick_replica", {"duration_s": 30.0, "factor": (2.0, 5.0), "error_share": (0.1, 0.4)}),
    ("flapping", {"duration_s": 40.0, "error_share": (0.5, 1.0), "period_s": 8.0}),
    ("hang", {"duration_s": 15.0}),
    ("crash", {}),
    ("failed_start", {"duration_s": 30.0}),
    ("surge", {"duration_s": 30.0, "factor": (1.2, 2.5)}),
    ("metrics_gap", {"duration_s": 20.0}),
    ("metrics_late", {"duration_s": 40.0, "delay_s": 10.0}),
    ("metrics_stale", {"duration_s": 20.0}),
    ("counter_reset", {}),
)
ALL_FAULTS = tuple(FaultSpec(kind, mean_interval_s=70.0, **keys) for kind, keys in ALL_KINDS)
EVERYTHING: dict[str, Any] = {
    "faults": ALL_FAULTS,
    "gateway": GatewaySpec(
        router="dynamic_weight",
        request_timeout_s=20.0,
        timeout_step_s=5.0,
        consecutive_5xx=5,
        enforcing_percent=80,
        max_ejection_jitter_s=5.0,
        client_retries=2,
        max_waiting=300,
        max_pending=50,
        limits=LimitsSpec(rate_rps=30.0, replica_rate_rps=15.0, kv_rps=60.0, error_adaptive=True),
    ),
}
