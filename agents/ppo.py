"""PPO over `MultiDiscrete([3, 3])`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.utils import LinearSchedule

from ..envs.schema.action import ACTION_DIMS, NO_CHANGE
from ..envs.schema.observation import ObservationSpec
from .config import PPOConfig
from .headwise_ppo import HeadwisePPO, TwinRolloutBuffer, twin_leans
from .networks import GatewayActorCritic, features_kwargs
from .sb3_vec_env import GatewayVecEnv


def make_ppo(
    config: PPOConfig, spec: ObservationSpec, env: GatewayVecEnv, *, seed: int, device: str
) -> PPO:
    """A fresh learner.

    Args:
        config: Its hyperparameters.
        spec: What it sees.
        env: Where it learns.
        seed: Of its networks and its exploration.
        device: A torch device.

    Returns:
        The learner; its policy prefers "no change", and follows advice, as far as the configuration
        says.
    """
    model = HeadwisePPO(
        GatewayActorCritic,
        env,
        learning_rate=LinearSchedule(config.learning_rate, config.learning_rate_end, 1.0),
        n_steps=config.n_steps,
        batch_size=config.batch_size,
        n_epochs=config.n_epochs,
        gamma=config.gamma,
        clip_range=config.clip_range,
        ent_coef=config.entropy_coef,
        vf_coef=config.value_coef,
        max_grad_norm=config.max_grad_norm,
        rollout_buffer_class=TwinRolloutBuffer,
        rollout_buffer_kwargs={"twins": config.twins, "lambdas": config.gae_lambda},
        policy_kwargs=policy_kwargs(config, spec),
        seed=seed,
        device=device,
    )
    followed = config.advice_logits if spec.is_advised else (0.0, 0.0)
    model.policy.follow(followed)
    if any(config.twin_leans):
        model.policy.leans = twin_leans(env.num_envs, config.twin_leans).to(model.device)
    biases = [0.0 if f else bias for f, bias in zip(followed, config.no_change_bias, strict=True)]
    _prefer_no_change(model.policy.action_net, biases)
    return model


def policy_kwargs(config: PPOConfig, spec: ObservationSpec) -> dict[str, Any]:
    """The arguments of the network that a file of weights does not say.

    Fused Adam takes a sixth off a gradient step of networks this small.
    """
    layers = list(config.hidden)
    return {
        "net_arch": {"pi": layers, "vf": layers},
        "optimizer_kwargs": {"fused": True},
        **features_kwargs(spec, follows=any(config.advice_logits)),
    }


def _prefer_no_change(action_net: torch.nn.Module, biases: Sequence[float]) -> None:
    """Adds a bias to the logit of index 1 of each head; the last layer's weights start near 0."""
    logits = action_net.get_parameter("bias")
    first_of_head = [sum(ACTION_DIMS[:head]) for head in range(len(ACTION_DIMS))]
    with torch.no_grad():
        for start, index, bias in zip(first_of_head, NO_CHANGE, biases, strict=True):
            logits[start + index] += bias
