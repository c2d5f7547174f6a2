"""Speed and memory of the engine and the environment, as ratios measured in one run.

    python benchmarks/bench.py [--out FILE.json] [--quick]

Everything runs on what the project ships; the reference run is added where its folder is found
(`GATEPILOT_TRACES/../reference/vidur`).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gatepilot.envs.batch import GatewayBatch
from gatepilot.envs.profiles.profile import load_profile
from gatepilot.envs.scenario import load_scenario
from gatepilot.envs.sim.engine import Engine, compile_engine
from gatepilot.envs.sim.faults import KINDS, Fault
from gatepilot.envs.sim.metric_faults import MetricFault
from gatepilot.envs.sim.params import EngineParams
from gatepilot.envs.sim.whole_run import simulate
from gatepilot.envs.workload.model import load_model
from gatepilot.envs.workload.request import Requests, superpose
from gatepilot.experiments.validation.reference_runs import INDEX, load_runs
from gatepilot.reward.documented import default_reward

PROFILE = "llama-3.1-70b-fp8-h100_sxm-tp2-vllm"
TICK_RATE_RPS = 17.0
"""Arrivals a second of the environment's benchmark: 255 a tick of 15 s, above the bar's 250."""


def main() -> None:
    """Runs every part, prints it, and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--quick", action="store_true", help="a tenth of the time, rougher figures")
    options = parser.parse_args()
    seconds = 0.3 if options.quick else 3.0
    compile_engine()
    figures: dict[str, Any] = {}
    for part in (reference_run, every_feature, replicas_scaling, load_scaling, vector_env):
        figures[part.__name__] = found = part(seconds)
        print(f"\n{part.__doc__.splitlines()[0]}")  # noqa: T201
        for line in found:
            print("  " + ", ".join(f"{k} {_short(v)}" for k, v in line.items()))  # noqa: T201
    if options.out is not None:
        options.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def reference_run(seconds: float) -> list[dict[str, Any]]:
    """Engine alone, one core: run v05 of the reference, against the reference's own loop."""
    folder = Path(os.environ.get("GATEPILOT_TRACES", "")).parent / "reference" / "vidur"
    if not (folder / INDEX).is_file():
        return [{"skipped": "no reference runs here"}]
    run = next(run for run in load_runs(folder) if run.name.startswith("v05"))
    if run.params is None or run.wall_s is None:
        return [{"skipped": f"{run.name}: {run.refused or 'no time is stated'}"}]
    result = simulate(run.requests, run.params, replicas=run.replicas, timing_s=seconds)
    return [
        {
            "requests_per_s": len(run.requests) / result.wall_s,
            "warm_runs": result.runs,
            "times_the_reference": run.wall_s / result.wall_s,
        }
    ]


def replicas_scaling(seconds: float) -> list[dict[str, Any]]:
    """Cost a request at the same load a replica, 1 to 64 replicas, relative to 1."""
    lines = []
    for router in ("least_outstanding", "fewest_waiting"):
        base = None
        for replicas in (1, 4, 16, 64):
            requests = _conversation(rate_rps=4.0 * replicas, requests=20_000)
            result = simulate(
                requests, _params(router=router), replicas=replicas, timing_s=seconds / 8
            )
            cost = result.wall_s / len(requests)
            base = base or cost
            lines.append({"router": router, "replicas": replicas, "relative_cost": cost / base})
    return lines


def load_scaling(seconds: float) -> list[dict[str, Any]]:
    """Cost a request on 16 replicas, load 1 to 100, relative to load 1."""
    lines = []
    base = None
    for load in (1, 10, 50, 100):
        requests = _conversation(rate_rps=0.7 * load, requests=20_000)
        result = simulate(requests, _params(), replicas=16, timing_s=seconds / 4)
        cost = result.wall_s / len(requests)
        base = base or cost
        lines.append({"load": load, "relative_cost": cost / base})
    return lines


def every_feature(seconds: float) -> list[dict[str, Any]]:
    """Engine on one core with every feature of the gateway on, relative to the plain gateway."""
    lines: list[dict[str, Any]] = []
    for features in ("plain", "all"):
        engine, ticks = _gateway(everything=features == "all"), 0
        one = np.ones(1, np.int64)
        arrived_before = engine.counters["arrived"][0]
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            engine.tick(15.0, 8 * one, 50 * one)
            ticks += 1
        elapsed = time.perf_counter() - start
        counters = engine.counters
        speed = float(counters["arrived"][0] - arrived_before) / elapsed
        lines.append(
            {
                "features": features,
                "requests_per_s": speed,
                "relative_speed": speed / (lines[0]["requests_per_s"] if lines else speed),
                "ticks": ticks,
                "not_ok_share": float(1 - counters["ok"][0] / counters["arrived"][0]),
            }
        )
    return lines


