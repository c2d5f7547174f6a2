"""A trained network as a `Policy`: deterministic, without exploration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.save_util import load_from_zip_file

from ..envs.schema.action import ACTION_DIMS, DISCRETE_ACTIONS, from_discrete
from . import dqn, ppo
from .config import TrainingConfig
from .networks import GatewayActorCritic, GatewayDQNPolicy


class LearnedPolicy:
    """The most probable action (PPO), or the one of highest value (DQN)."""

    def __init__(self, network: BasePolicy) -> None:
        """Wraps a network.

        Args:
            network: Of `agents.networks`, over two heads or over the table of nine.
        """
        self.network = network
        self._is_flat = isinstance(network.action_space, spaces.Discrete)

    def act(self, observation: NDArray[np.float32]) -> NDArray[np.int64]:
        """Chooses for n gateways.

        Args:
            observation: Shape `(n, D)`.

        Returns:
            Shape `(n, 2)`: head indices; 1 is "no change".
        """
        actions, _ = self.network.predict(observation, deterministic=True)
        return from_discrete(actions) if self._is_flat else np.asarray(actions, np.int64)


def load_policy(path: Path, config: TrainingConfig) -> LearnedPolicy:
    """Reads the weights of a saved model.

    Only tensors are read: the network is built from the configuration, and the pickled part of the
    file, which could run code, is left alone. It runs on as many threads as in its training.

    Args:
        path: A zip file that stable-baselines3 has saved.
        config: The configuration it was trained with.

    Raises:
        ValueError: The file is not such a model, or was trained with another configuration.
    """
    torch.set_num_threads(config.torch_threads)
    spec = config.observation_spec
    observation_space = spaces.Box(spec.low, spec.high)
    network: BasePolicy
    if config.algo == "ppo":
        network = GatewayActorCritic(
            observation_space,
            spaces.MultiDiscrete(list(ACTION_DIMS)),
            lambda _: 0.0,
            **ppo.policy_kwargs(config.ppo, spec),
        )
    else:
        network = GatewayDQNPolicy(
            observation_space,
            spaces.Discrete(DISCRETE_ACTIONS),
            lambda _: 0.0,
            **dqn.policy_kwargs(config.dqn, spec),
        )
    try:
        _, params, _ = load_from_zip_file(path, device="cpu", load_data=False)
        network.load_state_dict(dict(params["policy"]))
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        reason = " ".join(line.strip() for line in str(error).splitlines()[:3])
        msg = f"{path}: not a model of this configuration ({reason})"
        raise ValueError(msg) from error
    network.set_training_mode(False)
    return LearnedPolicy(network)
