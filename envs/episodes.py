"""What one episode draws from its seed: where it starts and what goes wrong in it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from .fault_spec import METRIC_KINDS, FaultSpec, check_onsets
from .profiles.profile import Profile, load_profile
from .scenario import ClusterSpec, Scenario, ScenarioError
from .sim.faults import Fault
from .sim.metric_faults import MetricFault
from .sim.params import UNLIMITED_BLOCKS, EngineParams, no_limit

_GIB: Final = 1024.0**3


def engine_params(scenario: Scenario) -> EngineParams:
    """The scenario's profile, cluster, gateway and telemetry as parameters of the engine."""
    profile = load_profile(scenario.profile)
    cluster, gateway, telemetry = scenario.cluster, scenario.gateway, scenario.telemetry
    limits = gateway.limits
    blocks = scenario.kv_blocks
    known_kv = profile.kv_bytes_per_token is not None and blocks is not None
    nan = float("nan")
    return EngineParams(
        base_s=profile.base_s,
        per_seq_s=profile.per_seq_s,
        per_ctx_token_s=profile.per_ctx_token_s,
        per_prefill_token_s=profile.per_prefill_token_s,
        experts_s=profile.experts_s,
        expert_share=profile.expert_share,
        max_num_seqs=cluster.max_num_seqs,
        chunk_tokens=cluster.chunk_tokens,
        kv_blocks=UNLIMITED_BLOCKS if blocks is None else blocks,
        block_tokens=cluster.block_tokens,
        prefix_cache=int(cluster.prefix_cache),
        router=gateway.router,
        breaker_interval_s=gateway.breaker_interval_s,
        minimum_hosts=gateway.minimum_hosts,
        request_volume=gateway.request_volume,
        base_ejection_s=gateway.base_ejection_s,
        max_ejection_s=gateway.max_ejection_s,
        max_ejection_percent=gateway.max_ejection_percent,
        always_eject_one_host=int(gateway.always_eject_one_host),
        enforcing_percent=gateway.enforcing_percent,
        max_ejection_jitter_s=gateway.max_ejection_jitter_s,
        consecutive_5xx=gateway.consecutive_5xx,
        panic_percent=gateway.panic_percent,
        max_retries=gateway.max_retries,
        retry_budget_share=gateway.retry_budget_share,
        retry_budget_min=gateway.retry_budget_min,
        retry_delay_s=gateway.retry_delay_s,
        request_timeout_s=gateway.request_timeout_s,
        timeout_step_s=gateway.timeout_step_s,
        timeout_step_tokens=gateway.timeout_step_tokens,
        max_outstanding=no_limit(gateway.max_outstanding),
        max_waiting=no_limit(gateway.max_waiting),
        max_pending=gateway.max_pending,
        client_retries=gateway.client_retries,
        client_retry_delay_s=gateway.client_retry_delay_s,
        bucket_rps=limits.rate_rps or math.inf,
        bucket_size=limits.burst,
        replica_bucket_rps=limits.replica_rate_rps or math.inf,
        replica_bucket_size=limits.replica_burst,
        kv_limit_rps=limits.kv_rps or math.inf,
        error_limit=int(limits.error_adaptive),
        limit_interval_s=limits.interval_s,
        cold_start_s=_ready_after_s(cluster, profile),
        lazy_load_s=profile.start_times.lazy_ready_s if cluster.start == "lazy" else 0.0,
        cold_start_spread=cluster.cold_start_spread,
        drain_min_s=gateway.drain_min_s,
        scrape_interval_s=telemetry.scrape_interval_s,
        window_s=telemetry.window_s,
        minimum_samples=telemetry.minimum_samples,
        late_after_s=telemetry.late_after_s,
        cpu_idle=profile.cpu.idle,
        cpu_per_iteration_s=profile.cpu.per_iteration_s,
        cpu_per_token_s=profile.cpu.per_token_s,
        cpu_startup=profile.cpu.startup,
        weights_gib=nan if profile.weights_gib is None else profile.weights_gib,
        kv_gib=(blocks or 0) * cluster.block_tokens * (profile.kv_bytes_per_token or 0) / _GIB
        if known_kv
        else nan,
        vram_gib=nan if profile.vram_gib is None else profile.vram_gib,
    )


@dataclass(frozen=True, slots=True)
class Episode:
    """What one seed decides."""

    start_s: float
    """Beginning within the workload, in seconds."""
    engine_seed: int
    """Of the router, of cold starts and of what fails."""
    faults: tuple[Fault, ...]
    """Of the plant, in order of onset."""
    metric_faults: tuple[MetricFault, ...]
    """Of the telemetry, in order of onset."""


