"""Sizing by the queueing model of llm-d's Workload Variant Autoscaler.

Formula: `ceil(arrival rate / what one replica can take)`, where one replica can take the largest
throughput that keeps mean TTFT and mean ITL within their targets (`wva_queue_model`).

Version: llm-d/llm-d-workload-variant-autoscaler, `pkg/core/allocation.go` and `pkg/analyzer`, read
in the mirror zdtsw-forking/workload-variant-autoscaler at 92cb9bb; `pkg/config/defaults.go`;
targets where none are set: `internal/engines/analyzers/queueingmodel/analyzer.go` at abe1f68.

Status upstream: experimental. The engine does not call `pkg/core`. The queueing-model analyzer
computes the same size, but reports it as supply (size x rate >= demand), of which the optimizer
requires nothing and spares less than a replica; later trees refuse to run it. So this is the size
that upstream computes, applied.

Constants: queue of 10 batches, multiplier 3, no percentile margin, loop 15 s.

Regimes of a run:

- rate, prompts or answers not known: hold;
- no arrivals, or a mean answer below one token: the smallest size, at once;
- a target is missed at any rate: there is no size, hold, however high the load;
- else the size, up or down, however far, whatever is still starting.

Quirks kept: means are cut to whole tokens; a stall that finishes nothing has answers of 0 tokens
and looks like no load; the mean TTFT is kept, not the promised P95; the KV cache plays no part.

How a snapshot and the site stand for upstream's inputs:

| upstream | snapshot, site |
|---|---|
| arrival rate (finished requests a second) | `request_rate_rps`: arrivals at the gateway |
| mean prompt, mean answer | `token_means` |
| largest batch | `max_num_seqs` |
| alpha, beta, gamma (learned online) | `step_times`: the profile's step model |
| targets of the service class | parameters |
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ...envs.profiles.step import StepModel
from ...envs.schema.settings import GatewaySettings, Limits
from ...envs.schema.snapshot import MetricsSnapshot
from .look_back import whole_ticks
from .site import ReplicaSpec, Site, Suggest
from .token_means import mean_output_tokens, mean_prompt_tokens
from .wva_pods import check_interval
from .wva_queue_model import (
    LatencyTargets,
    ReplicaQueue,
    RequestSize,
    StepTimes,
    inferred_targets,
)


def step_times(step: StepModel, size: RequestSize, max_batch: int) -> StepTimes:
    """Upstream's three coefficients of our step model, at one mix of prompts and answers.

    Ours tells a prompt's token (p, `per_prefill_token_s`) from an answer's (d, `per_seq_s`),
    upstream computes both at beta. A request of I and O tokens keeps its work if

        beta (I + O) = p I + d O,  so  beta = (p I + d O) / (I + O).

    gamma, the time to read a token of context, is `per_ctx_token_s` in both. alpha is what a step
    costs anyway: `base_s`, and for a mixture of experts the time to read those that a full batch of
    B tokens activates, `experts_s (1 - (1 - s)^B)`: right at the full batch, where the capacity is
    decided, and too long below it, as upstream's step is linear in the batch.

    Args:
        step: The profile's step model.
        size: Mean prompt and answer.
        max_batch: B.
    """
    prompt, output = size.prompt_tokens, size.output_tokens
    computed_s = step.per_prefill_token_s * prompt + step.per_seq_s * output
    experts_s = step.experts_s * (1 - (1 - step.expert_share) ** max_batch)
    return StepTimes(step.base_s + experts_s, computed_s / (prompt + output), step.per_ctx_token_s)


@dataclass(frozen=True, slots=True)
class WvaQueueParams:
    """A service class and the optimizer's configuration."""

    targets: LatencyTargets | None = None
    """Targets on means; `None`: inferred from the step times and the traffic, as upstream does
    where none are set. With a target on tokens a second that is the load, not the arrivals."""
    slo_multiplier: float = 3.0
    """`DefaultSLOMultiplier`: a step's fixed part against an idle replica's, for inferred targets;
    above 1."""
    queue_per_batch: int = 10
    """`MaxQueueToBatchRatio`: requests that may wait, per place in the batch."""
    interval_s: float = 15.0
    """`GLOBAL_OPT_INTERVAL`: seconds from one run of the loop to the next."""

    def __post_init__(self) -> None:
        """Refuses what upstream would not take.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        if not (math.isfinite(self.slo_multiplier) and self.slo_multiplier > 1):
            msg = f"slo_multiplier is {self.slo_multiplier}, expected a number above 1"
            raise ValueError(msg)
        if self.queue_per_batch < 0:
            raise ValueError(f"queue_per_batch is {self.queue_per_batch}, expected 0 or more")
        check_interval(self.interval_s)

    def make(self, site: Site, *, seed: int) -> WvaQueue:
        """A controller for one episode; the seed plays no part.

        Raises:
            SiteError: The replica is not known.
        """
        del seed
        spec = site.known_replica("wva_queue")
        every_ticks = whole_ticks(self.interval_s, site.tick_s)
        return WvaQueue(self, site.limits, spec, site.window_s, every_ticks)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> WvaQueueParams:
        """Targets or the multiplier that stands in for them, and the loop's interval."""
        del site
        interval_s = suggest.suggest_float("interval_s", 15.0, 120.0, log=True)
        if not suggest.suggest_categorical("has_targets", [False, True]):
            multiplier = suggest.suggest_float("slo_multiplier", 1.1, 10.0, log=True)
            return cls(slo_multiplier=multiplier, interval_s=interval_s)
        ttft_s = suggest.suggest_float("ttft_s", 0.05, 5.0, log=True)
        itl_s = suggest.suggest_float("itl_s", 0.01, 0.5, log=True)
        return cls(LatencyTargets(ttft_s, itl_s), interval_s=interval_s)