def _gateway(*, everything: bool) -> Engine:
    """Eight 70B replicas at 17 requests/s with breaker, retries, deadlines and telemetry.

    `everything`: and dynamic weights, all limits, held and waiting bounds, clients that return,
    timeouts by prompt, every key of the breaker, a cache of prefixes, and faults of all kinds.
    """
    requests = _conversation(rate_rps=TICK_RATE_RPS, requests=100_000)
    changes: dict[str, Any] = {
        "kv_blocks": 30_000,
        "breaker_interval_s": 10.0,
        "max_retries": 1,
        "request_timeout_s": 600.0,
        "cold_start_s": 110.0,
        "scrape_interval_s": 5.0,
    }
    faults: list[Fault] = []
    metric_faults: list[MetricFault] = []
    if everything:
        rows = np.arange(len(requests))
        requests = replace(
            requests,
            prefix_hit_tokens=np.where(rows % 2, requests.prompt_tokens // 2, 0),
            prefix_parent=np.where((rows % 2 == 1) & (requests.prompt_tokens > 1), rows - 1, -1),
        )
        changes |= {
            "router": "dynamic_weight",
            "prefix_cache": 1,
            "consecutive_5xx": 5,
            "max_ejection_jitter_s": 5.0,
            "enforcing_percent": 90,
            "always_eject_one_host": 1,
            "timeout_step_s": 15.0,
            "max_waiting": 2000,
            "max_pending": 100,
            "client_retries": 2,
            "client_retry_delay_s": 2.0,
            "bucket_rps": 200.0,
            "replica_bucket_rps": 50.0,
            "kv_limit_rps": 100.0,
            "error_limit": 1,
        }
        onsets = np.arange(100.0, 70_000.0, 400.0).tolist()
        faults = [
            Fault(KINDS[k % len(KINDS)], onset, onset + 100.0, 0.2, 1.5, 20.0, 300.0)
            for k, onset in enumerate(onsets)
        ]
        metric_faults = [MetricFault("metrics_late", 0.0, 1e9, 10.0)]
    engine = Engine(
        [_params(**changes)],
        [requests],
        1,
        max_replicas=8,
        faults=max(len(faults), 1),
        metric_faults=len(metric_faults),
        surge_copies=1,
        sampled_s=75.0,
    )
    engine.reset(
        np.zeros(1, np.int64),
        seeds=np.ones(1, np.uint64),
        workloads=np.zeros(1, np.int64),
        start_s=np.zeros(1),
        warmup_s=60.0,
        replicas=np.full(1, 8),
        threshold_percent=np.full(1, 50),
        faults=[faults],
        metric_faults=[metric_faults],
    )
    return engine


def vector_env(seconds: float) -> list[dict[str, Any]]:
    """Vector env with gateway, telemetry, observation, reward: ticks/s over threads and envs."""
    scenario = load_scenario("azure70b")
    workload = replace(scenario.workload, trace=None)
    scenario = replace(scenario, workload=workload)
    requests = _conversation(rate_rps=TICK_RATE_RPS, requests=100_000)
    lines: list[dict[str, Any]] = []
    for n_envs, threads in ((64, 1), (64, 2), (1, 1), (16, 2), (256, 2)):
        before = _resident_mib()
        batch = GatewayBatch(
            scenario,
            n_envs,
            reward_fn=default_reward,
            episode_ticks=240,
            threads=threads,
            requests=[requests],
        )
        batch.reset()
        hold = np.ones((n_envs, 2), np.int64)
        batch.step(hold)
        ticks, arrived = 0, 0
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            step = batch.step(hold)
            ticks += n_envs
            arrived += int(step.info["arrived"].sum())
            if step.truncated.any():
                batch.reset()
        elapsed = time.perf_counter() - start
        speed = ticks / elapsed
        lines.append(
            {
                "envs": n_envs,
                "threads": threads,
                "ticks_per_s": speed,
                "requests_per_tick": arrived / ticks,
                "relative_speed": speed / (lines[0]["ticks_per_s"] if lines else speed),
                "mib_per_env": (_resident_mib() - before) / n_envs,
            }
        )
    return lines


def _resident_mib() -> float:
    """Memory of this process that is really there."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize() / 2**20


def _params(**changes: Any) -> EngineParams:  # noqa: ANN401
    """A 70B replica."""
    profile = load_profile(PROFILE)
    steps = {
        "base_s": profile.base_s,
        "per_seq_s": profile.per_seq_s,
        "per_ctx_token_s": profile.per_ctx_token_s,
        "per_prefill_token_s": profile.per_prefill_token_s,
    }
    return EngineParams(**{**steps, **changes})


def _conversation(*, rate_rps: float, requests: int) -> Requests:
    """The shipped conversation model at a rate, as many requests."""
    model = load_model("azure-conv-2023")
    own = model.sample(0.0, model.span_s, 1)
    scaled = superpose(own, rate_rps / own.mean_rate_rps, seed=1, max_shift_s=300.0)
    repeats = -(-requests // len(scaled))
    arrivals = np.concatenate([scaled.arrival_s + k * scaled.span_s for k in range(repeats)])
    return Requests(
        arrivals[:requests],
        np.tile(scaled.prompt_tokens, repeats)[:requests],
        np.tile(scaled.output_tokens, repeats)[:requests],
        float(np.ceil(arrivals[requests - 1])),
    )


def _short(value: object) -> str:
    return (
        f"{value:,.4g}"
        if isinstance(value, float) and value < 1000
        else (f"{value:,.0f}" if isinstance(value, float) else str(value))
    )


if __name__ == "__main__":
    sys.exit(main())
