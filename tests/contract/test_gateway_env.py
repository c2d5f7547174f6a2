"""One gateway as an env: seeds, options, actions."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from gatepilot.envs.gateway_env import GatewayEnv
from gatepilot.envs.schema.observation import Preset
from gatepilot.envs.vector_env import GatewayVectorEnv
from gatepilot.reward.documented import DocumentedReward
from gatepilot.reward.slo import Slo

TICKS = 12


def episode(env: GatewayEnv, seed: int | None, **options: float) -> str:
    """A hash of everything an episode shows."""
    observation, _ = env.reset(seed=seed, options=options or None)
    digest = hashlib.sha256(observation.tobytes())
    rng = np.random.default_rng(0)
    truncated = False
    while not truncated:
        observation, reward, _, truncated, info = env.step(rng.integers(0, 3, 2))
        digest.update(observation.tobytes() + repr((reward, sorted(info.items()))).encode())
    return digest.hexdigest()


def test_the_same_seed_gives_the_same_bytes() -> None:
    env, other = GatewayEnv(episode_ticks=TICKS), GatewayEnv(episode_ticks=TICKS)
    first = episode(env, 3)
    second = episode(env, None)  # the generator goes on
    assert first != second
    assert episode(env, 3) == first
    assert episode(env, None) == second
    assert episode(other, 3) == first
    assert episode(other, 4) not in {first, second}


def test_the_offered_load_follows_its_own_seed() -> None:
    one, other = (GatewayEnv(episode_ticks=TICKS, requests_seed=seed) for seed in (0, 1))
    assert episode(one, 3) != episode(other, 3)


def test_an_episode_may_be_told_where_to_start() -> None:
    env = GatewayEnv(episode_ticks=TICKS)
    drawn = episode(env, 3)
    at_100 = episode(env, 3, start_s=100.0)
    assert at_100 != drawn
    assert episode(env, 3, start_s=100.0) == at_100
    env.reset(seed=3, options={"start_s": 100.0})
    *_, info = env.step(np.array([1, 1]))
    arrivals = env.batch._mixture.requests[0].arrival_s
    assert info["arrived"] == np.sum((arrivals >= 100.0) & (arrivals < 115.0))


@pytest.mark.parametrize("preset", ["extended", "advised"])
def test_a_row_of_the_vector_env_equals_the_scalar_env(preset: Preset) -> None:
    """Seed s gives row i the seed s + i, and each row's generator goes on by itself."""
    envs = GatewayVectorEnv(3, observation=preset, episode_ticks=4, autoreset_mode="SameStep")
    scalars = [GatewayEnv(observation=preset, episode_ticks=4) for _ in range(3)]
    observations, _ = envs.reset(seed=10)
    for i, env in enumerate(scalars):
        observation, _ = env.reset(seed=10 + i)
        assert observation.tobytes() == observations[i].tobytes()
    rng = np.random.default_rng(1)
    for _ in range(10):
        actions = rng.integers(0, 3, (3, 2))
        observations, rewards, _, truncated, infos = envs.step(actions)
        for i, env in enumerate(scalars):
            observation, reward, _, over, info = env.step(actions[i])
            assert reward == rewards[i]
            assert over == truncated[i]
            assert info["arrived"] == infos["arrived"][i]
            if over:
                assert observation.tobytes() == infos["final_obs"][i].tobytes()
                observation, _ = env.reset()
            assert observation.tobytes() == observations[i].tobytes()


@pytest.mark.parametrize("action", [[3, 1], [1, -1], [1], [0.5, 1.0], [np.nan, 1.0], [1, 1, 1]])
def test_an_action_outside_the_table_is_refused(action: list[float]) -> None:
    env = GatewayEnv(episode_ticks=TICKS)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="action"):
        env.step(np.array(action))


class Flat:
    """A reward without parts of the usual names."""

    def __call__(self, before: Any, scale_choice: Any, after: Any) -> dict[str, Any]:  # noqa: ANN401
        return {"one": np.ones(len(after))}

    def violates(self, rows: Any) -> Any:  # noqa: ANN401
        return np.ones(len(rows), np.bool_)


def test_the_reward_may_be_an_object_or_a_name() -> None:
    env = GatewayEnv(reward_fn=Flat(), episode_ticks=TICKS)
    env.reset(seed=0)
    assert env.step(np.array([1, 1]))[1] == 1.0


def test_the_reward_says_what_a_violation_is_whatever_it_costs() -> None:
    for reward, expected in ((Flat(), True), (DocumentedReward(violation_penalty=0.0), None)):
        env = GatewayEnv(reward_fn=reward, episode_ticks=TICKS)
        env.reset(seed=0)
        for _ in range(TICKS):
            info = env.step(np.array([0, 1]))[4]  # one replica is too few
            truth = bool(Slo().violates(env.batch.truth)[0])
            assert info["violation"] == (truth if expected is None else expected)
    assert truth  # it came to that


def test_a_function_that_knows_no_violation_is_no_reward() -> None:
    with pytest.raises(TypeError, match=r"reward_fn .* has no violates\(rows\)"):
        GatewayEnv(reward_fn=lambda *_: {"one": np.ones(1)}, episode_ticks=TICKS)  # type: ignore[arg-type]


def test_a_step_before_the_first_reset_is_refused() -> None:
    with pytest.raises(ResetNeeded, match="gateway 0 was never reset"):
        GatewayEnv(episode_ticks=TICKS).step(np.array([1, 1]))


@pytest.mark.parametrize("start_s", [np.nan, np.inf, -5.0, 1e9])
def test_an_episode_that_does_not_fit_is_refused(start_s: float) -> None:
    env = GatewayEnv(episode_ticks=TICKS)
    with pytest.raises(ValueError, match=r"start_s is .* an episode must fit"):
        env.reset(seed=0, options={"start_s": start_s})
