"""An episode that is cut off is no failure: learners bootstrap from its last observation."""

from typing import Any, cast

import numpy as np
import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger

from gatepilot.agents.config import DQNConfig, PPOConfig
from gatepilot.agents.dqn import make_dqn
from gatepilot.agents.nudges import Nudge, nudged
from gatepilot.agents.ppo import make_ppo
from gatepilot.agents.sb3_vec_env import GatewayVecEnv
from gatepilot.envs.batch import GatewayBatch
from gatepilot.envs.schema.observation import ObservationSpec

from .fake_batch import FakeBatch

N, TICKS = 2, 4
SPEC = ObservationSpec("documented")


def environment(*, flat_actions: bool = False) -> GatewayVecEnv:
    return GatewayVecEnv(cast(GatewayBatch, FakeBatch(N, TICKS)), seed=0, flat_actions=flat_actions)


class Rollout(BaseCallback):
    """Keeps what the environment returned at each step."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[np.ndarray, list[dict[str, np.ndarray]]]] = []

    def _on_step(self) -> bool:
        self.steps.append((self.locals["dones"].copy(), list(self.locals["infos"])))
        return True


def test_ppo_adds_the_discounted_value_of_the_terminal_observation() -> None:
    config = PPOConfig(n_steps=8, batch_size=16, n_epochs=1, gamma=0.9)
    model = make_ppo(config, SPEC, environment(), seed=0, device="cpu")
    model.set_logger(Logger(None, []))
    seen = Rollout()
    _, callback = model._setup_learn(16, seen)
    env = model.get_env()
    assert env is not None
    model.collect_rollouts(env, callback, model.rollout_buffer, n_rollout_steps=8)
    truncated = 0
    for tick, (dones, infos) in enumerate(seen.steps):
        for row in range(N):
            expected = 1.0
            if dones[row]:
                truncated += 1
                last = torch.as_tensor(infos[row]["terminal_observation"]).unsqueeze(0)
                expected += 0.9 * model.policy.predict_values(last).item()
            assert model.rollout_buffer.rewards[tick, row] == pytest.approx(expected, rel=1e-5)
    assert truncated == 4  # ticks 2 and 6 of the one, 4 and 8 of the other


def test_dqn_stores_truncations_as_no_end_with_the_terminal_observation() -> None:
    config = DQNConfig(learning_starts=0, batch_size=4, buffer_size=100)
    model = make_dqn(config, SPEC, environment(flat_actions=True), seed=0, device="cpu")
    model.set_logger(Logger(None, []))
    seen = Rollout()
    model.learn(16, callback=seen, log_interval=1000)
    buffer = model.replay_buffer
    assert buffer is not None
    for tick, (dones, infos) in enumerate(seen.steps):
        assert buffer.dones[tick].tolist() == dones.tolist()
        assert buffer.timeouts[tick].tolist() == dones.tolist()  # no transition ends the task
        for row in np.flatnonzero(dones):
            kept = buffer.next_observations[tick, row]
            assert kept.tolist() == infos[row]["terminal_observation"].tolist()
    assert buffer.sample(64).dones.sum() == 0


def test_dqn_explores_in_each_environment_on_its_own() -> None:
    config = DQNConfig(exploration_start=0.5, exploration_end=0.5, learning_starts=0)
    batch = FakeBatch(64, TICKS)
    env = GatewayVecEnv(cast(GatewayBatch, batch), seed=0, flat_actions=True)
    model = make_dqn(config, SPEC, env, seed=0, device="cpu")
    model._last_obs = env.reset()
    model.exploration_rate = 0.5
    greedy, _ = model.policy.predict(model._last_obs, deterministic=True)
    differing = [(model._sample_action(0, None, 64)[0] != greedy).mean() for _ in range(50)]
    assert min(differing) > 0.2
    assert max(differing) < 0.7
    assert np.mean(differing) == pytest.approx(0.5 * 8 / 9, abs=0.03)


def test_untrained_ppo_prefers_no_change_as_far_as_it_is_told() -> None:
    env = environment()
    config = PPOConfig(n_steps=8, batch_size=16, no_change_bias=(0.0, 2.0))
    model = make_ppo(config, SPEC, env, seed=0, device="cpu")
    heads: Any = model.policy.get_distribution(torch.as_tensor(env.reset() / 1000)).distribution
    assert len(heads) == 2
    for head, expected in zip(heads, (1 / 3, 0.787), strict=True):
        assert head.probs[:, 1].detach().numpy() == pytest.approx(expected, abs=0.02)


def test_a_lean_towards_one_more_replica_ends_with_its_block() -> None:
    config = PPOConfig(n_steps=8, batch_size=16)
    model = make_ppo(config, SPEC, environment(), seed=0, device="cpu")
    observation = torch.as_tensor(environment().reset() / 1000)

    def heads() -> list[Any]:
        found: Any = model.policy.get_distribution(observation).distribution
        return [head.logits.detach().numpy() for head in found]

    before = heads()
    with nudged(model.policy, Nudge(2.0)):
        leaning = heads()
    for old, new in zip(before, heads(), strict=True):
        np.testing.assert_array_equal(old, new)
    # log-odds of the scaling head: up against no change grows by 2, down against no change stays
    odds = [scale - scale[:, 1:2] for scale in (before[0], leaning[0])]
    np.testing.assert_allclose(odds[1] - odds[0], [[0.0, 0.0, 2.0]] * len(observation), atol=1e-5)
    np.testing.assert_array_equal(before[1], leaning[1])
