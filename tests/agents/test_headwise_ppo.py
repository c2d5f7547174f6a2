"""PPO by heads: advantages of their own, relative to twins, and clipped ratios of their own."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import DummyVecEnv

from gatepilot.agents.headwise_ppo import HeadwisePPO, TwinRolloutBuffer, twin_leans
from gatepilot.agents.networks import Features, GatewayActorCritic

torch.set_num_threads(1)
GAMMA, LAMBDAS, STEPS, N = 0.9, (0.8, 0.3), 3, 4


def empty(twins: int) -> TwinRolloutBuffer:
    return TwinRolloutBuffer(
        STEPS,
        spaces.Box(-1, 1, (1,)),
        spaces.Discrete(2),
        gamma=GAMMA,
        n_envs=N,
        twins=twins,
        lambdas=LAMBDAS,
    )


def fill(
    buffer: TwinRolloutBuffer, rewards: NDArray[np.float32], values: NDArray[np.float32]
) -> TwinRolloutBuffer:
    nothing = np.zeros((N, 1), np.float32)
    for reward, value in zip(rewards, values, strict=True):
        buffer.add(nothing, nothing, reward, np.zeros(N), torch.from_numpy(value), torch.zeros(N))
    buffer.compute_returns_and_advantage(torch.zeros(N), np.ones(N, np.bool_))
    return buffer


def by_hand(
    rewards: NDArray[np.float32], values: NDArray[np.float32], gae_lambda: float = LAMBDAS[0]
) -> NDArray[np.float64]:
    """Generalised advantages of episodes that end after the last step."""
    after = np.vstack([values[1:], np.zeros(N)])
    errors = rewards + GAMMA * after - values
    sums = [
        sum((GAMMA * gae_lambda) ** (later - now) * errors[later] for later in range(now, STEPS))
        for now in range(STEPS)
    ]
    return np.array(sums, np.float64)


@pytest.mark.parametrize("twins", [1, 2, 4])
def test_what_twins_have_in_common_is_taken_out(twins: int) -> None:
    rng = np.random.default_rng(twins)
    rewards, values = rng.normal(size=(2, STEPS, N)).astype(np.float32)
    buffer = fill(empty(twins), rewards, values)
    for head, gae_lambda in enumerate(LAMBDAS):
        expected = by_hand(rewards, values, gae_lambda)
        if twins > 1:
            for first in range(0, N, twins):
                mine = expected[:, first : first + twins]
                mine -= mine.mean(axis=1, keepdims=True)
        found = buffer.head_advantages[..., head]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    plain = by_hand(rewards, values)
    np.testing.assert_allclose(buffer.returns, plain + values, rtol=1e-4, atol=1e-6)


def test_a_storm_that_hits_both_changes_no_advantage() -> None:
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, STEPS, N)).astype(np.float32)
    storm = np.array([-5.0, -5.0, 0.0, 0.0], np.float32)
    calm, hit = fill(empty(2), rewards, values), fill(empty(2), rewards + storm, values)
    np.testing.assert_allclose(calm.head_advantages, hit.head_advantages, atol=1e-5)
    assert (hit.returns[:, :2] < calm.returns[:, :2] - 4).all()


class Bandit(gym.Env[NDArray[np.float32], NDArray[np.int64]]):
    """One tick: the first head should say 2, the second 0."""

    observation_space = spaces.Box(-1, 1, (1,))
    action_space = spaces.MultiDiscrete([3, 3])

    def reset(self, **_: Any) -> tuple[NDArray[np.float32], dict[str, Any]]:  # noqa: ANN401
        return np.zeros(1, np.float32), {}

    def step(
        self, action: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        reward = float(action[0] == 2) + 0.5 * float(action[1] == 0)
        return np.zeros(1, np.float32), reward, True, False, {}


def learner(**options: Any) -> HeadwisePPO:  # noqa: ANN401
    return HeadwisePPO(
        GatewayActorCritic,
        DummyVecEnv([Bandit] * N),
        n_steps=32,
        batch_size=64,
        learning_rate=1e-2,
        seed=0,
        device="cpu",
        rollout_buffer_class=TwinRolloutBuffer,
        rollout_buffer_kwargs={"twins": 2, "lambdas": LAMBDAS},
        policy_kwargs={"features_extractor_class": Features},
        **options,
    )


def test_each_head_learns_what_it_is_worth() -> None:
    model = learner(n_epochs=4)
    model.learn(1024)
    assert model.predict(np.zeros(1, np.float32), deterministic=True)[0].tolist() == [2, 0]
    logged = model.logger.name_to_value
    assert logged["train/approx_kl"] >= 0
    assert -2 * np.log(3) < logged["train/entropy_loss"] < 0


def test_a_head_without_advantage_stays_and_the_other_moves() -> None:
    """Where the advantages of the second head are 0, nothing but the first is taught."""
    model = learner(vf_coef=0.0, n_epochs=1)
    model.learn(N * 32)  # fills a rollout
    buffer = model.rollout_buffer
    assert isinstance(buffer, TwinRolloutBuffer)
    buffer.head_advantages[..., 1] = 0.0
    head = model.policy.get_submodule("action_net").get_parameter("weight")
    before = head.detach().clone()
    for group in model.policy.optimizer.state.values():
        group["exp_avg"].zero_()  # what Adam remembers would go on
    model.train()
    moved = (head.detach() - before).abs().amax(dim=1)
    assert (moved[:3] > 1e-4).all()
    assert (moved[3:] == 0).all()


def test_four_twins_lean_all_four_ways() -> None:
    found = twin_leans(8, (1.0, 2.0))
    ways = [(-1, -2), (-1, 2), (1, -2), (1, 2)]
    expected = [[-scale, 0, scale, -step, 0, step] for scale, step in ways * 2]
    assert found.tolist() == expected


def test_only_experience_is_collected_leaning() -> None:
    model = learner()
    model.policy.leans = torch.tensor([[0.0, 0, 50, 50, 0, 0], [50.0, 0, 0, 0, 0, 50]] * 2)
    seen = np.zeros((N, 1), np.float32)
    actions, _, log_probs = model.policy(torch.from_numpy(seen))
    assert actions.tolist() == [[2, 0], [0, 2]] * 2
    assert log_probs.tolist() == pytest.approx([0.0] * N, abs=1e-3)
    upright = model.policy.get_distribution(torch.from_numpy(seen)).log_prob(actions)
    assert upright.tolist() == pytest.approx([-2 * np.log(3)] * N, abs=0.1)


def test_an_update_knows_who_leaned_which_way() -> None:
    """A policy that stands still is as likely in the update as it was when it was collected."""
    model = learner(n_epochs=2)
    model.policy.leans = twin_leans(N, (0.7, 1.5))
    model.learning_rate = 0.0
    model._setup_lr_schedule()
    model.learn(N * 32)
    assert abs(model.logger.name_to_value["train/approx_kl"]) < 1e-6
    assert model.logger.name_to_value["train/clip_fraction"] == 0
    assert model.rollout_buffer.log_probs.std() > 0.1


def test_what_is_learned_leaning_is_the_policy_that_does_not_lean() -> None:
    model = learner(n_epochs=4)
    model.policy.leans = twin_leans(N, (1.0, 1.0))
    model.learn(1024)
    assert model.predict(np.zeros(1, np.float32), deterministic=True)[0].tolist() == [2, 0]