def draw_episode(
    scenario: Scenario, seed: int | np.random.SeedSequence, *, room_s: float, episode_s: float
) -> Episode:
    """All that a seed decides of an episode.

    Args:
        scenario: Whose faults.
        seed: The same one gives the same episode.
        room_s: Latest beginning, in seconds of the workload.
        episode_s: Length of the episode.
    """
    rng = np.random.default_rng(seed)
    start_s = float(rng.uniform(0.0, room_s))
    engine_seed = int(rng.integers(0, 1 << 64, dtype=np.uint64))
    faults = tuple(draw_faults(scenario, episode_s, rng))
    metric_faults = tuple(draw_metric_faults(scenario, episode_s, rng))
    return Episode(start_s, engine_seed, faults, metric_faults)


def _ready_after_s(cluster: ClusterSpec, profile: Profile) -> float:
    """From the order of a replica until it takes requests, by the way it starts."""
    times = profile.start_times
    match cluster.start:
        case "cold":
            return times.cold_s
        case "cached":
            return times.cached_s
        case "warm":
            return times.warm_s
        case "lazy":  # without what it loads with its first request
            return max(times.cached_s - times.lazy_ready_s, 0.0)
    return profile.cold_start_s if cluster.cold_start_s is None else cluster.cold_start_s


def draw_faults(scenario: Scenario, episode_s: float, rng: np.random.Generator) -> list[Fault]:
    """The faults of the plant in one episode, in order of onset."""
    faults = []
    for spec in scenario.faults:
        if spec.kind in METRIC_KINDS:
            continue
        for onset_s in _onsets(spec, episode_s, rng):
            end_s = onset_s + (spec.duration_s or 0.0)
            share = 0.0 if spec.error_share is None else rng.uniform(*spec.error_share)
            factor = 1.0 if spec.factor is None else rng.uniform(*spec.factor)
            period_s = spec.period_s or 0.0
            shift_s = scenario.workload.max_shift_s
            faults.append(Fault(spec.kind, onset_s, end_s, share, factor, period_s, shift_s))
    return sorted(faults, key=lambda fault: fault.start_s)


def draw_metric_faults(
    scenario: Scenario, episode_s: float, rng: np.random.Generator
) -> list[MetricFault]:
    """What goes wrong with the scrapes of one episode, in order of onset."""
    faults = []
    for spec in scenario.faults:
        if spec.kind not in METRIC_KINDS:
            continue
        for onset_s in _onsets(spec, episode_s, rng):
            end_s = math.inf if spec.duration_s is None else onset_s + spec.duration_s
            faults.append(MetricFault(spec.kind, onset_s, end_s, spec.delay_s or 0.0))
    return sorted(faults, key=lambda fault: fault.start_s)


def _onsets(spec: FaultSpec, episode_s: float, rng: np.random.Generator) -> Iterator[float]:
    """When faults of one kind begin.

    Random ones come as a renewal process: the pause from the end of one to the onset of the next of
    its kind is exponential with the mean `mean_interval_s`.
    """
    if spec.start_s is not None:
        if spec.start_s < episode_s:
            yield spec.start_s
        return
    onset_s = 0.0
    for _ in range(spec.most_onsets(episode_s)):
        onset_s += rng.exponential(spec.mean_interval_s or 0.0)
        if onset_s >= episode_s:
            return
        yield onset_s
        onset_s += spec.duration_s or 0.0


def most_faults(specs: tuple[FaultSpec, ...], episode_s: float) -> int:
    """Most faults of the plant in an episode.

    Raises:
        ScenarioError: More than the engine can follow.
    """
    return _most_onsets(specs, episode_s, of_metrics=False)


def most_metric_faults(specs: tuple[FaultSpec, ...], episode_s: float) -> int:
    """Most metric faults in an episode.

    Raises:
        ScenarioError: More than the engine can follow.
    """
    return _most_onsets(specs, episode_s, of_metrics=True)


def most_surge_copies(specs: tuple[FaultSpec, ...]) -> int:
    """Copies of the workload that surges lay over it at once, were there one of each kind."""
    factors = (s.factor[1] for s in specs if s.kind == "surge" and s.factor is not None)
    return sum(math.ceil(factor - 1.0) for factor in factors)


def _most_onsets(specs: tuple[FaultSpec, ...], episode_s: float, *, of_metrics: bool) -> int:
    try:
        check_onsets(specs, episode_s)
    except ValueError as error:
        raise ScenarioError(str(error)) from error
    return sum(s.most_onsets(episode_s) for s in specs if (s.kind in METRIC_KINDS) == of_metrics)
