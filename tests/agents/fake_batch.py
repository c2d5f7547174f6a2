"""A `GatewayBatch` of numbers that a test can foresee: an observation is (seed, tick)."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from gatepilot.envs.schema.fields import FIELD_INDEX, FIELDS
from gatepilot.envs.schema.settings import THRESHOLD_STEP

AWAY_STEPS = 2
"""How far the threshold is from its start, while nothing fails."""


@dataclass
class Spec:
    low: NDArray[np.float32]
    high: NDArray[np.float32]


class FakeBatch:
    """Steps n counters; the reward of a tick is `reward`."""

    def __init__(
        self, n_envs: int, episode_ticks: int, reward: float = 1.0, n_workloads: int = 1
    ) -> None:
        self.n_envs = n_envs
        self.episode_ticks = episode_ticks
        self.observation_spec = Spec(np.zeros(2, np.float32), np.full(2, 1e3, np.float32))
        self.n_workloads = n_workloads
        self.rest_threshold_steps = np.full(n_envs, 10)
        self.truth = np.zeros((n_envs, len(FIELDS)))
        self.truth[:, FIELD_INDEX["breaker_threshold"]] = (10 + AWAY_STEPS) * THRESHOLD_STEP
        self.replicas = np.full(n_envs, 4)
        self.threshold_steps = np.full(n_envs, 10 + AWAY_STEPS)
        self.reward = reward
        self.ticks = np.zeros(n_envs, np.int64)
        self.seeds = np.zeros(n_envs, np.int64)
        self.resets: list[tuple[list[int], list[int]]] = []
        self.workloads: list[list[int]] = []
        self.starts_s: list[list[float]] = []
        self.actions: list[NDArray[np.int64]] = []

    def reset(
        self,
        rows: NDArray[np.intp],
        *,
        seeds: NDArray[np.int64],
        workloads: NDArray[np.int64],
        starts_s: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float32]:
        self.resets.append((rows.tolist(), seeds.tolist()))
        self.workloads.append(workloads.tolist())
        self.starts_s.append([] if starts_s is None else starts_s.tolist())
        self.ticks[rows] = 0
        self.seeds[rows] = seeds
        return self._observe()

    def step(self, actions: NDArray[np.int64]) -> SimpleNamespace:
        self.actions.append(np.asarray(actions).copy())
        self.ticks += 1
        ones = np.ones(self.n_envs)
        return SimpleNamespace(
            observation=self._observe(),
            reward=self.reward * ones,
            parts={"cost": self.reward * ones},
            truncated=self.ticks >= self.episode_ticks,
            info={"violation": self.ticks % 2 == 0},
        )

    def _observe(self) -> NDArray[np.float32]:
        return np.stack([self.seeds % 997, self.ticks], axis=1).astype(np.float32)
