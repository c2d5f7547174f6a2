"""All that a learner needs to go on exactly where it was, as tensors and plain values in a file."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from stable_baselines3 import DQN, PPO

from .sb3_vec_env import GatewayVecEnv

CHECKPOINT_FORMAT: Final = 1
"""Version of the file's layout."""
_REPLAY_ARRAYS: Final = (
    "observations",
    "next_observations",
    "actions",
    "rewards",
    "dones",
    "timeouts",
)


class CheckpointError(ValueError):
    """A checkpoint that cannot be used, in one line."""


def save_checkpoint(path: Path, model: PPO | DQN, progress: dict[str, Any]) -> None:
    """Writes a checkpoint; a kill while writing leaves the one before it.

    Call it between two rollouts, when nothing is half collected.

    Args:
        path: Where to.
        model: The learner.
        progress: The training's own values: numbers, texts and tensors, lists and dicts of them.
    """
    content = {
        "format": CHECKPOINT_FORMAT,
        "policy": model.policy.state_dict(),
        "optimizer": model.policy.optimizer.state_dict(),
        "counters": {
            "num_timesteps": model.num_timesteps,
            "n_updates": model._n_updates,
            "progress_remaining": model._current_progress_remaining,
        },
        "episode_starts": torch.from_numpy(np.asarray(model._last_episode_starts, dtype=bool)),
        "environment": {k: torch.from_numpy(v) for k, v in _environment(model).state().items()},
        "random": _random_states(),
        "progress": progress,
    }
    if isinstance(model, DQN):
        content["replay"] = _replay(model)
    partial = path.with_suffix(".partial")
    torch.save(content, partial)
    os.replace(partial, path)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Reads a checkpoint; nothing in the file is executed.

    Raises:
        CheckpointError: There is none, or the file is damaged or of another format.
    """
    try:
        content = torch.load(path, weights_only=True)
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: no checkpoint was written") from error
    except Exception as error:  # the unpickler of a damaged file raises anything
        raise CheckpointError(f"{path}: not a readable checkpoint") from error
    if not isinstance(content, dict) or content.get("format") != CHECKPOINT_FORMAT:
        raise CheckpointError(f"{path}: not a checkpoint of format {CHECKPOINT_FORMAT}")
    return content


def restore(model: PPO | DQN, content: dict[str, Any]) -> None:
    """Puts a fresh learner of the same configuration where the checkpoint was written.

    Args:
        model: The learner; its environment is replayed to the saved tick.
        content: What `load_checkpoint` returned.

    Raises:
        CheckpointError: The checkpoint belongs to another configuration.
    """
    try:
        model.policy.load_state_dict(content["policy"])
        model.policy.optimizer.load_state_dict(content["optimizer"])
    except (RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise CheckpointError(f"checkpoint of another configuration ({reason})") from error
    counters = content["counters"]
    model.num_timesteps = counters["num_timesteps"]
    model._n_updates = counters["n_updates"]
    model._current_progress_remaining = counters["progress_remaining"]
    state = {name: tensor.numpy() for name, tensor in content["environment"].items()}
    model._last_obs = _environment(model).restore(state)
    model._last_episode_starts = content["episode_starts"].numpy()
    if isinstance(model, DQN):
        _restore_replay(model, content["replay"])
    _set_random_states(content["random"])


def _environment(model: PPO | DQN) -> GatewayVecEnv:
    env = model.get_env()
    if not isinstance(env, GatewayVecEnv):
        msg = f"the learner's environment is {type(env).__name__}, expected GatewayVecEnv"
        raise TypeError(msg)
    return env


def _replay(model: DQN) -> dict[str, Any]:
    """The filled part of the replay buffer and DQN's own counters."""
    buffer = model.replay_buffer
    if buffer is None:
        msg = "the learner has no replay buffer"
        raise TypeError(msg)
    filled = buffer.buffer_size if buffer.full else buffer.pos
    arrays = {name: torch.from_numpy(getattr(buffer, name)[:filled]) for name in _REPLAY_ARRAYS}
    return {
        "arrays": arrays,
        "pos": buffer.pos,
        "full": buffer.full,
        "n_calls": model._n_calls,
        "exploration_rate": model.exploration_rate,
    }


def _restore_replay(model: DQN, content: dict[str, Any]) -> None:
    buffer = model.replay_buffer
    if buffer is None:
        msg = "the learner has no replay buffer"
        raise TypeError(msg)
    for name, tensor in content["arrays"].items():
        getattr(buffer, name)[: len(tensor)] = tensor.numpy()
    buffer.pos = content["pos"]
    buffer.full = content["full"]
    model._n_calls = content["n_calls"]
    model.exploration_rate = content["exploration_rate"]


def _random_states() -> dict[str, Any]:
    """The generators that stable-baselines3 draws from: Python's, NumPy's global one, torch's."""
    version, words, gauss = random.getstate()
    numpy_state = np.random.get_state(legacy=False)
    key = numpy_state["state"]["key"].astype(np.int64)
    return {
        "python": [version, list(words), gauss],
        "numpy": {
            "key": torch.from_numpy(key),
            "pos": numpy_state["state"]["pos"],
            "has_gauss": numpy_state["has_gauss"],
            "gauss": numpy_state["gauss"],
        },
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
    }


def _set_random_states(content: dict[str, Any]) -> None:
    version, words, gauss = content["python"]
    random.setstate((version, tuple(words), gauss))
    numpy_state = content["numpy"]
    np.random.set_state(
        (
            "MT19937",
            numpy_state["key"].numpy().astype(np.uint32),
            numpy_state["pos"],
            numpy_state["has_gauss"],
            numpy_state["gauss"],
        )
    )
    torch.set_rng_state(content["torch"])
    if torch.cuda.is_available():
        torch.cuda.set_rng_state_all(content["cuda"])