@lru_cache(maxsize=1 << 16)
def replica_rate_rps(
    params: WvaQueueParams, replica: ReplicaSpec, prompt_tokens: int, output_tokens: int
) -> float | None:
    """Requests a second that one replica can take; `None`: a target is missed at any rate.

    Nothing else plays a part, so the answers are kept: gateways of one kind share them.
    """
    size = RequestSize(prompt_tokens, output_tokens)
    batch = replica.max_num_seqs
    times = step_times(replica.step, size, batch)
    queue = ReplicaQueue(times, size, batch, batch * params.queue_per_batch)
    targets = params.targets or inferred_targets(times, size, params.slo_multiplier)
    rate_rps = queue.largest_rate_rps(targets)
    return None if rate_rps is None else queue.steady(rate_rps).throughput_rps


def queue_size(
    params: WvaQueueParams,
    replica: ReplicaSpec,
    rate_rps: float,
    prompt_tokens: int,
    output_tokens: int,
) -> int | None:
    """Replicas for a load, before the limits.

    Args:
        params: Targets.
        replica: What one replica can do.
        rate_rps: Arrivals a second, of all replicas together.
        prompt_tokens: Mean prompt.
        output_tokens: Mean answer.

    Returns:
        0 without load; `None` where no number of replicas keeps the targets.
    """
    if rate_rps <= 0 or output_tokens <= 0:
        return 0
    each_rps = replica_rate_rps(params, replica, prompt_tokens, output_tokens)
    if each_rps is None:
        return None
    output_tps = params.targets.output_tps if params.targets is not None else 0.0
    load_rps = output_tps / output_tokens if output_tps > 0 else rate_rps
    return math.ceil(load_rps / each_rps)


@dataclass(slots=True)
class WvaQueue:
    """The controller; one instance an episode. Moves replicas only."""

    params: WvaQueueParams
    limits: Limits
    replica: ReplicaSpec
    window_s: float
    """Telemetry window of the snapshots."""
    every_ticks: int
    """Ticks from one run to the next."""
    ticks: int = 0
    """Ticks so far."""

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Sizes when a run is due and the load is known, else holds."""
        tick = self.ticks
        self.ticks += 1
        rate_rps = snapshot.request_rate_rps
        prompt = mean_prompt_tokens(snapshot, self.window_s)
        output = mean_output_tokens(snapshot, self.window_s)
        if tick % self.every_ticks or rate_rps is None or prompt is None or output is None:
            return settings
        wanted = queue_size(self.params, self.replica, rate_rps, int(prompt), int(output))
        if wanted is None:
            return settings
        size = self.limits.clip(wanted)
        return settings if size == settings.replicas else replace(settings, replicas=size)

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        return {"ticks": self.ticks}

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        self.ticks = saved["ticks"]
