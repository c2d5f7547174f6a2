"""Advantages relative to twins: what all of them met is nobody's merit."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from gatepilot.agents.twin_buffer import TwinRolloutBuffer

GAMMA, LAMBDA, STEPS, N = 0.9, 0.8, 3, 4


def empty(twins: int) -> TwinRolloutBuffer:
    return TwinRolloutBuffer(
        STEPS,
        spaces.Box(-1, 1, (1,)),
        spaces.Discrete(2),
        gamma=GAMMA,
        gae_lambda=LAMBDA,
        n_envs=N,
        twins=twins,
    )


def fill(
    buffer: TwinRolloutBuffer, rewards: NDArray[np.float32], values: NDArray[np.float32]
) -> TwinRolloutBuffer:
    nothing = np.zeros((N, 1), np.float32)
    for reward, value in zip(rewards, values, strict=True):
        buffer.add(nothing, nothing, reward, np.zeros(N), torch.from_numpy(value), torch.zeros(N))
    buffer.compute_returns_and_advantage(torch.zeros(N), np.ones(N, np.bool_))
    return buffer


def by_hand(rewards: NDArray[np.float32], values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Generalised advantages of episodes that end after the last step."""
    after = np.vstack([values[1:], np.zeros(N)])
    errors = rewards + GAMMA * after - values
    sums = [
        sum((GAMMA * LAMBDA) ** (later - now) * errors[later] for later in range(now, STEPS))
        for now in range(STEPS)
    ]
    return np.array(sums, np.float64)


@pytest.mark.parametrize("twins", [1, 2, 4])
def test_what_twins_have_in_common_is_taken_out(twins: int) -> None:
    rng = np.random.default_rng(twins)
    rewards, values = rng.normal(size=(2, STEPS, N)).astype(np.float32)
    buffer, plain = fill(empty(twins), rewards, values), by_hand(rewards, values)
    expected = plain.copy()
    if twins > 1:
        for first in range(0, N, twins):
            expected[:, first : first + twins] -= plain[:, first : first + twins].mean(
                axis=1, keepdims=True
            )
    np.testing.assert_allclose(buffer.advantages, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(buffer.returns, plain + values, rtol=1e-4, atol=1e-6)


def test_a_storm_that_hits_both_changes_no_advantage() -> None:
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, STEPS, N)).astype(np.float32)
    storm = np.array([-5.0, -5.0, 0.0, 0.0], np.float32)
    calm, hit = fill(empty(2), rewards, values), fill(empty(2), rewards + storm, values)
    np.testing.assert_allclose(calm.advantages, hit.advantages, atol=1e-5)
    assert (hit.returns[:, :2] < calm.returns[:, :2] - 4).all()
