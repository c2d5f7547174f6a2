"""Networks: they begin by doing as the advisor says.

Where a policy sees advice (`replicas_gap`, `threshold_gap`), the way from the advice to the choice
is laid into the network: each choice of a head gets the share to which the advice asks for it,
times a weight that is learned like all others, besides what the layers make of the whole
observation. So before the first update the policy is the advisor at steps of one, and not a random
walk: learning begins where the best known rule ends (residual policy learning; Silver et al. 2018,
Johannink et al. 2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.distributions import Distribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import create_mlp
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork

from ..envs.schema.action import ACTION_DIMS, DISCRETE_ACTIONS, NO_CHANGE, STEPS
from ..envs.schema.advice import ADVICE_ENTRIES, ADVICE_INDEX, scale_advice
from ..envs.schema.observation import ObservationSpec
from ..envs.schema.settings import THRESHOLD_STEP
from .normaliser import Standardiser

_STEP_SIZES: Final = {"replicas_gap": 1.0, "threshold_gap": THRESHOLD_STEP}
"""What one step of each head is, in the unit of the gap that asks for it; in the heads' order."""
_QUIET: Final = 0.01
"""Factor on the last layer's first weights where advice is followed, as PPO's heads have it: what
is not learned yet does not speak."""
SHARES: Final = sum(ACTION_DIMS)
"""Shares that the advice has in the choices: three a head."""
_CHOICES: Final = [divmod(action, ACTION_DIMS[1]) for action in range(DISCRETE_ACTIONS)]
"""Choice of each head for each of the nine actions."""


class Features(Standardiser):
    """Standardised entries, and the shares of the advice.

    For each head, with g the gap in steps, cut to [-1, 1], the shares are `max(-g, 0), 1 - |g|,
    max(g, 0)`.
    """

    columns: torch.Tensor
    steps: torch.Tensor

    def __init__(self, observation_space: spaces.Box, columns: tuple[int, ...] = ()) -> None:
        """Looks where what stands.

        Args:
            observation_space: Of the entries.
            columns: Entries of the gaps, in the order of the heads; empty: no advice is followed.
        """
        self.shares = SHARES if columns else 0
        entries = int(np.prod(observation_space.shape))
        super().__init__(observation_space, entries, entries + self.shares)
        advice = np.zeros((1, len(ADVICE_ENTRIES)))
        for name, size in _STEP_SIZES.items():
            advice[0, ADVICE_INDEX[name]] = size
        scaled = scale_advice(advice)[0, [ADVICE_INDEX[name] for name in _STEP_SIZES]]
        self.register_buffer("columns", torch.tensor(columns, dtype=torch.int64))
        self.register_buffer("steps", torch.tensor(scaled, dtype=torch.float32))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """`(n, entries)` to `(n, entries + shares)`."""
        standardised = super().forward(observations)
        if not self.shares:
            return standardised
        gaps = torch.clamp(observations[:, self.columns] / self.steps, -1.0, 1.0)
        up, down = torch.relu(gaps), torch.relu(-gaps)
        shares = torch.stack([down, 1.0 - up - down, up], dim=-1).flatten(1)
        return torch.cat([standardised, shares], dim=-1)


def features_kwargs(spec: ObservationSpec, *, follows: bool) -> dict[str, Any]:
    """The arguments of a stable-baselines3 policy that say how it takes in observations.

    Args:
        spec: What it sees.
        follows: Whether it follows advice, where it sees some.
        unseen: Entries that only the critic sees.
    """
    names = _STEP_SIZES if spec.is_advised and follows else ()
    columns = tuple(spec.entries.index(name) for name in names)
    return {
        "features_extractor_class": Features,
        "features_extractor_kwargs": {"columns": columns},
    }


class _Layers(torch.nn.Module):
    """Policy layers with the shares laid past them, and value layers."""

    def __init__(
        self, features: Features, net_arch: dict[str, list[int]], kind: type[torch.nn.Module]
    ) -> None:
        super().__init__()
        self._shares = features.shares
        self.latent_dim_pi = net_arch["pi"][-1] + self._shares
        self.latent_dim_vf = net_arch["vf"][-1]
        policy_layers = create_mlp(features.features_dim, -1, net_arch["pi"], kind)
        self.policy_net = torch.nn.Sequential(*policy_layers)
        value_layers = create_mlp(features.features_dim, -1, net_arch["vf"], kind)
        self.value_net = torch.nn.Sequential(*value_layers)

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: torch.Tensor) -> torch.Tensor:
        latent: torch.Tensor = self.policy_net(features)
        shares = features[:, features.shape[1] - self._shares :]
        return torch.cat([latent, shares], dim=-1)

    def forward_critic(self, features: torch.Tensor) -> torch.Tensor:
        value: torch.Tensor = self.value_net(features)
        return value


