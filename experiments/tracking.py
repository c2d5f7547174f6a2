"""Trainings in MLflow, on SQLite in a folder of runs. The only module that imports mlflow."""

from __future__ import annotations

import fcntl
import logging
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

os.environ.setdefault(
    "MLFLOW_DISABLE_TELEMETRY", "true"
)  # read on import: nothing leaves the machine

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunStatus, RunTag
from mlflow.exceptions import MlflowException

from ..agents.config import TrainingConfig
from ..envs.scenario import Scenario
from ..envs.schema.fingerprint import Contract
from .config import flat
from .provenance import Provenance
from .run_files import RunError, RunFiles

EXPERIMENT: Final = "gatepilot"
"""MLflow experiment of all trainings."""
_DATABASE: Final = "mlflow.db"
_MAX_METRICS: Final = 1000
"""Metrics that MLflow takes in one batch."""
_log = logging.getLogger(__name__)

for _name in ("mlflow", "alembic"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class TrackedRun:
    """One training: figures go to MLflow in batches, files into the run's artifact folder."""

    def __init__(self, client: MlflowClient, run_id: str, folder: Path) -> None:
        """Wraps a run that exists, and keeps other processes from training it.

        Args:
            client: MLflow.
            run_id: Its id.
            folder: Its artifact folder.

        Raises:
            RunError: Another process trains it.
        """
        self._lock = (folder / ".lock").open("w")  # held until this object or the process ends
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise RunError(f"run {run_id}: another process is training it") from error
        self.run_id = run_id
        self.folder = folder
        self.spent_s = 0.0
        """Seconds spent on talking to MLflow."""
        self._client = client
        self._pending: list[Metric] = []

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Notes figures until the next `flush`; a figure that is not finite is left out.

        Args:
            step: Training steps done.
            values: Figures by name.
        """
        now_ms = time.time_ns() // 1_000_000
        self._pending += [
            Metric(name, value, now_ms, step)
            for name, value in values.items()
            if math.isfinite(value)
        ]

    def flush(self) -> None:
        """Writes what was noted; if the database cannot be written, it is kept until it can."""
        started_s = time.perf_counter()
        try:
            self._write()
        except (MlflowException, OSError) as error:
            _log.warning("MLflow: %s; figures are kept and written later", _first_line(error))
        self.spent_s += time.perf_counter() - started_s

    def finish(self, values: Mapping[str, float], step: int) -> None:
        """Writes the last figures, marks the run as finished and lets it go.

        Raises:
            RunError: The database cannot be written.
        """
        self.record(step, values)
        try:
            self._write()
            self._client.set_terminated(self.run_id, RunStatus.to_string(RunStatus.FINISHED))
        except (MlflowException, OSError) as error:
            raise RunError(f"MLflow: {_first_line(error)}") from error
        self._lock.close()

    def stop(self, status: Literal["FAILED", "KILLED"]) -> None:
        """Marks the run as ended early and lets it go; it can be resumed.

        Figures since the last flush are dropped: they belong to steps after the last checkpoint and
        come again when the run is resumed.
        """
        self._pending.clear()
        try:
            self._client.set_terminated(self.run_id, status)
        except (MlflowException, OSError) as error:
            _log.warning("MLflow: %s", _first_line(error))
        self._lock.close()

    def _write(self) -> None:
        for start in range(0, len(self._pending), _MAX_METRICS):
            batch = self._pending[start : start + _MAX_METRICS]
            self._client.log_batch(self.run_id, metrics=batch)
        self._pending.clear()


class RunStore:
    """A folder of runs: MLflow's database, and a folder of files for each run."""

    def __init__(self, folder: Path) -> None:
        """Names the folder; nothing is made before `create`.

        Args:
            folder: The folder of runs.
        """
        self.folder = folder

    @property
    def uri(self) -> str:
        """MLflow's tracking URI."""
        return f"sqlite:///{(self.folder / _DATABASE).resolve()}"

    @property
    def ui_command(self) -> str:
        """How to look at the runs in a browser."""
        return f"mlflow ui --backend-store-uri {self.uri}"

    def create(
        self,
        config: TrainingConfig,
        scenario: Scenario,
        contract: Contract,
        provenance: Provenance,
    ) -> TrackedRun:
        """Starts a run and writes down what it is.

        Args:
            config: What is trained.
            scenario: On what.
            contract: Under which contract.
            provenance: By which code and command.

        Raises:
            RunError: The folder cannot be written.
        """
        try:
            (self.folder / "artifacts").mkdir(parents=True, exist_ok=True)
            with _locked(self.folder / ".lock"):
                client = MlflowClient(tracking_uri=self.uri)
                experiment_id = _experiment(client, self.folder / "artifacts")
        except OSError as error:
            raise RunError(f"{self.folder}: cannot be written ({error.strerror})") from error
        except MlflowException as error:
            raise RunError(f"{self.folder / _DATABASE}: {_first_line(error)}") from error
        tags = {
            "fingerprint": contract.fingerprint,
            "git_commit": provenance.git_commit,
            "git_dirty": provenance.git_dirty,
            "command": provenance.command,
            "python": provenance.python,
            **{f"version.{name}": version for name, version in provenance.versions.items()},
        }
        run = client.create_run(experiment_id, run_name=f"{config.name}-seed{config.seed}")
        run_id = run.info.run_id
        client.log_batch(
            run_id,
            params=[Param(key, value) for key, value in flat(config).items()],
            tags=[RunTag(key, str(value)) for key, value in tags.items() if value is not None],
        )
        files = self._files(run_id)
        files.write(config, scenario, contract, provenance)
        return TrackedRun(client, run_id, files.folder)

    def resume(self, run_id: str) -> TrackedRun:
        """Opens a run that was broken off and marks it as running.

        Raises:
            RunError: There is no such run, or it is finished.
        """
        client = self._client(run_id)
        if client.get_run(run_id).info.status == RunStatus.to_string(RunStatus.FINISHED):
            raise RunError(f"run {run_id}: finished, nothing to resume")
        run = TrackedRun(client, run_id, self._files(run_id).folder)
        client.update_run(run_id, status=RunStatus.to_string(RunStatus.RUNNING))
        return run

    def files(self, run_id: str) -> RunFiles:
        """The folder of a run.

        Raises:
            RunError: There is no such run.
        """
        self._client(run_id)
        return self._files(run_id)

    def _client(self, run_id: str) -> MlflowClient:
        """MLflow, if it knows the run."""
        if not (self.folder / _DATABASE).is_file():
            raise RunError(f"run {run_id}: no runs in {self.folder} (see --runs)")
        client = MlflowClient(tracking_uri=self.uri)
        try:
            client.get_run(run_id)
        except MlflowException as error:
            raise RunError(f"run {run_id}: not found in {self.folder}") from error
        return client

    def _files(self, run_id: str) -> RunFiles:
        return RunFiles(run_id, self.folder / "artifacts" / run_id / "artifacts")


def _experiment(client: MlflowClient, artifacts: Path) -> str:
    known = client.get_experiment_by_name(EXPERIMENT)
    if known is not None:
        return str(known.experiment_id)
    return str(client.create_experiment(EXPERIMENT, artifact_location=str(artifacts.resolve())))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds a lock file: two trainings that start at once must not both create the database."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
