"""One run of a workload through the engine, request by request."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..agents.baselines.registry import make_controller
from ..agents.scenario_site import scenario_site
from ..envs.episodes import (
    draw_faults,
    draw_metric_faults,
    engine_params,
    most_faults,
    most_metric_faults,
    most_surge_copies,
)
from ..envs.scenario import Scenario
from ..envs.schema.settings import THRESHOLD_STEP_PERCENT, GatewaySettings, Limits
from ..envs.schema.snapshot import MetricsSnapshot
from ..envs.sim.engine import Engine
from ..envs.sim.outcomes import Outcomes
from ..envs.sim.params import EngineParams, no_limit
from ..envs.sim.whole_run import simulate
from ..envs.workload.request import Requests
from .latency_parts import heat_counts, tail_shares
from .tables import write_table

STATUSES: Final = ("pending", "ok", "error", "timeout", "shed")
"""Names of the engine's status codes, in their order."""
PERCENTILES: Final = (50, 90, 95, 99)
_TIMING_S: Final = 0.5
"""How long a short run is repeated for a steady `wall_s`."""


@dataclass(frozen=True)
class Simulation:
    """A finished run."""

    requests: Requests
    """What was offered."""
    outcomes: Outcomes
    """What became of it, in the same order."""
    wall_s: float
    """Time of the simulation loop alone."""
    runs: int
    """Runs behind `wall_s`, its median."""
    replica_hours: float | None
    """Billed; `None` without a controller, where the number is fixed."""

    def summary(self) -> dict[str, Any]:
        """The figures of the run, as `--json` prints them."""
        n = len(self.requests)
        counts = np.bincount(self.outcomes.status, minlength=len(STATUSES)).tolist()
        done = self.outcomes.status == STATUSES.index("ok")
        return {
            "requests": n,
            "wall_s": self.wall_s,
            "requests_per_s": n / self.wall_s,
            "runs": self.runs,
            "simulated_s": self.requests.span_s,
            **dict(zip(STATUSES[1:], counts[1:], strict=True)),
            "restarts": int(self.outcomes.restarts.sum()),
            "replica_hours": self.replica_hours,
            "ttft_s": _percentiles(self.outcomes.ttft_s[done]),
            "e2e_s": _percentiles(self.outcomes.e2e_s[done]),
            "ttft_shares": tail_shares(self.outcomes),
            "heat": heat_counts(self.outcomes),
        }

    def write(self, path: Path) -> None:
        """Writes one row a request, in the order of the input; csv, csv.gz or parquet by the name.

        Raises:
            OutputError: Another ending, or the folder cannot be written to.
        """
        status = pa.array(np.array(STATUSES)[self.outcomes.status])
        ended = self.outcomes.status != STATUSES.index("pending")
        table = pa.table(
            {
                "arrival_s": self.requests.arrival_s,
                "prompt_tokens": self.requests.prompt_tokens,
                "output_tokens": self.requests.output_tokens,
                "replica": pa.array(self.outcomes.replica, mask=self.outcomes.replica < 0),
                "ttft_s": pa.array(self.outcomes.ttft_s, mask=np.isnan(self.outcomes.ttft_s)),
                "e2e_s": pa.array(self.outcomes.e2e_s, mask=~ended),
                "restarts": self.outcomes.restarts,
                "status": status,
            }
        )
        write_table(table, path)


def simulate_fixed(
    requests: Requests, params: EngineParams, *, replicas: int, seed: int
) -> Simulation:
    """A fixed number of replicas behind a router, nothing else."""
    run = simulate(requests, params, replicas=replicas, seed=seed, timing_s=_TIMING_S)
    return Simulation(requests, run.outcomes, run.wall_s, run.runs, None)


def simulate_controlled(
    scenario: Scenario, requests: Requests, policy: str, *, seed: int
) -> Simulation:
    """The whole gateway of a scenario under a controller, until the last answer.

    Args:
        scenario: Cluster, gateway, telemetry, control and faults; its workload is not looked at.
        requests: The offered load.
        policy: A controller's name, with `@unit` for steps of one.
        seed: Of routing, cold starts, faults and the controller.

    Raises:
        ValueError: An unknown controller.
    """
    limits = Limits(scenario.cluster.min_replicas, scenario.cluster.max_replicas)
    control = scenario.control
    controller = make_controller(policy, scenario_site(scenario), seed=seed)
    params = engine_params(scenario)
    rng = np.random.default_rng(seed)
    engine = Engine(
        [params],
        [requests],
        1,
        max_replicas=limits.max_replicas,
        faults=most_faults(scenario.faults, requests.span_s),
        metric_faults=[most_metric_faults(scenario.faults, requests.span_s)],
        surge_copies=most_surge_copies(scenario.faults),
        sampled_s=params.window_s + control.tick_s,
        periodic=False,
        outcomes=True,
    )
    settings = GatewaySettings(scenario.cluster.start_replicas, scenario.gateway.threshold_steps)
    engine.reset(
        np.zeros(1, np.int64),
        seeds=rng.integers(0, 1 << 64, 1, dtype=np.uint64),
        workloads=np.zeros(1, np.int64),
        start_s=np.zeros(1),
        warmup_s=0.0,
        replicas=_one(settings.replicas),
        threshold_percent=_one(settings.threshold_steps * THRESHOLD_STEP_PERCENT),
        faults=[draw_faults(scenario, requests.span_s, rng)],
        metric_faults=[draw_metric_faults(scenario, requests.span_s, rng)],
    )
    wall_s = 0.0
    now_s = 0.0
    counters = engine.counters
    while now_s < requests.span_s or counters["outstanding"][0] + counters["returning"][0] > 0:
        settings = controller.decide(MetricsSnapshot.from_row(engine.seen[0]), settings)
        start = time.perf_counter()
        engine.tick(
            control.tick_s,
            _one(limits.clip(settings.replicas)),
            _one(settings.threshold_steps * THRESHOLD_STEP_PERCENT),
            _one(no_limit(settings.max_outstanding)),
        )
        wall_s += time.perf_counter() - start
        now_s += control.tick_s
        counters = engine.counters
    return Simulation(requests, engine.outcomes, wall_s, 1, float(counters["billed_s"][0]) / 3600.0)


def _one(value: int) -> NDArray[np.int64]:
    return np.array([value], np.int64)


def _percentiles(values: NDArray[np.float64]) -> dict[str, float | None]:
    """Percentiles and mean of what was measured; `None` where nothing was."""
    names = [*(f"p{q}" for q in PERCENTILES), "mean"]
    if len(values) == 0:
        return dict.fromkeys(names)
    return dict(zip(names, [*np.percentile(values, PERCENTILES), values.mean()], strict=True))
