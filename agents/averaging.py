"""The mean of a training's recent weights: what is validated, kept and exported.

A single set of weights is a random draw around what is learned: it changes with every rollout, and
the most probable action changes with it. The mean over the last part of the training varies less
and decides better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import torch
from stable_baselines3.common.policies import BasePolicy

_SHARE: Final = 5.0
"""The mean reaches about a fifth of the training so far back: weight 5 / (n + 4) for the n-th set
(polynomial-decay averaging, Shamir & Zhang, ICML 2013, with eta = 4). A fixed horizon would hold
the untrained weights for long, or be short at the end."""


@contextmanager
def weights_put_back(policy: BasePolicy) -> Iterator[None]:
    """Whatever the block does to a policy's weights, its own are back after it."""
    weights: dict[str, torch.Tensor] = policy.state_dict()
    own = {name: value.detach().clone() for name, value in weights.items()}
    try:
        yield
    finally:
        policy.load_state_dict(own)


class AveragedWeights:
    """The mean, and its place in a policy for the time of a block."""

    def __init__(self) -> None:
        """Starts empty."""
        self.updates = 0
        self.mean: dict[str, torch.Tensor] = {}

    def update(self, policy: BasePolicy) -> None:
        """Takes a policy's present weights in."""
        self.updates += 1
        weight = _SHARE / (self.updates + _SHARE - 1)
        with torch.no_grad():
            for name, value in policy.state_dict().items():
                if name not in self.mean:
                    self.mean[name] = value.detach().clone()
                elif value.is_floating_point():
                    self.mean[name].lerp_(value, weight)

    @contextmanager
    def placed_in(self, policy: BasePolicy) -> Iterator[None]:
        """Puts the mean into the policy for the time of the block, then its own weights back."""
        with weights_put_back(policy):
            policy.load_state_dict(self.mean)
            yield

    def state(self) -> dict[str, object]:
        """All of it, for a checkpoint."""
        return {"updates": self.updates, "mean": dict(self.mean)}

    def restore(self, updates: int, mean: Mapping[str, torch.Tensor]) -> None:
        """Goes on where another one was saved."""
        self.updates = updates
        self.mean = {name: value.clone() for name, value in mean.items()}
