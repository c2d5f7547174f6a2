"""Where tests get parameters from: drawn at random, or the ends of every range."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gatepilot.agents.baselines.site import ReplicaSpec, Site
from gatepilot.envs.profiles.step import StepModel
from gatepilot.envs.schema.settings import Limits

REPLICA = ReplicaSpec(
    StepModel(0.012, 5e-5, 3e-8, 6e-5), cold_start_s=110.0, kv_capacity_tokens=400_000
)
"""About a 70B model on two H100."""


def site(limits: Limits, tick_s: float = 15.0) -> Site:
    """A site of which everything is known."""
    return Site(limits, tick_s, replica=REPLICA)


@dataclass
class RandomSuggest:
    """Draws every value that is asked for, and remembers what was asked."""

    generator: np.random.Generator
    asked: dict[str, Any] = field(default_factory=dict)

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        assert low < high
        value = self.generator.uniform(math.log(low), math.log(high)) if log else 0.0
        drawn = math.exp(value) if log else self.generator.uniform(low, high)
        value = min(max(float(drawn), low), high)
        self._note(name, value)
        return value

    def suggest_int(self, name: str, low: int, high: int, *, log: bool = False) -> int:
        assert low <= high
        assert not log or low >= 1
        value = int(self.generator.integers(low, high, endpoint=True))
        self._note(name, value)
        return value

    def suggest_categorical(self, name: str, choices: list[Any]) -> Any:  # noqa: ANN401
        value = choices[int(self.generator.integers(len(choices)))]
        self._note(name, value)
        return value

    def _note(self, name: str, value: object) -> None:
        assert name not in self.asked, f"{name} is asked for twice"
        self.asked[name] = value
