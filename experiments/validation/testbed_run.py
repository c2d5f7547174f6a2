"""The same arrivals through the testbed and through the engine."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from ...envs.schema.settings import THRESHOLD_STEP_PERCENT
from ...envs.sim.engine import Engine
from ...envs.sim.faults import Fault
from ...envs.sim.outcomes import OK
from ...envs.sim.quantile import histogram_quantile
from ...envs.sim.series import TTFT_BOUNDS_S
from ..testbed.errors import LaunchError
from ..testbed.plan import Plan, Wishes, planned

REPLICAS: Final = 4
"""Emulated replicas."""
RATE_RPS: Final = 20.0
"""Mean rate of the load."""
FAILING: Final = 1
"""Number of the replica that fails."""
_EXPERIMENTS: Final = (__package__ or "").rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Setting:
    """One run of both sides."""

    name: str
    """What claims call it."""
    seconds: float
    """Length of the load."""
    fault: Fault | None = None
    """What goes wrong with replica `FAILING`."""

    @property
    def plan(self) -> Plan:
        """The testbed that runs it."""
        wishes = Wishes(
            scenario="testbed", replicas=REPLICAS, rate_rps=RATE_RPS, seconds=self.seconds
        )
        return planned(wishes)


SETTINGS: Final = (
    Setting("all replicas healthy", 600.0),
    Setting("one replica fails", 180.0, Fault("replica_errors", 30.0, 150.0, 0.8)),
)
"""What is compared."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What came of a run, on either side."""

    ttft_p50_s: float
    """Median of the time to first token of the requests that are served, in vLLM's buckets."""
    ttft_p95_s: float
    """Its 95th percentile."""
    error_rate: float
    """Share of the requests that are not served."""
    ejections: tuple[tuple[int, float], ...]
    """Number of the replica and second of the load, in order of time. Of the engine the first of
    each replica alone, to a second."""

    @property
    def ejected(self) -> set[int]:
        """Replicas that were taken out."""
        return {replica for replica, _ in self.ejections}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """What `dataclasses.asdict` made, read back from JSON."""
        ejections = tuple((replica, at_s) for replica, at_s in content["ejections"])
        return cls(**{**content, "ejections": ejections})


@dataclass(frozen=True, slots=True)
class TestbedRun:
    """One run of the testbed."""

    __test__ = False  # no test of pytest's

    requests: int
    """How many were sent."""
    figures: Figures
    """What came of them."""
    late_p99_s: float
    """How late the load generator was, 99th percentile."""
    load_average: float
    """What this machine was doing at the end: processes that want to run."""

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """What `dataclasses.asdict` made, read back from JSON."""
        return cls(**{**content, "figures": Figures.from_json(content["figures"])})


def given(setting: Setting) -> dict[str, Any]:
    """What both sides are given, as plain data: the load's SHA-256, a replica, the gateway."""
    plan = setting.plan
    digest = hashlib.sha256()
    for name in ("arrival_s", "prompt_tokens", "output_tokens"):
        digest.update(np.ascontiguousarray(getattr(plan.requests, name)).tobytes())
    return {
        "load": digest.hexdigest(),
        **{f"replica.{key}": value for key, value in asdict(plan.step).items()},
        **{f"gateway.{key}": value for key, value in asdict(plan.scenario.gateway).items()},
    }


