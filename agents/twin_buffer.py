"""Advantages relative to twins: environments that live through the same traffic and faults.

What an episode returns hangs mostly on what its traffic and its faults do. Twins share both, to the
seed, and differ in their choices alone; what is common to them says nothing about a choice and is
taken out (an input-dependent baseline from several rollouts of one input; Mao et al., ICLR 2019).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.buffers import RolloutBuffer


class TwinRolloutBuffer(RolloutBuffer):
    """A rollout buffer whose neighbouring environments are twins."""

    def __init__(self, *args: Any, twins: int, **kwargs: Any) -> None:  # noqa: ANN401
        """Makes room.

        Args:
            *args: Of the parent.
            twins: Environments of one set; they stand side by side.
            **kwargs: Of the parent.
        """
        super().__init__(*args, **kwargs)
        self._twins = twins

    def compute_returns_and_advantage(
        self, last_values: torch.Tensor, dones: NDArray[np.bool_]
    ) -> None:
        """Generalised advantages less the mean of each set of twins; returns are as they were.

        Args:
            last_values: Of the states after the last step, `(n,)`.
            dones: Which episodes ended with it, `(n,)`.
        """
        super().compute_returns_and_advantage(last_values, dones)
        if self._twins > 1:
            sets = self.advantages.reshape(self.buffer_size, -1, self._twins)
            common = sets.mean(axis=2, keepdims=True)
            self.advantages = (sets - common).reshape(self.advantages.shape)
