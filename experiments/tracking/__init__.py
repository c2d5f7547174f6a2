"""Trainings in MLflow, on SQLite in a folder of runs. The only package that imports mlflow."""

import logging
import os

# Both are read on import: nothing leaves the machine, and no bars of MLflow's own beside ours.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")

from .registry import ModelVersion, Registry
from .run_store import RunStore
from .run_summary import RunSummary
from .tracked_run import TrackedRun

__all__ = ["ModelVersion", "Registry", "RunStore", "RunSummary", "TrackedRun"]

for _name in ("mlflow", "alembic"):
    logging.getLogger(_name).setLevel(logging.WARNING)
