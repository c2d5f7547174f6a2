"""One training's record: figures go to MLflow in batches, files into the run's folder."""

from __future__ import annotations

import fcntl
import logging
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from mlflow import MlflowClient
from mlflow.entities import Metric, RunStatus
from mlflow.exceptions import MlflowException
from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

from ..files import writing
from ..run_files import RunError
from .wording import first_line

_MAX_METRICS: Final = 1000
"""Metrics that MLflow takes in one batch."""
_SAMPLING_S: Final = 10.0
"""Seconds between two samples of the machine: CPU, memory, disk, network, and GPUs if there are."""
_log = logging.getLogger(__name__)


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
            OutputError: The folder cannot be written.
        """
        with writing(folder):
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
        self._monitor = SystemMetricsMonitor(
            run_id,
            sampling_interval=_SAMPLING_S,
            resume_logging=True,
            tracking_uri=client.tracking_uri,
        )
        self._pending: list[Metric] = []

    def watch_machine(self) -> None:
        """Notes what the machine does from now on until the run ends, on a thread of its own."""
        self._monitor.start()

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
            _log.warning("MLflow: %s; figures are kept and written later", first_line(error))
        self.spent_s += time.perf_counter() - started_s

    def finish(self, values: Mapping[str, float], step: int) -> None:
        """Writes the last figures, marks the run as finished and lets it go.

        Raises:
            RunError: The database cannot be written.
        """
        self._monitor.finish()
        self.record(step, values)
        try:
            self._write()
            self._client.set_terminated(self.run_id, RunStatus.to_string(RunStatus.FINISHED))
        except (MlflowException, OSError) as error:
            raise RunError(f"MLflow: {first_line(error)}") from error
        self._lock.close()

    def stop(self, status: Literal["FAILED", "KILLED"]) -> None:
        """Marks the run as ended early and lets it go; it can be resumed.

        Figures since the last flush are dropped: they belong to steps after the last checkpoint and
        come again when the run is resumed.
        """
        self._monitor.finish()
        self._pending.clear()
        try:
            self._client.set_terminated(self.run_id, status)
        except (MlflowException, OSError) as error:
            _log.warning("MLflow: %s", first_line(error))
        self._lock.close()

    def _write(self) -> None:
        for start in range(0, len(self._pending), _MAX_METRICS):
            batch = self._pending[start : start + _MAX_METRICS]
            self._client.log_batch(self.run_id, metrics=batch)
        self._pending.clear()