class GatewayActorCritic(ActorCriticPolicy):
    """PPO's policy."""

    features_extractor: Features
    leans: torch.Tensor | None = None
    """Added to the logits of each environment while experience is collected, `(n_envs, 6)`."""

    def forward(
        self, obs: torch.Tensor, deterministic: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What experience is collected with: actions, values and log-probabilities.

        Args:
            obs: Of all environments, `(n_envs, D)`.
            deterministic: Whether the most probable actions are taken.
        """
        choice, values = self.leaning(obs, self.leans)
        actions = choice.get_actions(deterministic=deterministic)
        return actions, values, choice.log_prob(actions)

    def leaning(
        self, obs: torch.Tensor, leans: torch.Tensor | None
    ) -> tuple[Distribution, torch.Tensor]:
        """The choice between the actions, and the values `(n, 1)`.

        Args:
            obs: Observations, `(n, D)`.
            leans: Added to the logits of each, `(n, 6)`; `None`: nothing is.
        """
        latent_pi, latent_vf = self.mlp_extractor(self.extract_features(obs))
        logits = self.action_net(latent_pi)
        if leans is not None:
            logits = logits + leans
        return self.action_dist.proba_distribution(logits), self.value_net(latent_vf)

    def _build_mlp_extractor(self) -> None:
        layers = _Layers(self.features_extractor, self.net_arch, self.activation_fn)  # type: ignore[arg-type]
        self.mlp_extractor = layers.to(self.device)  # type: ignore[assignment]

    def follow(self, weights: Sequence[float]) -> None:
        """Lets a choice that the advice asks for have a logit higher by its head's weight."""
        shares = self.features_extractor.shares
        last = self.get_submodule("action_net").get_parameter("weight")
        by_choice = torch.tensor(np.repeat(weights, ACTION_DIMS), dtype=last.dtype)
        with torch.no_grad():
            last[:, last.shape[1] - shares :] = torch.diag(by_choice)[:, :shares]

    def heed(self, margin: float) -> None:
        """Adds to the logit of what the advice asks for, in each head."""
        shares = self.features_extractor.shares
        last = self.get_submodule("action_net").get_parameter("weight")
        asked = torch.eye(SHARES, device=last.device)[:, :shares]
        with torch.no_grad():
            last[:, last.shape[1] - shares :] += margin * asked

    def lean_up(self, logit: float) -> None:
        """Adds to the logit of one replica more."""
        bias = self.get_submodule("action_net").get_parameter("bias")
        with torch.no_grad():
            bias[STEPS.index(1)] += logit  # the scaling head's logits come first


class _AdvisedValues(torch.nn.Module):
    """Values of the nine actions, from features: those of the layers and those of the advice."""

    def __init__(self, layers: torch.nn.Module) -> None:
        super().__init__()
        self.layers = layers
        self.advice = torch.nn.Linear(SHARES, DISCRETE_ACTIONS, bias=False)

    def begin_with(self, asked: torch.Tensor, rest: torch.Tensor) -> None:
        """Sets the advice's values, `(9, 6)`, and brings those of the last layer near `rest`."""
        last = [layer for layer in self.layers.modules() if isinstance(layer, torch.nn.Linear)][-1]
        with torch.no_grad():
            self.advice.weight.copy_(asked)
            last.weight.mul_(_QUIET)
            last.bias.mul_(_QUIET).add_(rest)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        values: torch.Tensor = self.layers(features) + self.advice(features[:, -SHARES:])
        return values


class GatewayDQNPolicy(DQNPolicy):
    """DQN's policy."""

    def make_q_net(self) -> QNetwork:
        """A network, online or target."""
        network = super().make_q_net()
        if isinstance(network.features_extractor, Features) and network.features_extractor.shares:
            network.q_net = _AdvisedValues(network.q_net).to(self.device)  # type: ignore[assignment]
        return network

    def follow(self, weights: Sequence[float], no_change: Sequence[float]) -> None:
        """Lets an action be worth more for each head in which it does as the advice asks.

        Args:
            weights: How much more, by head.
            no_change: How much more it is worth to change nothing in a head that has no weight.
        """
        rest = torch.zeros(DISCRETE_ACTIONS)
        for action, choices in enumerate(_CHOICES):
            for head, choice in enumerate(choices):
                if not weights[head] and choice == NO_CHANGE[head]:
                    rest[action] += no_change[head]
        for network in (self.q_net, self.q_net_target):
            if isinstance(network.q_net, _AdvisedValues):
                network.q_net.begin_with(_asked(weights), rest)

    def heed(self, margin: float) -> None:
        """Adds to the value of an action for each head in which it does as the advice asks."""
        if isinstance(self.q_net.q_net, _AdvisedValues):
            weight = self.q_net.q_net.advice.weight
            with torch.no_grad():
                weight += _asked((margin, margin)).to(weight.device)


def _asked(weights: Sequence[float]) -> torch.Tensor:
    """Of each action, `(9, 6)`: the head's weight where the advice may ask for its choice."""
    asked = torch.zeros(DISCRETE_ACTIONS, SHARES)
    for action, choices in enumerate(_CHOICES):
        for head, choice in enumerate(choices):
            asked[action, sum(ACTION_DIMS[:head]) + choice] = weights[head]
    return asked
