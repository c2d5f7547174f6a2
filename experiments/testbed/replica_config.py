"""What a replica process is told, as one JSON file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from .step_engine import StepModel


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuShare:
    """CPU of a replica, as its serving profile assumes it (`envs/profiles`)."""

    idle: float
    """Busy share of a replica that does nothing."""
    per_iteration_s: float
    """CPU seconds an iteration."""
    per_token_s: float
    """CPU seconds a token."""

    def used_s(self, uptime_s: float, iterations: int, tokens: int) -> float:
        """CPU seconds since the start."""
        return self.idle * uptime_s + self.per_iteration_s * iterations + self.per_token_s * tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    """One emulated replica."""

    name: str
    """Its pod's name."""
    namespace: str
    """Its pod's namespace."""
    model: str
    """Name under which the model is served."""
    host: str
    """Address to listen on."""
    port: int
    """Port to listen on."""
    seed: int
    """Of the errors it is told to make."""
    step: StepModel
    """Timing and capacity."""
    cpu: CpuShare
    """CPU as a function of load."""

    def write(self, path: Path) -> None:
        """Writes the configuration as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> ReplicaConfig:
        """Reads what `write` wrote."""
        content = json.loads(path.read_text(encoding="utf-8"))
        step = StepModel(**content.pop("step"))
        cpu = CpuShare(**content.pop("cpu"))
        return cls(step=step, cpu=cpu, **content)
