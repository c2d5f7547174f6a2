"""Bars that need the testbed: a real Envoy, a real Prometheus, emulated replicas, minutes of time.

    python benchmarks/testbed_bars.py sim [--seconds 600] [--replicas 4] [--rate 20]

Each bar runs `gatepilot testbed up`, prints its figures as JSON and stores them in
`benchmarks/results/testbed_NAME.json`. Exit code 1: missed. The emulation is in real time, so what
else this machine did is stored beside the figures.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatepilot.envs.episodes import engine_params
from gatepilot.envs.scenario import Scenario, load_scenario
from gatepilot.envs.schema.settings import THRESHOLD_STEP_PERCENT
from gatepilot.envs.sim.engine import POOL, Engine, compile_engine, most_in_window
from gatepilot.envs.sim.faults import Fault
from gatepilot.envs.sim.quantile import histogram_quantile
from gatepilot.envs.sim.state import OK, TTFT_BOUNDS_S
from gatepilot.envs.workload.request import Requests
from gatepilot.envs.workload.trace import load_trace

RESULTS = Path(__file__).resolve().parent / "results"
GATEPILOT = [sys.executable, "-m", "gatepilot.experiments"]
SIM_SEEDS = 16
"""Runs of the simulator, whose mean the one run of the testbed is held against."""
TTFT_TOLERANCE = 0.10
ERROR_TOLERANCE = 0.005
FAILING = 1
"""Number of the replica that fails in the second run."""
FAILING_SHARE = 0.8
FAULT_RUN_S = 180.0
FAULT = (30.0, 150.0)
"""Onset and end of the fault."""


def main() -> int:
    """Runs one bar; 1 if it was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    bars = parser.add_subparsers(dest="bar", required=True)
    sim = bars.add_parser("sim", help=sim_against_testbed.__doc__)
    sim.add_argument("--seconds", type=float, default=600.0)
    sim.add_argument("--replicas", type=int, default=4)
    sim.add_argument("--rate", type=float, default=20.0)
    sim.add_argument("--out", type=Path, help="folder of the two testbeds; default: a throw-away")
    sim.set_defaults(measure=sim_against_testbed)
    options = parser.parse_args()
    start = time.time()
    load_before = os.getloadavg()[0]
    met, figures = options.measure(options)
    result = {
        "bar": options.bar,
        "met": met,
        "figures": figures,
        "seconds": round(time.time() - start, 1),
        "load_average": {"before": load_before, "after": os.getloadavg()[0]},
    }
    text = json.dumps(result, indent=1)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"testbed_{options.bar}.json").write_text(text + "\n", encoding="utf-8")
    print(text)  # noqa: T201
    return 0 if met else 1


def sim_against_testbed(options: argparse.Namespace) -> tuple[bool, dict[str, Any]]:
    """The same arrivals through simulator and testbed: TTFT, errors, who is ejected."""
    with tempfile.TemporaryDirectory() as throw_away:
        folder = options.out or Path(throw_away)
        common = ["--replicas", str(options.replicas), "--rate", str(options.rate)]
        start_s, end_s = FAULT
        fault = f"{FAILING}:errors={FAILING_SHARE}@{start_s:g}-{end_s:g}"
        clean = _testbed(folder / "clean", [*common, "--seconds", str(options.seconds)])
        failing = _testbed(
            folder / "failing", [*common, "--seconds", str(FAULT_RUN_S), "--fault", fault]
        )
        compile_engine()
        first = _compared(clean, options.replicas, ())
        second = _compared(
            failing, options.replicas, (Fault(start_s, end_s, FAILING_SHARE, False),)
        )
    same = second["ejected"]["testbed"] == second["ejected"]["simulator"] == [FAILING]
    none = first["ejected"]["testbed"] == first["ejected"]["simulator"] == []
    met = first["within"] and second["error_rate_within"] and same and none
    return met, {"clean": first, "one_replica_fails": second}


def _testbed(folder: Path, options: Sequence[str]) -> Path:
    """Runs a testbed to its end."""
    command = [*GATEPILOT, "testbed", "up", *options, "--out", str(folder), "--json"]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)  # noqa: S603
    if done.returncode != 0:
        sys.exit(f"gatepilot testbed up ended with {done.returncode}")
    return folder