def run_testbed(setting: Setting, folder: Path) -> TestbedRun:
    """Runs the testbed, in real time.

    Args:
        setting: What to run.
        folder: Gets its files.

    Raises:
        LaunchError: It does not start, or does not end well.
    """
    options = ["--replicas", str(REPLICAS), "--rate", str(RATE_RPS)]
    options += ["--seconds", str(setting.seconds), "--out", str(folder), "--json"]
    if setting.fault is not None:
        span = f"{setting.fault.start_s:g}-{setting.fault.end_s:g}"
        options += ["--fault", f"{FAILING}:errors={setting.fault.error_share}@{span}"]
    command = [sys.executable, "-m", _EXPERIMENTS, "testbed", "up", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        msg = f"testbed, {setting.name}: {last}"
        raise LaunchError(msg)
    return read_testbed(folder)


def read_testbed(folder: Path) -> TestbedRun:
    """What a testbed that has ended left behind.

    Args:
        folder: Its `--out`.
    """
    with (folder / "requests.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    started_at_s = float(rows[0]["sent_at_s"]) - float(rows[0]["arrival_s"])
    ttft_s = np.array([float(row["ttft_s"]) for row in rows if row["status"] == "ok"])
    return TestbedRun(
        requests=len(rows),
        figures=Figures(
            ttft_p50_s=_quantile(ttft_s, 0.50),
            ttft_p95_s=_quantile(ttft_s, 0.95),
            error_rate=float(np.mean([row["status"] != "ok" for row in rows])),
            ejections=tuple(_ejections(folder, started_at_s)),
        ),
        late_p99_s=float(np.percentile([float(row["late_s"]) for row in rows], 99)),
        load_average=os.getloadavg()[0],
    )


def _ejections(folder: Path, started_at_s: float) -> list[tuple[int, float]]:
    """Ejections as Envoy's own log of events has them."""
    addresses = json.loads((folder / "load.json").read_text(encoding="utf-8"))["replicas"]
    names = list(addresses.values())
    found = []
    for line in (folder / "envoy" / "ejections.jsonl").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["action"] != "EJECT" or not event["enforced"]:
            continue
        at_s = np.datetime64(event["timestamp"].rstrip("Z"), "ms").astype(np.int64) / 1000
        replica = names.index(addresses[event["upstream_url"]])
        found.append((replica, round(float(at_s) - started_at_s, 2)))
    return found


def simulate_testbed(setting: Setting, runs: int) -> list[Figures]:
    """The engine on the same arrivals, under several seeds of its router.

    A simulated fault draws its replica; seeds that draw another than `FAILING` are passed over.

    Args:
        setting: What to run.
        runs: How many.
    """
    plan = setting.plan
    found: list[Figures] = []
    seed = 0
    while len(found) < runs:
        seed += 1
        figures = _simulated(plan, setting.fault, seed)
        if figures is not None:
            found.append(figures)
    return found


def _simulated(plan: Plan, fault: Fault | None, seed: int) -> Figures | None:
    """One run of the engine; `None`: another replica than `FAILING` was drawn."""
    requests = plan.requests
    if requests is None:
        msg = "there is no load"
        raise LaunchError(msg)
    engine = Engine(
        [plan.params],
        [requests],
        1,
        max_replicas=plan.replicas,
        faults=1,
        sampled_s=plan.params.window_s + 1,
        periodic=False,
        outcomes=True,
    )
    count = np.array([plan.replicas])
    threshold = np.array([plan.scenario.gateway.threshold_steps * THRESHOLD_STEP_PERCENT])
    engine.reset(
        np.zeros(1, np.int64),
        seeds=np.array([seed], np.uint64),
        workloads=np.zeros(1, np.int64),
        start_s=np.zeros(1),
        warmup_s=0.0,
        replicas=count,
        threshold_percent=threshold,
        faults=[[] if fault is None else [fault]],
    )
    first_s: dict[int, float] = {}
    second = 0
    while engine.counters["arrived"][0] < len(requests) or engine.counters["outstanding"][0] > 0:
        engine.tick(1.0, count, threshold)
        second += 1
        for replica in np.flatnonzero(engine._state.replicas[0]["ejected"]).tolist():
            first_s.setdefault(replica, float(second))
        has_begun = fault is not None and fault.start_s < second <= fault.start_s + 1
        if has_begun and int(engine._state.faults[0][0]["target"]) != FAILING:
            return None
    outcomes = engine.outcomes
    ttft_s = outcomes.ttft_s[outcomes.status == OK]
    return Figures(
        ttft_p50_s=_quantile(ttft_s, 0.50),
        ttft_p95_s=_quantile(ttft_s, 0.95),
        error_rate=float(np.mean(outcomes.status != OK)),
        ejections=tuple(sorted(first_s.items(), key=lambda item: item[1])),
    )


def mean_of(runs: Sequence[Figures], name: str) -> tuple[float, float]:
    """Mean and spread (standard deviation) of a figure over runs."""
    values = np.array([getattr(run, name) for run in runs])
    return float(values.mean()), float(values.std())


def _quantile(values: NDArray[np.float64], q: float) -> float:
    """As `histogram_quantile` over vLLM's buckets has it."""
    counts = np.bincount(np.searchsorted(TTFT_BOUNDS_S, values), minlength=len(TTFT_BOUNDS_S) + 1)
    return float(histogram_quantile(q, TTFT_BOUNDS_S, counts.astype(np.float64), 1))
