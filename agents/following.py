"""Networks that begin by doing as the advisor says, and learn where to depart from it.

Where a policy sees advice (`replicas_gap`, `threshold_gap`), the way from the advice to the choice
is laid into the network: each choice of a head gets the share to which the advice asks for it,
times a weight that is learned like all others, besides what the layers make of the whole
observation. So before the first update the policy is the advisor at steps of one, and not a random
walk: learning begins where the best known rule ends (residual policy learning; Silver et al. 2018,
Johannink et al. 2019).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import MlpExtractor
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork

from ..envs.schema.action import ACTION_DIMS, DISCRETE_ACTIONS
from ..envs.schema.advice import ADVICE_ENTRIES, ADVICE_INDEX, scale_advice
from ..envs.schema.observation import ObservationSpec
from ..envs.schema.settings import THRESHOLD_STEP
from .normaliser import Standardiser

_STEP_SIZES: Final = {"replicas_gap": 1.0, "threshold_gap": THRESHOLD_STEP}
"""What one step of each head is, in the unit of the gap that asks for it; in the heads' order."""
SHARES: Final = sum(ACTION_DIMS)
"""Entries that `advised_shares` has: three a head."""


class AdvisedFeatures(Standardiser):
    """Standardised observations, and behind them the share to which the advice asks for a choice.

    For each head, with g the gap in steps, cut to [-1, 1]: `max(-g, 0), 1 - |g|, max(g, 0)`.
    """

    columns: torch.Tensor
    steps: torch.Tensor

    def __init__(self, observation_space: spaces.Box, columns: tuple[int, ...]) -> None:
        """Looks where the gaps stand.

        Args:
            observation_space: Of an advised observation.
            columns: Entries of the gaps, in the order of the heads.
        """
        super().__init__(observation_space, more=SHARES)
        advice = np.zeros((1, len(ADVICE_ENTRIES)))
        for name, size in _STEP_SIZES.items():
            advice[0, ADVICE_INDEX[name]] = size
        scaled = scale_advice(advice)[0, [ADVICE_INDEX[name] for name in _STEP_SIZES]]
        self.register_buffer("columns", torch.tensor(columns))
        self.register_buffer("steps", torch.tensor(scaled, dtype=torch.float32))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """`(n, D)` to `(n, D + 6)`."""
        gaps = torch.clamp(observations[:, self.columns] / self.steps, -1.0, 1.0)
        up, down = torch.relu(gaps), torch.relu(-gaps)
        shares = torch.stack([down, 1.0 - up - down, up], dim=-1).flatten(1)
        return torch.cat([super().forward(observations), shares], dim=-1)


def features(spec: ObservationSpec, weight: float) -> dict[str, Any]:
    """The arguments of a stable-baselines3 policy that say how it takes in observations.

    Args:
        spec: What it sees.
        weight: How much the advice decides at first; 0: it is an entry like the others.
    """
    if not (spec.is_advised and weight > 0):
        return {"features_extractor_class": Standardiser}
    columns = tuple(spec.entries.index(name) for name in _STEP_SIZES)
    return {
        "features_extractor_class": AdvisedFeatures,
        "features_extractor_kwargs": {"columns": columns},
    }


class _Skipping(MlpExtractor):
    """Layers, with the shares laid past those of the policy."""

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401
        super().__init__(*given, **named)
        self.latent_dim_pi += SHARES

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: torch.Tensor) -> torch.Tensor:
        return torch.cat([super().forward_actor(features), features[:, -SHARES:]], dim=-1)


class FollowingActorCritic(ActorCriticPolicy):
    """PPO's policy; `follow` sets how much the advice decides."""

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = _Skipping(
            self.features_dim,
            net_arch=self.net_arch,
            activation_fn=self.activation_fn,
            device=self.device,
        )

    def follow(self, weight: float) -> None:
        """Lets a choice that the advice asks for have a logit higher by the weight."""
        weights = self.get_submodule("action_net").get_parameter("weight")
        with torch.no_grad():
            weights[:, -SHARES:] = weight * torch.eye(SHARES)


class _AdvisedValues(torch.nn.Module):
    """Values of the nine actions, from features: those of the layers and those of the advice."""

    def __init__(self, layers: torch.nn.Module) -> None:
        super().__init__()
        self.layers = layers
        self.advice = torch.nn.Linear(SHARES, DISCRETE_ACTIONS, bias=False)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        values: torch.Tensor = self.layers(features) + self.advice(features[:, -SHARES:])
        return values


class FollowingDQNPolicy(DQNPolicy):
    """DQN's policy; `follow` sets how much the advice decides."""

    def make_q_net(self) -> QNetwork:
        """A network, online or target."""
        network = super().make_q_net()
        network.q_net = _AdvisedValues(network.q_net).to(self.device)  # type: ignore[assignment]
        return network

    def follow(self, weight: float) -> None:
        """Lets an action be worth the weight more for each head in which the advice asks for it."""
        scaling, threshold = ACTION_DIMS
        asked = torch.zeros(DISCRETE_ACTIONS, SHARES)
        for action in range(DISCRETE_ACTIONS):
            asked[action, action // threshold] = weight
            asked[action, scaling + action % threshold] = weight
        with torch.no_grad():
            for network in (self.q_net, self.q_net_target):
                network.get_submodule("q_net.advice").get_parameter("weight").copy_(asked)
