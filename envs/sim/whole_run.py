"""One run of a workload on a fixed number of replicas, from its first request to its last."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..workload.request import Requests
from .gateways import run_to_end
from .outcomes import Outcomes, no_outcomes
from .params import EngineParams
from .records import MAX_POOL
from .state import EngineState, Workload, packed_workload

_MOST_RUNS: Final = 201
"""Most repetitions of a run for its time."""


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one whole run."""

    outcomes: Outcomes
    """One result a request, in the order of the input."""
    wall_s: float
    """Median time of one warm run of the simulation loop, compilation excluded."""
    runs: int
    """Runs behind that median: the first is left out where there are more."""


def simulate(
    requests: Requests,
    params: EngineParams,
    *,
    replicas: int,
    seed: int = 0,
    timing_s: float = 0.0,
) -> Run:
    """Runs a workload on a fixed number of replicas until the last request is done.

    Args:
        requests: The offered load.
        params: Replica and router; breaker and telemetry, whose clocks never end, must be off.
        replicas: Ready replicas, at least 1.
        seed: Of the random routers.
        timing_s: How long to repeat the run for a steady figure; its results are always the same.

    Raises:
        ValueError: No replica, a clock that never ends, or more requests than a run can hold.
    """
    if replicas < 1:
        msg = f"replicas is {replicas}, expected 1 or more"
        raise ValueError(msg)
    for name in ("breaker_interval_s", "scrape_interval_s", "client_retries", "error_limit"):
        if getattr(params, name) > 0:
            msg = f"{name} is {getattr(params, name)}, expected 0: a whole run has no end for it"
            raise ValueError(msg)
    if params.router == "dynamic_weight" or params.kv_limit_rps < math.inf:
        msg = "dynamic_weight and kv_limit_rps look at a clock: a whole run has no end for it"
        raise ValueError(msg)
    if len(requests) >= MAX_POOL:
        msg = f"{len(requests)} requests: a run holds at most {MAX_POOL - 1}"
        raise ValueError(msg)
    workload = packed_workload([requests], params.prefix_cache == 1)
    outcomes = no_outcomes(len(requests))
    packed = params.packed()
    state = EngineState.allocate(
        1,
        replicas=replicas,
        max_num_seqs=params.max_num_seqs,
        pool=max(len(requests), 1),
        faults=0,
        scrapes=1,
        samples=0,
        prefix_rows=len(workload.prefix_parent),
    )

    def once(load: Workload) -> float:
        start = time.perf_counter()
        run_to_end(packed, state, load, outcomes, replicas, np.uint64(seed))
        return time.perf_counter() - start

    nothing = requests.take(slice(0, 0))
    once(packed_workload([nothing], params.prefix_cache == 1))  # compiles
    times = [once(workload)]
    while len(times) < _MOST_RUNS and sum(times) < timing_s:
        times.append(once(workload))
    warm = times[1:] or times
    return Run(outcomes, float(np.median(warm)), len(warm))
