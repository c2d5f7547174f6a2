"""What happened in the training environments since the last look."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray


class RolloutStatistics:
    """Sums over ticks, and the returns of the last complete episodes."""

    def __init__(self, n_envs: int) -> None:
        self._episode_returns = np.zeros(n_envs)
        self._finished: deque[float] = deque(maxlen=n_envs)
        self._sums: dict[str, float] = {}
        self._ticks = 0

    def add(self, rewards: NDArray[np.float64], values: dict[str, NDArray[Any]]) -> None:
        """Counts one tick of all environments.

        Args:
            rewards: Shape `(n,)`: the reward, unscaled and without learning aids.
            values: Shape `(n,)` each: what to average over ticks, by name.
        """
        self._episode_returns += rewards
        self._ticks += 1
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + float(value.mean())

    def finish(self, rows: NDArray[np.intp], *, complete: NDArray[np.bool_]) -> None:
        """Closes the episodes of some environments.

        Args:
            rows: The environments whose episode is over.
            complete: For each, whether it had its full length; a shorter one is no return.
        """
        self._finished.extend(self._episode_returns[rows[complete]].tolist())
        self._episode_returns[rows] = 0.0

    def restart(self) -> None:
        """Forgets running episodes, as after a reset of all environments."""
        self._episode_returns[:] = 0.0

    def take(self) -> dict[str, float]:
        """Means over the ticks since the last call; `return` once an episode is complete."""
        means = {name: total / self._ticks for name, total in self._sums.items()}
        if self._finished:
            means["return"] = float(np.mean(self._finished))
        self._sums.clear()
        self._ticks = 0
        return means
