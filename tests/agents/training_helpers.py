"""Small trainings on a small scenario, and a place to put their figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gatepilot.agents.config import TrainingConfig, parse_config

SCENARIO = Path(__file__).with_name("tiny.yaml")


@dataclass
class ListRecorder:
    """Keeps everything; what has been flushed, too."""

    pending: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    flushed: list[tuple[int, dict[str, float]]] = field(default_factory=list)

    def record(self, step: int, values: Mapping[str, float]) -> None:
        self.pending.append((step, dict(values)))

    def flush(self) -> None:
        self.flushed += self.pending
        self.pending.clear()


def tiny(**changes: object) -> TrainingConfig:
    """A few updates of four gateways on a small scenario; nothing is learned."""
    content: dict[str, Any] = {
        "name": "tiny",
        "scenarios": [str(SCENARIO)],
        "n_envs": 4,
        "episode_ticks": 20,
        "workloads": 2,
        "steps": 256,
        "validation": {"every_steps": 128, "windows": 2, "ticks": 4},
        "ppo": {"n_steps": 16, "batch_size": 32, "n_epochs": 2, "hidden": [16]},
        "dqn": {"learning_starts": 32, "batch_size": 16, "buffer_size": 200, "hidden": [16]},
    }
    return parse_config(content | changes, where="tiny")
