"""What one episode draws from its seed: where it starts and what goes wrong in it."""

from __future__ import annotations

from typing import Final

import numpy as np

from .profiles.profile import load_profile
from .scenario import FaultSpec, Scenario
from .sim.faults import Fault
from .sim.params import NO_LIMIT, UNLIMITED_BLOCKS, EngineParams

_GIB: Final = 1024.0**3


def engine_params(scenario: Scenario) -> EngineParams:
    """The scenario's profile, cluster, gateway and telemetry as parameters of the engine."""
    profile = load_profile(scenario.profile)
    cluster, gateway, telemetry = scenario.cluster, scenario.gateway, scenario.telemetry
    blocks = cluster.kv_blocks
    if blocks is None and profile.kv_capacity_tokens is not None:
        blocks = profile.kv_capacity_tokens // cluster.block_tokens
    known_kv = profile.kv_bytes_per_token is not None and blocks is not None
    nan = float("nan")
    return EngineParams(
        base_s=profile.base_s,
        per_seq_s=profile.per_seq_s,
        per_ctx_token_s=profile.per_ctx_token_s,
        per_prefill_token_s=profile.per_prefill_token_s,
        max_num_seqs=cluster.max_num_seqs,
        chunk_tokens=cluster.chunk_tokens,
        kv_blocks=UNLIMITED_BLOCKS if blocks is None else blocks,
        block_tokens=cluster.block_tokens,
        router=gateway.router,
        breaker_interval_s=gateway.breaker_interval_s,
        minimum_hosts=gateway.minimum_hosts,
        request_volume=gateway.request_volume,
        base_ejection_s=gateway.base_ejection_s,
        max_ejection_s=gateway.max_ejection_s,
        max_ejection_percent=gateway.max_ejection_percent,
        max_retries=gateway.max_retries,
        retry_budget_share=gateway.retry_budget_share,
        retry_budget_min=gateway.retry_budget_min,
        retry_delay_s=gateway.retry_delay_s,
        request_timeout_s=gateway.request_timeout_s,
        max_outstanding=NO_LIMIT if gateway.max_outstanding is None else gateway.max_outstanding,
        cold_start_s=profile.cold_start_s if cluster.cold_start_s is None else cluster.cold_start_s,
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


def draw_faults(
    specs: tuple[FaultSpec, ...], episode_s: float, rng: np.random.Generator
) -> list[Fault]:
    """The faults of one episode, in order of onset.

    Random ones come as a renewal process: the pause from the end of one to the onset of the next
    of its kind is exponential with the mean `mean_interval_s`.
    """
    faults = []
    for spec in specs:
        onset = spec.start_s if spec.start_s is not None else _pause(spec, rng)
        while onset < episode_s:
            end = onset + spec.duration_s
            share = rng.uniform(*spec.error_share)
            faults.append(Fault(onset, end, share, spec.kind == "brown_out"))
            if spec.start_s is not None:
                break
            onset = end + _pause(spec, rng)
    return sorted(faults, key=lambda fault: fault.start_s)


def most_faults(specs: tuple[FaultSpec, ...], episode_s: float) -> int:
    """Most faults that fit into an episode: back to back."""
    return sum(
        1 if spec.start_s is not None else int(episode_s // spec.duration_s) + 1 for spec in specs
    )


def _pause(spec: FaultSpec, rng: np.random.Generator) -> float:
    """Time until the next random onset."""
    return float(rng.exponential(spec.mean_interval_s or 0.0))
