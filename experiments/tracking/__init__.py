"""Trainings in MLflow, on SQLite in a folder of runs. The only package that imports mlflow."""

import logging
import os

os.environ.setdefault(
    "MLFLOW_DISABLE_TELEMETRY", "true"
)  # read on import: nothing leaves the machine

from .registry import ModelVersion, Registry
from .run_store import RunStore
from .tracked_run import TrackedRun

__all__ = ["ModelVersion", "Registry", "RunStore", "TrackedRun"]

for _name in ("mlflow", "alembic"):
    logging.getLogger(_name).setLevel(logging.WARNING)
