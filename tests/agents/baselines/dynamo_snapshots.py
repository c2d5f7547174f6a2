"""Snapshots, sites and planners for the tests of Dynamo's planners."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gatepilot.agents.baselines.dynamo_capacity import Targets
from gatepilot.agents.baselines.dynamo_engine import ForwardPass
from gatepilot.agents.baselines.dynamo_forward import Work
from gatepilot.agents.baselines.dynamo_load import DynamoLoad, DynamoLoadParams
from gatepilot.agents.baselines.dynamo_throughput import DynamoThroughput, DynamoThroughputParams
from gatepilot.agents.baselines.site import ReplicaSpec, Site
from gatepilot.envs.profiles.step import StepModel
from gatepilot.envs.schema.settings import GatewaySettings, Limits
from gatepilot.envs.schema.snapshot import MetricsSnapshot

FLAT = StepModel(0.01, 0.0, 0.0, 0.0)
"""Every iteration lasts 10 ms."""


def site_of(  # every part has a default
    *,
    limits: tuple[int, int] = (1, 12),
    tick_s: float = 60.0,
    step: StepModel = FLAT,
    chunk_tokens: int = 512,
    max_num_seqs: int = 10,
    kv_tokens: int | None = 100_000,
) -> Site:
    """Where one replica serves 10 requests of 100 + 100 tokens a second."""
    spec = ReplicaSpec(step, 110.0, max_num_seqs, chunk_tokens, kv_tokens)
    return Site(Limits(*limits), tick_s, replica=spec)


def snapshot_of(replicas: int, **values: float | None) -> MetricsSnapshot:
    """A snapshot of so many requested replicas, all of them ready."""
    known: dict[str, float | None] = {"replicas_ready": replicas, **values}
    return MetricsSnapshot(replicas_requested=replicas, breaker_threshold=0.5, **known)


@dataclass(frozen=True)
class Load:
    """What every replica has to do, and what the snapshot leaves out."""

    prefill: float
    sequences: float
    kv_usage: float
    waiting: float
    noise_s: float
    gaps: frozenset[str]
    ready_fewer: int

    def shown_by(self, replicas: int) -> MetricsSnapshot:
        """Iterations last as a plane says, nearly."""
        seconds = 0.002 + 1e-4 * self.prefill + 3e-7 * 1e5 * self.kv_usage + self.noise_s
        is_idle = self.sequences == 0
        shown = snapshot_of(
            replicas,
            replicas_ready=replicas - self.ready_fewer,
            running=self.sequences * replicas,
            waiting=self.waiting * replicas,
            kv_usage=0.0 if is_idle else self.kv_usage,
            request_rate_rps=0.0 if is_idle else 20.0,
            samples=0.0 if is_idle else self.prefill * replicas / seconds / 150 * 60,
            prompt_token_rate_tps=0.0 if is_idle else self.prefill * replicas / seconds,
            output_token_rate_tps=0.0 if is_idle else self.sequences * replicas / seconds,
        )
        return replace(shown, **dict.fromkeys(self.gaps))  # type: ignore[arg-type]


def loads(seed: int) -> list[Load]:
    """Busy for a while, then idle at times; drawn by chance, for equal values fit no plane."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(22):
        is_idle = i > 10 and rng.random() < 0.6
        ready_fewer = int(rng.random() < 0.1)
        if is_idle:
            found.append(Load(0.0, 0.0, 0.0, 0.0, 0.0, frozenset(), ready_fewer))
            continue
        prefill = rng.uniform(1, 400) if rng.random() < 0.85 else 0.0
        waiting = rng.uniform(0.1, 20) if rng.random() < 0.3 else 0.0
        gaps = {name for name in ("kv_usage", "samples") if rng.random() < 0.04}
        each = (prefill, rng.uniform(1, 24), rng.uniform(0.01, 1) ** 2, waiting)
        found.append(Load(*each, rng.uniform(-1e-3, 1e-3), frozenset(gaps), ready_fewer))
    return found


