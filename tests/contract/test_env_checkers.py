"""The registered environment before the checkers of Gymnasium and Stable-Baselines3."""

from __future__ import annotations

import math

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_sb3

import gatepilot.envs.registration  # noqa: F401
from gatepilot.envs.gateway_env import GatewayEnv

ID = "gatepilot/Gateway-v0"


@pytest.mark.parametrize("preset", ["documented", "extended", "advised"])
@pytest.mark.parametrize("frame_stack", [1, 3])
def test_gymnasiums_check_env(preset: str, frame_stack: int) -> None:
    env = gymnasium.make(ID, observation=preset, frame_stack=frame_stack, episode_ticks=20)
    check_env(env.unwrapped)


@pytest.mark.parametrize("preset", ["extended", "advised"])
def test_sb3s_check_env(preset: str) -> None:
    check_env_sb3(gymnasium.make(ID, observation=preset, episode_ticks=20), warn=True)


def test_bare_make() -> None:
    env = gymnasium.make("gatepilot.envs.registration:gatepilot/Gateway-v0")
    assert isinstance(env.unwrapped, GatewayEnv)
    observation, info = env.reset(seed=1)
    assert env.observation_space.contains(observation)
    assert info == {}
    assert env.unwrapped.batch.episode_ticks == 120
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    assert env.observation_space.contains(observation)
    assert isinstance(reward, float)
    assert (terminated, truncated) == (False, False)
    assert reward == pytest.approx(sum(info["reward_parts"].values()))


def test_no_rendering() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        GatewayEnv(render_mode="human")


@pytest.mark.parametrize("preset", ["documented", "extended", "advised"])
def test_every_observation_lies_in_the_space(preset: str) -> None:
    env = gymnasium.make(ID, scenario="demo", observation=preset, frame_stack=2, episode_ticks=60)
    env.action_space.seed(3)
    for seed in range(4):
        observation, _ = env.reset(seed=seed)
        truncated = False
        ticks = 0
        while not truncated:
            assert env.observation_space.contains(observation)
            observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            assert math.isfinite(reward)
            assert not terminated
            ticks += 1
        assert ticks == 60
        assert env.observation_space.contains(observation)


def test_make_vec_gives_the_batched_env() -> None:
    envs = gymnasium.make_vec(ID, num_envs=3, episode_ticks=5)
    observations, _ = envs.reset(seed=0)
    assert envs.observation_space.contains(observations)
    observations, *_ = envs.step(envs.action_space.sample())
    assert envs.observation_space.contains(observations)