def _compared(folder: Path, replicas: int, faults: Sequence[Fault]) -> dict[str, Any]:
    """One run of the testbed beside the simulator's runs of the same arrivals."""
    rows = _rows(folder)
    started_at_s = float(rows[0]["sent_at_s"]) - float(rows[0]["arrival_s"])
    ttft_s = np.array([float(row["ttft_s"]) for row in rows if row["status"] == "ok"])
    late_s = np.array([float(row["late_s"]) for row in rows])
    testbed = {
        "ttft_p50_s": _quantile(ttft_s, 0.50),
        "ttft_p95_s": _quantile(ttft_s, 0.95),
        "error_rate": float(np.mean([row["status"] != "ok" for row in rows])),
    }
    runs = _simulated(load_trace(folder / "load.csv"), replicas, faults)
    simulator = {name: float(np.mean([run[name] for run in runs])) for name in testbed}
    errors = {name: testbed[name] / simulator[name] - 1 for name in ("ttft_p50_s", "ttft_p95_s")}
    points = abs(testbed["error_rate"] - simulator["error_rate"])
    events = _events(folder, started_at_s)
    return {
        "requests": len(rows),
        "testbed": testbed,
        "simulator": simulator,
        "simulator_spread": {n: float(np.std([run[n] for run in runs])) for n in testbed},
        "relative_error": errors,
        "error_rate_difference": points,
        "error_rate_within": points <= ERROR_TOLERANCE,
        "within": max(map(abs, errors.values())) <= TTFT_TOLERANCE and points <= ERROR_TOLERANCE,
        "ejected": {
            "testbed": sorted({event["replica"] for event in events}),
            "simulator": sorted({r for run in runs for r in run["ejected"]}),
        },
        "first_ejection_s": {
            "testbed": min((e["at_s"] for e in events), default=None),
            "simulator": sorted({run["first_ejection_s"] for run in runs if run["ejected"]}),
        },
        "testbed_ejections": events,
        "sent_late_p99_s": float(np.percentile(late_s, 99)),
    }


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "requests.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _events(folder: Path, started_at_s: float) -> list[dict[str, Any]]:
    """Ejections as Envoy's own log of events has them."""
    addresses = json.loads((folder / "load.json").read_text(encoding="utf-8"))["replicas"]
    names = list(addresses.values())
    events = []
    for line in (folder / "envoy" / "ejections.jsonl").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["action"] != "EJECT" or not event["enforced"]:
            continue
        name = addresses[event["upstream_url"]]
        at_s = np.datetime64(event["timestamp"].rstrip("Z")).astype("datetime64[ms]").astype(int)
        events.append(
            {"replica": names.index(name), "at_s": round(float(at_s) / 1000 - started_at_s, 2)}
        )
    return events


def _simulated(requests: Requests, replicas: int, faults: Sequence[Fault]) -> list[dict[str, Any]]:
    """The simulator on the same arrivals, under several seeds of its router.

    A simulated fault draws its replica; seeds that draw another than `FAILING` are passed over.
    """
    scenario = load_scenario("testbed")
    runs: list[dict[str, Any]] = []
    seed = 0
    while len(runs) < SIM_SEEDS:
        seed += 1
        run = _simulated_once(scenario, requests, replicas, faults, seed)
        if not faults or run.pop("failing") == FAILING:
            runs.append(run)
    return runs


def _simulated_once(
    scenario: Scenario, requests: Requests, replicas: int, faults: Sequence[Fault], seed: int
) -> dict[str, Any]:
    params = engine_params(scenario)
    engine = Engine(
        params,
        [requests],
        1,
        max_replicas=replicas,
        faults=max(len(faults), 1),
        samples=POOL + most_in_window(requests, params.window_s + 1),
        periodic=False,
        outcomes=True,
    )
    count = np.array([replicas])
    threshold = np.array([scenario.gateway.threshold_steps * THRESHOLD_STEP_PERCENT])
    engine.reset(
        np.zeros(1, np.int64),
        seeds=np.array([seed], np.uint64),
        workloads=np.zeros(1, np.int64),
        start_s=np.zeros(1),
        warmup_s=0.0,
        replicas=count,
        threshold_percent=threshold,
        faults=[list(faults)],
    )
    ejected: set[int] = set()
    first = failing = None
    second = 0
    while engine.counters["arrived"][0] < len(requests) or engine.counters["outstanding"][0] > 0:
        engine.tick(1.0, count, threshold)
        second += 1
        out = np.flatnonzero(engine._state.replicas[0]["ejected"]).tolist()
        if out and first is None:
            first = second
        ejected |= set(out)
        if failing is None and faults and second > faults[0].start_s:
            failing = int(engine._state.faults[0][0]["target"])
    outcomes = engine.outcomes
    ttft_s = outcomes.ttft_s[outcomes.status == OK]
    return {
        "ttft_p50_s": _quantile(ttft_s, 0.50),
        "ttft_p95_s": _quantile(ttft_s, 0.95),
        "error_rate": float(np.mean(outcomes.status != OK)),
        "ejected": sorted(ejected),
        "first_ejection_s": first,
        "failing": failing,
    }


def _quantile(values: NDArray[np.float64], q: float) -> float:
    """As `histogram_quantile` over vLLM's buckets has it."""
    counts = np.bincount(np.searchsorted(TTFT_BOUNDS_S, values), minlength=len(TTFT_BOUNDS_S) + 1)
    return float(histogram_quantile(q, TTFT_BOUNDS_S, counts.astype(np.float64), 1))


if __name__ == "__main__":
    sys.exit(main())
