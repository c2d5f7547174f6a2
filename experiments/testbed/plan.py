"""What a testbed is to be: scenario, replicas and load, checked before anything starts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ...envs.episodes import engine_params
from ...envs.profiles.profile import load_profile
from ...envs.scenario import Scenario, ScenarioError, load_scenario
from ...envs.sim.params import EngineParams
from ...envs.workload.request import Requests, superpose
from ...envs.workload.trace import load_trace
from .errors import LaunchError
from .injection import Injection, parse_injection
from .replica_config import CpuShare
from .step_engine import StepModel

SPLIT: Final = "test"
"""The range of a scenario's workload that is replayed."""
ENDLESS_SPAN_S: Final = 3600.0
"""How much of it is replayed, over and over, where no end is given."""


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the command line says."""

    scenario: str
    """Shipped name or file."""
    replicas: int | None = None
    """Emulated replicas; None: the scenario's at its start."""
    trace: Path | None = None
    """Requests to replay instead of the scenario's."""
    rate_rps: float | None = None
    """Mean rate to scale the load to, 0: no load; None: as it is."""
    seconds: float | None = None
    """Length of the load; None: until stopped."""
    profile: str | None = None
    """Serving profile instead of the scenario's."""
    faults: tuple[str, ...] = ()
    """What goes wrong when."""
    seed: int = 0
    """Of sampled and superposed loads and of injected errors."""
    traces_dir: Path | None = None
    """Folder of request traces."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A testbed that can be started."""

    scenario: Scenario
    """With the profile and the replicas that were asked for."""
    params: EngineParams
    """The scenario's numbers as the engine has them."""
    cpu: CpuShare
    """CPU of a replica."""
    model: str
    """Name under which the replicas serve: the profile's id."""
    requests: Requests | None
    """The load; None: none."""
    seconds: float | None
    """Length of the load; None: until stopped."""
    faults: tuple[Injection, ...]
    """What goes wrong when."""
    seed: int
    """Of the errors."""

    @property
    def replicas(self) -> int:
        """Number of replicas."""
        return self.scenario.cluster.start_replicas

    @property
    def step(self) -> StepModel:
        """Timing and capacity of a replica."""
        p = self.params
        return StepModel(
            base_s=p.base_s,
            per_seq_s=p.per_seq_s,
            per_ctx_token_s=p.per_ctx_token_s,
            per_prefill_token_s=p.per_prefill_token_s,
            max_num_seqs=p.max_num_seqs,
            chunk_tokens=p.chunk_tokens,
            kv_blocks=p.kv_blocks,
            block_tokens=p.block_tokens,
            watermark=p.watermark,
        )


def planned(wishes: Wishes) -> Plan:
    """Checks what is asked for.

    Raises:
        ValueError: It cannot be: one line with what would be right.
    """
    scenario = load_scenario(wishes.scenario)
    limits = scenario.cluster
    replicas = limits.start_replicas if wishes.replicas is None else wishes.replicas
    if not 1 <= replicas <= limits.max_replicas:
        msg = (
            f"--replicas {replicas}: expected 1 to {limits.max_replicas} (scenario {scenario.name})"
        )
        raise LaunchError(msg)
    for name, value, least in (("rate", wishes.rate_rps, 0.0), ("seconds", wishes.seconds, 1.0)):
        if value is not None and not (math.isfinite(value) and value >= least):
            msg = f"--{name} {value:g}: expected a number of at least {least:g}"
            raise LaunchError(msg)
    try:
        cluster = replace(
            limits, initial_replicas=replicas, min_replicas=min(limits.min_replicas, replicas)
        )
        scenario = replace(scenario, cluster=cluster, profile=wishes.profile or scenario.profile)
    except ValueError as error:
        msg = f"command line ({scenario.name}): {error}"
        raise ScenarioError(msg) from error
    profile = load_profile(scenario.profile)
    cpu = profile.cpu
    return Plan(
        scenario=scenario,
        params=engine_params(scenario),
        cpu=CpuShare(
            idle=cpu.idle, per_iteration_s=cpu.per_iteration_s, per_token_s=cpu.per_token_s
        ),
        model=profile.id,
        requests=None if wishes.rate_rps == 0 else _load(wishes, scenario),
        seconds=wishes.seconds,
        faults=tuple(parse_injection(text, replicas) for text in wishes.faults),
        seed=wishes.seed,
    )


def _load(wishes: Wishes, scenario: Scenario) -> Requests:
    """The part that is replayed, scaled to the wanted rate by superposing or thinning it."""
    if wishes.trace is not None:
        whole = load_trace(_found(wishes.trace, wishes.traces_dir))
    else:
        whole = scenario.requests(SPLIT, seed=wishes.seed, traces_dir=wishes.traces_dir)
    length_s = wishes.seconds or (whole.span_s if wishes.trace else ENDLESS_SPAN_S)
    part = whole.within(0.0, min(length_s, whole.span_s))
    if len(part) == 0:
        msg = f"the first {part.span_s:g} s of the load hold no request"
        raise LaunchError(msg)
    if wishes.rate_rps is None:
        return part
    return superpose(
        part,
        wishes.rate_rps / part.mean_rate_rps,
        seed=wishes.seed,
        max_shift_s=scenario.workload.max_shift_s,
    )


def _found(trace: Path, traces_dir: Path | None) -> Path:
    """A trace beside the user or in the traces folder."""
    if not trace.is_file() and traces_dir is not None and (traces_dir / trace).is_file():
        return traces_dir / trace
    return trace
