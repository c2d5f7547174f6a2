"""The command line in an empty folder, and a made-up evaluation: three policies, eight windows."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlflow import MlflowClient

from gatepilot.agents.episodes import Outcomes, episodes_of
from gatepilot.agents.trial import Trial
from gatepilot.agents.windows import plan_windows
from gatepilot.envs.scenario import load_scenario
from gatepilot.envs.schema.fields import FIELD_INDEX, FIELDS
from gatepilot.envs.workload.request import Requests
from gatepilot.experiments.results import GatedOut, Results, pair_up, summarise
from gatepilot.experiments.study import Study
from gatepilot.experiments.tracking import RunStore

from .cli_kit import Cli

POLICIES = ("run:0123456789abcdef0123456789abcdef", "hpa", "fixed:8")
TICKS = 60


def made_up_outcomes(rng: np.random.Generator, windows: int, replicas: float) -> Outcomes:
    rows = np.zeros((windows, TICKS, len(FIELDS)), np.float32)
    wave = 1 + 0.5 * np.sin(np.linspace(0, 6, TICKS))
    requested = np.round(replicas * wave + rng.normal(0, 0.3, (windows, TICKS)))
    ready = np.minimum(requested, np.roll(requested, 3, axis=1))
    ttft_p95_s = np.exp(rng.normal(-1.2, 0.5, (windows, TICKS)))
    columns: dict[str, Any] = {
        "request_rate_rps": 30 * wave,
        "replicas_requested": requested,
        "replicas_ready": ready,
        "replicas_starting": requested - ready,
        "ttft_p95_s": ttft_p95_s,
        "breaker_threshold": 0.5,
    }
    for name, values in columns.items():
        rows[:, :, FIELD_INDEX[name]] = values
    violations = ttft_p95_s > 0.8
    hours = requested.sum(axis=1) * 15 / 3600
    return Outcomes(
        returns=-0.03 * requested.sum(axis=1) - 5.0 * violations.sum(axis=1),
        violation_rate=violations.mean(axis=1),
        replica_hours=hours,
        error_rate=np.full(windows, 0.001),
        shed_rate=np.zeros(windows),
        ttft_p95_s=np.full(windows, 0.4),
        changes=np.full(windows, 7),
        rows=rows,
        violations=violations,
    )


@pytest.fixture(scope="session")
def study() -> Study:
    rng = np.random.default_rng(3)
    requests = Requests(np.array([0.0]), np.array([10]), np.array([10]), 7200.0)
    plan = plan_windows(7200.0, TICKS * 15.0, seed=0)
    trial = Trial(load_scenario("demo"), "test", TICKS, plan, (requests,))
    outcomes = {
        ("demo", policy): made_up_outcomes(rng, len(plan.windows), replicas)
        for policy, replicas in zip(POLICIES, (4, 5, 8), strict=True)
    }
    episodes = [
        episode
        for (_, policy), played in outcomes.items()
        for episode in episodes_of(
            played, trial, policy=policy, train_seed=7 if policy.startswith("run:") else None
        )
    ]
    summary = summarise(episodes, POLICIES, {"fixed:8": {"demo": {"replicas": 8}}}, seed=0)
    results = Results(
        episodes=tuple(episodes),
        summary=summary,
        by_scenario={"demo": summary},
        pairs=pair_up(episodes, POLICIES, seed=0),
        gated_out=(GatedOut("demo", 8, 7000.0, 0.25),),
        provenance={"command": "gatepilot evaluate <x>", "notes": ["the trace is not here"]},
    )
    return Study(results, (trial,), outcomes)


@pytest.fixture
def cells_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a test's commands keep what they have played."""
    return tmp_path_factory.mktemp("cells")


@pytest.fixture
def cli(
    tmp_path: Path,
    cells_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Cli:
    """Commands, run from an empty folder, that see none of the user's traces and caches."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GATEPILOT_TRACES", raising=False)
    monkeypatch.setenv("GATEPILOT_STUDIES", str(tmp_path / "cache"))
    monkeypatch.setenv("GATEPILOT_CELLS", str(cells_dir))
    monkeypatch.setenv("COLUMNS", "200")
    return Cli(capfd)


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MLflow's database without a run: making one takes seconds, copying it none."""
    runs = tmp_path_factory.mktemp("template") / "runs"
    runs.mkdir()
    MlflowClient(tracking_uri=RunStore(runs).uri).search_experiments()
    return runs / "mlflow.db"


@pytest.fixture
def runs(empty_database: Path, tmp_path: Path) -> Path:
    """A folder of runs that holds none yet."""
    folder = tmp_path / "runs"
    folder.mkdir()
    shutil.copy(empty_database, folder)
    return folder
