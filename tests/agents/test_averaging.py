"""The mean of recent weights: known answers, and the policy is left as it was."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy

from gatepilot.agents.averaging import AveragedWeights


def policy() -> ActorCriticPolicy:
    torch.manual_seed(0)
    box = spaces.Box(-np.ones(2, np.float32), np.ones(2, np.float32))
    return ActorCriticPolicy(box, spaces.Discrete(2), lambda _: 1e-3, net_arch=[3])


def set_all(network: ActorCriticPolicy, value: float) -> None:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(value)


def test_weights_of_the_first_three_sets() -> None:
    """Weights 1, 5/6, 5/7: means 6, 6/6 + 12 * 5/6 = 11, 11 * 2/7 + 4 * 5/7 = 6."""
    network, average = policy(), AveragedWeights()
    for value, expected in ((6.0, 6.0), (12.0, 11.0), (4.0, 6.0)):
        set_all(network, value)
        average.update(network)
        for tensor in average.mean.values():
            np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-6)


def test_the_mean_looks_back_a_fifth() -> None:
    network, average = policy(), AveragedWeights()
    for n in range(1, 1001):
        set_all(network, float(n))
        average.update(network)
    assert average.mean["action_net.bias"][0].item() == pytest.approx(1000 * (1 - 1 / 6), rel=0.01)


def test_a_policy_gets_its_own_weights_back_even_after_an_error() -> None:
    network, average = policy(), AveragedWeights()
    average.update(network)
    set_all(network, 7.0)

    def fail_inside() -> None:
        with average.placed_in(network):
            assert (network.action_net.get_parameter("weight").abs() < 7.0).all()
            raise KeyError

    with pytest.raises(KeyError):
        fail_inside()
    assert all((parameter == 7.0).all() for parameter in network.parameters())


def test_a_restored_mean_goes_on_as_the_saved_one() -> None:
    network, average, other = policy(), AveragedWeights(), AveragedWeights()
    average.update(network)
    other.restore(**average.state())  # type: ignore[arg-type]
    set_all(network, 3.0)
    average.update(network)
    other.update(network)
    for name, tensor in average.mean.items():
        assert torch.equal(tensor, other.mean[name])
