"""DQN over the table of nine actions."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from stable_baselines3 import DQN
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.utils import LinearSchedule

from ..envs.schema.action import DISCRETE_ACTIONS
from ..envs.schema.observation import ObservationSpec
from .config import DQNConfig
from .networks import GatewayDQNPolicy, features_kwargs
from .sb3_vec_env import GatewayVecEnv


class BatchedDQN(DQN):
    """DQN that explores in each environment on its own.

    The parent tosses one coin for all environments, so that either all of them explore or none
    does.
    """

    def _sample_action(
        self, learning_starts: int, action_noise: ActionNoise | None = None, n_envs: int = 1
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        random_actions = np.random.randint(DISCRETE_ACTIONS, size=n_envs)
        if self.num_timesteps < learning_starts:
            return random_actions, random_actions
        explores = np.random.random(n_envs) < self.exploration_rate
        greedy, _ = self.policy.predict(self._last_obs, deterministic=True)  # type: ignore[arg-type]
        actions = np.where(explores, random_actions, greedy)
        return actions, actions


def make_dqn(
    config: DQNConfig, spec: ObservationSpec, env: GatewayVecEnv, *, seed: int, device: str
) -> BatchedDQN:
    """A fresh learner.

    Args:
        config: Its hyperparameters.
        spec: What it sees.
        env: Where it learns; it takes flat actions.
        seed: Of its networks and its exploration.
        device: A torch device.
    """
    model = BatchedDQN(
        GatewayDQNPolicy,
        env,
        learning_rate=LinearSchedule(
            config.learning_rate,
            config.learning_rate if config.learning_rate_end is None else config.learning_rate_end,
            1.0,
        ),
        buffer_size=config.buffer_size,
        learning_starts=config.learning_starts,
        batch_size=config.batch_size,
        gamma=config.gamma,
        n_steps=config.n_steps,
        train_freq=1,
        gradient_steps=config.gradient_steps,
        target_update_interval=max(config.target_update_steps, env.num_envs),
        exploration_initial_eps=config.exploration_start,
        exploration_final_eps=config.exploration_end,
        exploration_fraction=config.exploration_fraction,
        max_grad_norm=config.max_grad_norm,
        policy_kwargs=policy_kwargs(config, spec),
        seed=seed,
        device=device,
    )
    cast(GatewayDQNPolicy, model.policy).follow(config.advice_value, config.no_change_value)
    return model


def policy_kwargs(config: DQNConfig, spec: ObservationSpec) -> dict[str, Any]:
    """The arguments of the network that a file of weights does not say."""
    return {
        "net_arch": list(config.hidden),
        "optimizer_kwargs": {"fused": True},
        **features_kwargs(spec, follows=any(config.advice_value)),
    }
