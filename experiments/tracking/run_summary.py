"""What MLflow knows of a run, in our words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run."""

    run_id: str
    name: str
    """As MLflow shows it: name of the configuration and seed."""
    status: str
    """`RUNNING`, `FINISHED`, `FAILED` or `KILLED`."""
    started: str
    """When, UTC, ISO 8601."""
    fingerprint: str
    """Of the contract."""
    git_commit: str | None
    """Of the code; None: not known."""
    best: dict[str, float]
    """Figures of the best checkpoint on the validation windows; empty before the end."""
    wall_s: float | None
    """Seconds it took; None before its end."""
    steps_per_s: float | None
    """Mean speed; None before its end."""
