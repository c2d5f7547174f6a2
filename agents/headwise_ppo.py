"""PPO that credits its heads one by one.

What a threshold does shows within a few ticks, what a replica more or less does within a hundred.
One advantage for both either looks too short a way for the one, or brings the other all the
accidents of the way. So each head has advantages of its own `gae_lambda`, on a scale of their own,
and a probability ratio of its own that is clipped (as PPO over factored actions; Schulman et al.
2017, equation 7, head by head). The value network follows the first head's returns.

All advantages are relative to twins: environments that live through the same traffic and faults.
What an episode returns hangs mostly on what these do. Twins share both, to the seed, and differ in
their choices alone; what is common to them says nothing about a choice and is taken out (an
input-dependent baseline from several rollouts of one input; Mao et al., ICLR 2019).

Twins may lean, each its own way: a constant is added to the logits of "one more" of each head and
taken from "one less", so that one twin lives with a replica more for a long time and another with
one less. Chance alone brings a replica more for a tick or two, and what that is worth says little.
The update knows each one's lean, so what is learned is still the policy that does not lean.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.distributions import MultiCategoricalDistribution
from stable_baselines3.common.utils import explained_variance

from ..envs.schema.action import ACTION_DIMS
from .networks import GatewayActorCritic


class TwinRolloutBuffer(RolloutBuffer):
    """A rollout buffer whose neighbouring environments are twins."""

    def __init__(self, *args: Any, twins: int, lambdas: Sequence[float], **kwargs: Any) -> None:  # noqa: ANN401
        """Makes room.

        Args:
            *args: Of the parent.
            twins: Environments of one set; they stand side by side.
            lambdas: `gae_lambda` of each head.
            **kwargs: Of the parent.
        """
        super().__init__(*args, **kwargs)
        self._twins, self._lambdas = twins, tuple(lambdas)
        self.head_advantages = np.zeros((0, 0, len(self._lambdas)), np.float32)
        """`(n_steps, n_envs, heads)`, less what twins have in common."""

    def compute_returns_and_advantage(
        self, last_values: torch.Tensor, dones: NDArray[np.bool_]
    ) -> None:
        """Generalised advantages of every head; returns are those of the first.

        Args:
            last_values: Of the states after the last step, `(n,)`.
            dones: Which episodes ended with it, `(n,)`.
        """
        found = []
        for gae_lambda in reversed(self._lambdas):  # the first head's returns stay
            self.gae_lambda = gae_lambda
            super().compute_returns_and_advantage(last_values, dones)
            sets = self.advantages.reshape(self.buffer_size, -1, self._twins)
            common = sets.mean(axis=2, keepdims=True) if self._twins > 1 else 0.0
            found.append((sets - common).reshape(self.advantages.shape))
        self.head_advantages = np.stack(found[::-1], axis=-1)


def twin_leans(n_envs: int, logits: tuple[float, float]) -> torch.Tensor:
    """What each environment's logits are changed by, `(n_envs, 6)`: all four ways in four twins.

    Args:
        n_envs: Environments; a multiple of 4.
        logits: Of the scaling head and of the threshold head.
    """
    ways = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=2))) * torch.tensor(logits)
    up = ways.repeat(n_envs // len(ways), 1)
    return torch.stack([-up, torch.zeros_like(up), up], dim=-1).flatten(1)


class HeadwisePPO(PPO):
    """PPO over two heads, each with advantages and a clipped ratio of its own."""

    policy: GatewayActorCritic

    def train(self) -> None:
        """Updates the policy from the rollout that has just been collected."""
        policy, buffer = self.policy, self.rollout_buffer
        if not isinstance(buffer, TwinRolloutBuffer):
            msg = f"the rollout buffer is {type(buffer).__name__}, expected TwinRolloutBuffer"
            raise TypeError(msg)
        policy.set_training_mode(True)
        self._update_learning_rate(policy.optimizer)
        clip = self.clip_range(self._current_progress_remaining)  # type: ignore[operator]
        seen = self._flat(buffer.observations)
        actions, advantages = self._flat(buffer.actions), self._flat(buffer.head_advantages)
        returns = self._flat(buffer.returns)
        leans = policy.leans
        if leans is None:
            leans = torch.zeros(1, sum(ACTION_DIMS), device=self.device)
        leans = leans.repeat(len(seen) // len(leans), 1)  # environments side by side, tick by tick
        with torch.no_grad():
            before = self._evaluated(seen, actions, leans)[0]
        figures: dict[str, list[torch.Tensor]] = {}
        for _ in range(self.n_epochs):
            order = np.random.permutation(len(seen))
            for start in range(0, len(seen), self.batch_size):
                rows = torch.from_numpy(order[start : start + self.batch_size])
                log_probs, entropy, values = self._evaluated(seen[rows], actions[rows], leans[rows])
                gained = advantages[rows]
                gained = (gained - gained.mean(dim=0)) / (gained.std(dim=0) + 1e-8)
                log_ratio = log_probs - before[rows]
                ratio = torch.exp(log_ratio)
                bounded = torch.clamp(ratio, 1 - clip, 1 + clip)
                policy_loss = -torch.min(gained * ratio, gained * bounded).mean(dim=0).sum()
                value_loss = torch.nn.functional.mse_loss(returns[rows], values)
                loss = policy_loss - self.ent_coef * entropy.mean() + self.vf_coef * value_loss
                policy.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(policy.parameters(), self.max_grad_norm)
                policy.optimizer.step()
                with torch.no_grad():
                    for name, value in (
                        ("loss", loss),
                        ("policy_gradient_loss", policy_loss),
                        ("value_loss", value_loss),
                        ("entropy_loss", -entropy.mean()),
                        ("approx_kl", ((ratio - 1) - log_ratio).sum(dim=1).mean()),
                        ("clip_fraction", (torch.abs(ratio - 1) > clip).float().mean()),
                    ):
                        figures.setdefault(name, []).append(value.detach())
        self._n_updates += self.n_epochs
        for name, found in figures.items():
            self.logger.record(f"train/{name}", torch.stack(found).mean().item())
        explained = explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        self.logger.record("train/explained_variance", float(explained))

    def _evaluated(
        self, seen: torch.Tensor, actions: torch.Tensor, leans: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Log-probabilities by head `(n, heads)`, entropies `(n,)` and values `(n,)`."""
        choice, values = self.policy.leaning(seen, leans)
        heads = cast(MultiCategoricalDistribution, choice).distribution
        log_probs = [head.log_prob(actions[:, i]) for i, head in enumerate(heads)]  # type: ignore[no-untyped-call]
        entropy = torch.stack([head.entropy() for head in heads]).sum(dim=0)  # type: ignore[no-untyped-call]
        return torch.stack(log_probs, dim=1), entropy, values.flatten()

    def _flat(self, array: NDArray[np.float32]) -> torch.Tensor:
        """`(n_steps, n_envs, ...)` to `(n_steps * n_envs, ...)`, on the learner's device."""
        return torch.from_numpy(array.reshape(-1, *array.shape[2:])).to(self.device)