# --- throughput-based ---------------------------------------------------------------------------


def planner(**params: object) -> DynamoThroughput:
    """Plans at every tick of 60 s but the first; a replica serves 10 requests a second."""
    chosen = DynamoThroughputParams(**{"interval_s": 60.0, "corrects": False, **params})  # type: ignore[arg-type]
    return chosen.make(site_of(), seed=0)


def traffic(
    replicas: int, rate: float, *, prompt: float = 100.0, **changes: float | None
) -> MetricsSnapshot:
    """So many requests a second, with answers of 100 tokens."""
    shown = snapshot_of(
        replicas,
        request_rate_rps=rate,
        samples=60.0 * rate,
        prompt_token_rate_tps=prompt * rate,
        output_token_rate_tps=100.0 * rate,
    )
    return replace(shown, **changes)  # type: ignore[arg-type]


def size_after(controller: DynamoThroughput, replicas: int, shown: MetricsSnapshot) -> int:
    return controller.decide(shown, GatewaySettings(replicas)).replicas


# --- load-based ---------------------------------------------------------------------------------

KV_TOKENS = 100_000
PLANE = ((100, 5000), (200, 40_000), (300, 10_000), (400, 30_000), (50, 20_000), (500, 45_000))
"""Prompt tokens and KV tokens of iterations that no line holds."""


def easy(target: str = "throughput") -> DynamoLoad:
    return DynamoLoadParams(target).make(site_of(tick_s=5.0), seed=0)  # type: ignore[arg-type]


def full(*, ttft_s: float = 0.5, itl_s: float = 0.05, **params: object) -> DynamoLoad:
    chosen = DynamoLoadParams("sla", targets=Targets(ttft_s, itl_s), **params)  # type: ignore[arg-type]
    return chosen.make(site_of(tick_s=5.0), seed=0)


def shown_by(
    replicas: int, prefill: float, sequences: float, kv_tokens: float, seconds: float
) -> MetricsSnapshot:
    """What replicas look like whose iterations do this, and of which nobody waits."""
    return snapshot_of(
        replicas,
        running=sequences * replicas,
        waiting=0.0,
        kv_usage=kv_tokens / KV_TOKENS,
        samples=prefill / seconds * replicas / 100 * 60,
        prompt_token_rate_tps=prefill / seconds * replicas,
        output_token_rate_tps=sequences / seconds * replicas,
    )


def lasts_s(prefill: float, kv_tokens: float) -> float:
    return 0.001 + 1e-5 * prefill + 4e-7 * kv_tokens


def trained(controller: DynamoLoad) -> DynamoLoad:
    """One that has learned how long iterations last, of prompts of 100 tokens."""
    for prefill, kv_tokens in PLANE:
        work, seconds = Work(prefill, 20, kv_tokens), lasts_s(prefill, kv_tokens)
        controller.engine.observe(ForwardPass(work, prefill / 100, seconds), 2)
    assert controller.engine.forward.is_ready
    return controller


IDLE = {"running": 0.0, "waiting": 0.0, "kv_usage": 0.0, "samples": 0.0, "request_rate_rps": 0.0}
IDLE_RATES = {"prompt_token_rate_tps": 0.0, "output_token_rate_tps": 0.0}


def idle(replicas: int, **changes: float | None) -> MetricsSnapshot:
    return replace(snapshot_of(replicas, **IDLE, **IDLE_RATES), **changes)  # type: ignore[arg-type]


def overloaded(replicas: int, **changes: float | None) -> MetricsSnapshot:
    """Full, and 450 requests wait for each replica."""
    shown = shown_by(replicas, 300, 100, KV_TOKENS, lasts_s(300, KV_TOKENS))
    return replace(shown, **{"waiting": 450.0 * replicas, **changes})  # type: ignore[arg-type]
