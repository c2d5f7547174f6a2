"""The batched gateway as a stable-baselines3 `VecEnv`, restorable at any tick.

It stands here and not in `envs` because stable-baselines3 drags in torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvStepReturn

from ..envs.batch import BatchStep, GatewayBatch
from ..envs.schema.action import ACTION_DIMS, DISCRETE_ACTIONS, NO_CHANGE, from_discrete
from ..envs.schema.settings import THRESHOLD_STEP
from .learning_aids import threshold_rest
from .rollout_statistics import RolloutStatistics


class GatewayVecEnv(VecEnv):
    """All gateways of a `GatewayBatch`, with same-step autoreset.

    When an episode is truncated, the returned observation is already the next episode's first one;
    the last one of the old episode stands in `info["terminal_observation"]` and
    `info["TimeLimit.truncated"]` is true, so that learners bootstrap instead of taking the end for
    a failure.

    **Seeds.** Episode k of environment i runs under a seed derived from `(seed, i, k)` alone. The
    state of the plant is therefore given by the episodes' numbers and the actions since their
    start; `state` holds those, and `restore` replays them (at most one episode, a second or two),
    bit for bit.

    **Staggering.** First episodes are cut to lengths spread evenly over `episode_ticks`: otherwise
    all environments would always be in the same part of an episode, and every update would see that
    part alone.
    """

    def __init__(
        self,
        batch: GatewayBatch,
        *,
        seed: int,
        flat_actions: bool = False,
        reward_scale: float = 1.0,
        rest_weight: float = 0.0,
        twins: int = 1,
    ) -> None:
        """Wraps a batch.

        Args:
            batch: The gateways; nobody else may step them.
            seed: Where every episode's seed comes from.
            flat_actions: Take one index of the table of nine (DQN) instead of two heads.
            reward_scale: Factor on the returned reward; statistics stay unscaled.
            rest_weight: Price of a threshold away from its start (`learning_aids`); no statistics
                contain it.
            twins: Neighbouring environments that live through the same episodes: same traffic,
                same faults, same seeds; divides the number of environments.
        """
        self.batch = batch
        self._sets = np.arange(batch.n_envs) // twins
        self.statistics = RolloutStatistics(batch.n_envs)
        self._seed = seed
        self._flat_actions = flat_actions
        self._reward_scale = reward_scale
        self._rest_weight = rest_weight
        self._starts: Sequence[NDArray[np.float64]] | None = None
        self._pending = np.full((batch.n_envs, len(ACTION_DIMS)), NO_CHANGE)
        self._episodes = np.full(batch.n_envs, -1, dtype=np.int64)
        self._ages = np.zeros(batch.n_envs, dtype=np.int64)
        self._lengths = np.full(batch.n_envs, batch.episode_ticks, dtype=np.int64)
        self._actions = np.zeros((batch.episode_ticks, batch.n_envs, len(ACTION_DIMS)), np.int8)
        spec = batch.observation_spec
        action_space: spaces.Space[Any] = (
            spaces.Discrete(DISCRETE_ACTIONS)
            if flat_actions
            else spaces.MultiDiscrete(list(ACTION_DIMS))
        )
        super().__init__(batch.n_envs, spaces.Box(spec.low, spec.high), action_space)

    def begin_only_at(self, starts: Sequence[NDArray[np.float64]]) -> None:
        """Lets episodes begin only at these places; without it, anywhere in any workload.

        Args:
            starts: One list a scenario, of shape `(k, 2)`: index of the workload, start in it in
                seconds. Each environment goes through the scenarios one after the other.
        """
        self._starts = starts

    def reset(self) -> NDArray[np.float32]:
        """Starts a new episode in every environment; the first ones are staggered."""
        n = self.num_envs
        if (self._episodes < 0).all():
            self._lengths = -(-(self._sets + 1) * self.batch.episode_ticks // (self._sets[-1] + 1))
        else:
            self._lengths[:] = self.batch.episode_ticks
        self.statistics.restart()
        return self._start_episodes(np.arange(n))

    def step_async(self, actions: NDArray[Any]) -> None:
        """Takes the actions of the next tick."""
        self._pending = from_discrete(actions) if self._flat_actions else np.asarray(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Runs a tick; truncated environments are already in their next episode."""
        actions = self._pending
        self._actions[self._ages, np.arange(self.num_envs)] = actions
        step = self.batch.step(actions)
        self._ages += 1
        self._count(step, actions)
        observation = step.observation
        rest = threshold_rest(
            self.batch.truth, self.batch.rest_threshold_steps, weight=self._rest_weight
        )
        reward = step.reward + rest
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        done = step.truncated | (self._ages >= self._lengths)
        if done.any():
            rows = np.flatnonzero(done)
            for row in rows:
                infos[row]["terminal_observation"] = observation[row].copy()
                infos[row]["TimeLimit.truncated"] = True
            complete = self._ages[rows] >= self.batch.episode_ticks
            self.statistics.finish(rows, complete=complete)
            self._lengths[rows] = self.batch.episode_ticks
            observation = self._start_episodes(rows)
        return observation, (reward * self._reward_scale).astype(np.float32), done, infos

    def state(self) -> dict[str, NDArray[Any]]:
        """What `restore` needs: numbers, ages, lengths and actions of the running episodes."""
        return {
            "episodes": self._episodes.copy(),
            "ages": self._ages.copy(),
            "lengths": self._lengths.copy(),
            "actions": self._actions[: int(self._ages.max())].copy(),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Brings a new environment to a saved state by replaying the running episodes.

        Args:
            state: What `state` returned, of the same scenario, seed and number of environments.

        Returns:
            The observations at that state.
        """
        self._episodes[:] = state["episodes"] - 1
        self._lengths[:] = state["lengths"]
        ages = np.asarray(state["ages"])
        longest = int(ages.max())
        self._actions[:longest] = state["actions"]
        observation = self._start_episodes(np.arange(self.num_envs))
        for tick in range(longest):
            began = longest - ages
            late = np.flatnonzero((began == tick) & (began > 0))
            if late.size:
                self._episodes[late] -= 1
                self._start_episodes(late)
            running = np.flatnonzero(began <= tick)
            actions = np.full((self.num_envs, len(ACTION_DIMS)), NO_CHANGE)
            actions[running] = self._actions[tick - began[running], running]
            observation = self.batch.step(actions).observation
        fresh = np.flatnonzero(ages == 0)
        if longest and fresh.size:
            self._episodes[fresh] -= 1
            observation = self._start_episodes(fresh)
        self._ages[:] = ages
        self.statistics.restart()
        return observation

    def _start_episodes(self, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        self._episodes[rows] += 1
        self._ages[rows] = 0
        words = np.array([self._words(int(row)) for row in rows])
        seeds, chosen = words[:, 0], words[:, 1]
        starts_s = None
        if self._starts is None:
            workloads = chosen % self.batch.n_workloads
        else:
            turns = (self._sets[rows] + self._episodes[rows]) % len(self._starts)
            lists = [self._starts[turn] for turn in turns]
            drawn = np.array(
                [one[word % len(one)] for one, word in zip(lists, chosen, strict=True)]
            )
            workloads, starts_s = drawn[:, 0].astype(np.int64), drawn[:, 1]
        return self.batch.reset(rows, seeds=seeds, workloads=workloads, starts_s=starts_s)

    def _words(self, row: int) -> NDArray[np.int64]:
        """The numbers that decide about an environment's episode: its seed, its workload."""
        words = (self._seed, int(self._sets[row]), int(self._episodes[row]))
        sequence = np.random.SeedSequence(words)
        return (sequence.generate_state(2, np.uint64) >> np.uint64(1)).astype(np.int64)

    def _count(self, step: BatchStep, actions: NDArray[Any]) -> None:
        distance = np.abs(self.batch.threshold_steps - self.batch.rest_threshold_steps)
        self.statistics.add(
            step.reward,
            {
                "violation_rate": step.info["violation"],
                "replicas": self.batch.replicas,
                "threshold_distance": distance * THRESHOLD_STEP,
                "scale_change_rate": actions[:, 0] != NO_CHANGE[0],
                "threshold_change_rate": actions[:, 1] != NO_CHANGE[1],
            },
        )

    def close(self) -> None:
        """Nothing is held open."""

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """The batch's attribute, once for each environment; there is nothing to render."""
        value = None if attr_name == "render_mode" else getattr(self.batch, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: object, indices: VecEnvIndices = None) -> None:
        """Refused: environments of a batch have no attributes of their own.

        Raises:
            AttributeError: Always.
        """
        msg = f"{attr_name}: the environments of a batch have no attributes of their own"
        raise AttributeError(msg)

    def env_method(
        self,
        method_name: str,
        *method_args: object,
        indices: VecEnvIndices = None,
        **method_kwargs: object,
    ) -> list[Any]:
        """Refused: environments of a batch have no methods of their own.

        Raises:
            AttributeError: Always.
        """
        msg = f"{method_name}: the environments of a batch have no methods of their own"
        raise AttributeError(msg)

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """No wrapper stands between."""
        return [False for _ in self._get_indices(indices)]

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Changes nothing: the seed is given at construction, so that a training can be resumed.

        Args:
            seed: Ignored; stable-baselines3 passes the training's seed, which is the same.
        """
        return [self._seed for _ in range(self.num_envs)]

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """There is nothing to see."""
        return [None for _ in range(self.num_envs)]
