"""Many gateways as a Gymnasium vector environment, stepped in one call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from .batch import BatchStep
from .gateway_env import (
    MakeAdvisor,
    action_space,
    gymnasium_errors,
    make_batch,
    observation_space,
)
from .reward_fn import RewardFn
from .scenario import Scenario
from .schema.observation import Preset

Observations = NDArray[np.float32]
Actions = NDArray[np.int64]
Flags = NDArray[np.bool_]


class GatewayVectorEnv(VectorEnv[Observations, Actions, Any]):
    """Gateways of one scenario; row i equals a `GatewayEnv` with the same seed, to the bit.

    An episode that was truncated starts anew by itself: with `NEXT_STEP` (Gymnasium's default) in
    the following call, whose action is ignored; with `SAME_STEP` at once, the last observation
    being in `info["final_obs"]`; with `DISABLED` only by `reset(options={"reset_mask": ...})`.
    """

    def __init__(  # noqa: PLR0913
        self,
        num_envs: int = 1,
        scenario: Scenario | str | Path = "demo",
        reward_fn: RewardFn | str = "gatepilot.reward.documented:default_reward",
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        observation: Preset = "extended",
        frame_stack: int = 1,
        advisor: MakeAdvisor | str = "gatepilot.agents.scenario_advisor:scenario_advisor",
        split: str | None = "train",
        episode_ticks: int | None = None,
        traces_dir: str | Path | None = None,
        requests_seed: int = 0,
    ) -> None:
        """Builds the gateways; the arguments are those of `GatewayEnv`."""
        self.batch = make_batch(
            scenario,
            num_envs,
            reward_fn,
            observation=observation,
            frame_stack=frame_stack,
            advisor=advisor,
            split=split,
            episode_ticks=episode_ticks,
            traces_dir=traces_dir,
            requests_seed=requests_seed,
        )
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": [], "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = observation_space(self.batch.observation_spec)
        self.single_action_space = action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._generators = [np.random.default_rng() for _ in range(num_envs)]
        self._ended: Flags = np.zeros(num_envs, np.bool_)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observations, dict[str, Any]]:
        """Starts episodes.

        Args:
            seed: One for each env, or one from which env i takes `seed + i` (Gymnasium's rule).
            options: `reset_mask`, `(num_envs,)` of bool: which envs, all without it; `start_s`,
                `(num_envs,)` or one number: where in the split episodes begin, in seconds.

        Raises:
            ValueError: Not one seed, flag or start for each env, or an episode does not fit.
            ResetNeeded: The first reset leaves envs out.
        """
        options = options or {}
        mask = np.asarray(options.get("reset_mask", np.ones(self.num_envs, np.bool_)))
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            msg = f"reset_mask is {options['reset_mask']!r}, expected {self.num_envs} flags"
            raise ValueError(msg)
        starts_s = None
        if options.get("start_s") is not None:
            starts_s = np.broadcast_to(np.asarray(options["start_s"], float), self.num_envs)
        for i, one in enumerate(_seed_of_each(seed, self.num_envs)):
            if one is not None:
                self._generators[i] = np.random.default_rng(one)
        return self._restart(mask, starts_s), {}

    def step(
        self, actions: Actions
    ) -> tuple[Observations, NDArray[np.float64], Flags, Flags, dict[str, Any]]:
        """Runs one control interval of every env.

        Raises:
            ValueError: An episode is over and autoreset is disabled.
            ResetNeeded: There was no reset yet.
        """
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            msg = "an episode is over: reset it with options={'reset_mask': ...}"
            raise ValueError(msg)
        with gymnasium_errors():
            step = self.batch.step(np.asarray(actions))
        observations, reward, truncated = step.observation, step.reward, step.truncated
        restarting = self._ended
        if self.autoreset_mode is AutoresetMode.NEXT_STEP and restarting.any():
            observations = self._restart(restarting)
            reward = np.where(restarting, 0.0, reward)
            truncated = truncated & ~restarting
        infos = _infos(step, ~restarting)
        if self.autoreset_mode is AutoresetMode.SAME_STEP and truncated.any():
            infos["final_obs"] = _objects(observations, truncated)
            infos["_final_obs"] = truncated
            infos["final_info"] = _infos(step, truncated)
            infos["_final_info"] = truncated
            observations = self._restart(truncated)
        else:
            self._ended = truncated
        return observations, reward, np.zeros(self.num_envs, np.bool_), truncated, infos

    def _restart(self, mask: Flags, starts_s: NDArray[np.float64] | None = None) -> Observations:
        """Starts the episodes of some envs, each from its own generator; all observations."""
        rows = np.flatnonzero(mask)
        seeds = np.array([self._generators[i].integers(0, 1 << 62) for i in rows], np.int64)
        with gymnasium_errors():
            observations = self.batch.reset(
                rows, seeds=seeds, starts_s=None if starts_s is None else starts_s[rows]
            )
        self._ended = self._ended & ~mask
        return observations


def _seed_of_each(
    seed: int | Sequence[int | None] | None, n: int
) -> Sequence[int | None] | NDArray[np.int64]:
    if seed is None:
        return [None] * n
    if isinstance(seed, (int, np.integer)):
        return [int(seed) + i for i in range(n)]
    if len(seed) != n:
        msg = f"{len(seed)} seeds for {n} envs"
        raise ValueError(msg)
    return seed


def _infos(step: BatchStep, mask: Flags) -> dict[str, Any]:
    """The tick's info in Gymnasium's form: an array and a mask `_name` for each name."""
    infos: dict[str, Any] = {}
    parts = {f"reward_{name}": values for name, values in step.parts.items()}
    for name, values in {**step.info, **parts}.items():
        infos[name] = np.where(mask, values, np.zeros((), values.dtype))
        infos[f"_{name}"] = mask.copy()
    return infos


def _objects(observations: Observations, mask: Flags) -> NDArray[np.object_]:
    """The observations of some rows as an array of arrays, `None` elsewhere."""
    rows = np.full(len(mask), None, dtype=object)
    for i in np.flatnonzero(mask):
        rows[i] = observations[i].copy()
    return rows
