"""The acting part of a trained network as ONNX: features, layers and argmax in one graph."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.torch_layers import MlpExtractor
from stable_baselines3.dqn.policies import DQNPolicy

from ...envs.schema.action import ACTION_DIMS
from ..normaliser import CLIP, Standardiser
from .layout import ACTION, BATCH, INPUT, LOGITS, POLICY_FILE, Layout, expected_tensors
from .manifest import Network, Normaliser

OPSET: Final = 17
"""ONNX operator set: everything used here is in it, and every onnxruntime since 1.12 runs it."""

_TRACING_IS_OLD: Final = "You are using the legacy TorchScript|The feature will be removed"


class ActingNetwork(torch.nn.Module):
    """What decides: the value network of PPO and the target network of DQN stay behind."""

    def __init__(self, policy: BasePolicy) -> None:
        """Takes a policy apart.

        Args:
            policy: Of stable-baselines3, as `agents.learned_policy` makes it.

        Raises:
            TypeError: Another kind of policy or normaliser.
        """
        super().__init__()
        self.layout: Layout
        self.logits: torch.nn.Module
        if isinstance(policy, ActorCriticPolicy):
            self.layout = "heads"
            normaliser = policy.pi_features_extractor
            self.logits = _Actor(policy.mlp_extractor, policy.action_net)
        elif isinstance(policy, DQNPolicy):
            self.layout = "table"
            normaliser = policy.q_net.features_extractor
            self.logits = policy.q_net.q_net
        else:
            msg = f"policy is {type(policy).__name__}, expected one of PPO or DQN"
            raise TypeError(msg)
        if not isinstance(normaliser, Standardiser):
            msg = f"normaliser is {type(normaliser).__name__}, expected Standardiser"
            raise TypeError(msg)
        self.normaliser = normaliser

    @property
    def entries(self) -> int:
        """Observation entries."""
        return len(self.normaliser.mean)

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits and action, `(n, D)` to `(n, 6)` and `(n, 2)`, or `(n, 9)` and `(n,)`."""
        logits = self.logits(self.normaliser(observation))
        if self.layout == "table":
            return logits, logits.argmax(dim=-1)
        heads = torch.split(logits, list(ACTION_DIMS), dim=-1)
        return logits, torch.stack([head.argmax(dim=-1) for head in heads], dim=-1)

    def described(self) -> tuple[Network, Normaliser]:
        """What the manifest says about it."""
        inputs, outputs = expected_tensors(self.layout, self.entries)
        normaliser = Normaliser(
            mean=tuple(self.normaliser.mean.tolist()),
            spread=tuple(self.normaliser.spread.tolist()),
            clip=CLIP,
        )
        return Network(OPSET, self.layout, inputs, outputs), normaliser

    def exact_logits(self, observations: NDArray[np.float32]) -> NDArray[np.float64]:
        """Logits `(n, K)` in double precision: what float32's rounding is measured against."""
        exact = copy.deepcopy(self).double()
        with torch.no_grad():
            logits, _ = exact(torch.from_numpy(observations.astype(np.float64)))
        found: NDArray[np.float64] = logits.numpy()
        return found


class _Actor(torch.nn.Module):
    """PPO's two heads, from features to logits."""

    def __init__(self, layers: MlpExtractor, heads: torch.nn.Module) -> None:
        super().__init__()
        self.layers, self.heads = layers, heads

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.heads(self.layers.forward_actor(features))
        return logits


def to_onnx(network: ActingNetwork) -> bytes:
    """The network as ONNX, float32, with a free batch axis.

    The exporter that traces (`dynamo=False`) is deprecated, but the other one needs a library more,
    and its graphs change from version to version.
    """
    free = {0: BATCH}
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        path = Path(folder) / POLICY_FILE
        warnings.filterwarnings("ignore", _TRACING_IS_OLD, category=DeprecationWarning)
        torch.onnx.export(
            network.eval(),
            (torch.zeros(2, network.entries),),
            path,
            input_names=[INPUT],
            output_names=[LOGITS, ACTION],
            dynamic_axes={INPUT: free, LOGITS: free, ACTION: free},
            opset_version=OPSET,
            dynamo=False,
        )
        model = onnx.load_from_string(path.read_bytes())
    for node in model.graph.node:
        node.ClearField("doc_string")  # file names and lines of the machine that exports
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    return content
