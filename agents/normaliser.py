"""Observations brought to mean 0 and spread 1 inside the network, saved with its weights.

One replica more moves a raw entry by 0.03 and a busy service its rate by 0.3: without this a small
network sees the second long before the first. The figures are taken once, before training, and then
frozen: the same numbers hold in training, evaluation and export.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from ..envs.batch import GatewayBatch

SAMPLE_TICKS: Final = 240
"""Ticks of every environment that the figures are taken from."""
CHANGE_SHARE: Final = 0.2
"""Share of ticks in which each head makes a step, up or down alike: a slow walk."""
LEAST_SPREAD: Final = 0.02
"""Spread below which an entry counts as constant and is only shifted."""
CLIP: Final = 5.0
"""Spreads beyond which an entry is cut off: what was never seen must not dominate."""


class Standardiser(BaseFeaturesExtractor):
    """`clip((x - mean) / spread, -5, 5)` with frozen figures; the identity until they are set."""

    mean: torch.Tensor
    spread: torch.Tensor

    def __init__(self, observation_space: spaces.Box, entries: int, features_dim: int) -> None:
        """Makes room for the figures of every entry.

        Args:
            observation_space: Of the observations.
            entries: How many of it are standardised.
            features_dim: Features that a subclass makes of all.
        """
        super().__init__(observation_space, features_dim)
        self.register_buffer("mean", torch.zeros(entries))
        self.register_buffer("spread", torch.ones(entries))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Standardises `(n, D)`."""
        return torch.clamp((observations - self.mean) / self.spread, -CLIP, CLIP)


def observation_figures(
    batch: GatewayBatch, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and spread of every entry under a slow random walk over the settings.

    Args:
        batch: The training environments; their episodes are over afterwards.
        seed: Of the walk and of its episodes.

    Returns:
        Each `(D,)`; the spread of a constant entry is 1.
    """
    rng = np.random.default_rng(seed)
    n = batch.n_envs

    def begin(rows: NDArray[np.intp]) -> NDArray[np.float32]:
        seeds = rng.integers(0, 1 << 62, len(rows))
        workloads = rng.integers(0, batch.n_workloads, len(rows))
        return batch.reset(rows, seeds=seeds, workloads=workloads)

    seen = [begin(np.arange(n))]
    for _ in range(SAMPLE_TICKS):
        step = batch.step(walk_actions(rng, n))
        seen.append(step.observation)
        if step.truncated.any():
            begin(np.flatnonzero(step.truncated))
    entries = np.concatenate(seen)
    spread = entries.std(axis=0)
    spread[spread < LEAST_SPREAD] = 1.0
    return entries.mean(axis=0), spread


def walk_actions(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    """The walk's next actions of n gateways, `(n, 2)`."""
    weights = [CHANGE_SHARE / 2, 1 - CHANGE_SHARE, CHANGE_SHARE / 2]
    return rng.choice(3, size=(n, 2), p=weights)


def set_figures(policy: BasePolicy, mean: NDArray[np.float32], spread: NDArray[np.float32]) -> None:
    """Writes the figures into every standardiser of a network; DQN has one in each of its two."""
    for module in policy.modules():
        if isinstance(module, Standardiser):
            module.mean.copy_(torch.as_tensor(mean))
            module.spread.copy_(torch.as_tensor(spread))
