"""A policy that sees advice begins as the advisor."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.dqn.policies import DQNPolicy

from gatepilot.agents.config import DQNConfig, PPOConfig, parse_config
from gatepilot.agents.dqn import make_dqn
from gatepilot.agents.learned_policy import LearnedPolicy
from gatepilot.agents.nudges import Nudge, nudged, nudges_of
from gatepilot.agents.ppo import make_ppo
from gatepilot.agents.sb3_vec_env import GatewayVecEnv
from gatepilot.envs.batch import GatewayBatch
from gatepilot.envs.schema.advice import ADVICE_ENTRIES, ADVICE_INDEX, scale_advice
from gatepilot.envs.schema.observation import ObservationSpec

from .fake_batch import FakeBatch

torch.set_num_threads(1)
ADVISED = ObservationSpec("advised")
GAPS = [(r, t) for r in (-7, -1, 0, 1, 2) for t in (-9, -1, 0, 1, 3)]
"""Replicas and threshold steps that the advisor would have more."""
STEPS = np.sign(np.array(GAPS))


def environment(spec: ObservationSpec, *, flat_actions: bool = False) -> GatewayVecEnv:
    batch = FakeBatch(2, 4)
    batch.observation_spec.low, batch.observation_spec.high = spec.low, spec.high
    return GatewayVecEnv(cast(GatewayBatch, batch), seed=0, flat_actions=flat_actions)


def ppo(spec: ObservationSpec = ADVISED, advice_logits: float = 4.0) -> ActorCriticPolicy:
    config = PPOConfig(
        n_steps=8,
        batch_size=16,
        advice_logits=(advice_logits, advice_logits),
    )
    env = environment(spec)
    return make_ppo(config, spec, env, seed=0, device="cpu").policy


def dqn(spec: ObservationSpec = ADVISED, advice_value: float = 0.02) -> DQNPolicy:
    config = DQNConfig(advice_value=(advice_value, advice_value))
    env = environment(spec, flat_actions=True)
    return make_dqn(config, spec, env, seed=0, device="cpu").policy


def observations(spec: ObservationSpec = ADVISED) -> NDArray[np.float32]:
    """Anything to be seen, with each of the gaps."""
    rng = np.random.default_rng(0)
    seen = rng.uniform(spec.low, spec.high, (len(GAPS), len(spec.entries))).astype(np.float32)
    advice = np.zeros((len(GAPS), len(ADVICE_ENTRIES)))
    advice[:, ADVICE_INDEX["replicas_gap"]] = [replicas for replicas, _ in GAPS]
    advice[:, ADVICE_INDEX["threshold_gap"]] = [0.05 * steps for _, steps in GAPS]
    for name in ("replicas_gap", "threshold_gap"):
        seen[:, spec.entries.index(name)] = scale_advice(advice)[:, ADVICE_INDEX[name]]
    return seen


@pytest.mark.parametrize("network", [ppo(), dqn()])
def test_before_it_has_learned_it_does_as_the_advisor_says(network: BasePolicy) -> None:
    assert (LearnedPolicy(network).act(observations()) - 1).tolist() == STEPS.tolist()


def test_the_weight_is_how_often_a_sampled_choice_is_another() -> None:
    seen = torch.from_numpy(observations())
    chosen = torch.from_numpy(STEPS + 1)
    log_odds = ppo(advice_logits=4.0).get_distribution(seen).log_prob(chosen)
    expected = np.exp(4) / (np.exp(4) + 2)  # a head's; two of them choose
    assert log_odds.exp().detach().numpy() == pytest.approx(expected**2, abs=0.01)


def test_a_head_that_follows_nobody_rests() -> None:
    seen = torch.from_numpy(observations())
    rests = np.column_stack([STEPS[:, 0], np.zeros_like(STEPS[:, 0])])
    config = PPOConfig(n_steps=8, batch_size=16, advice_logits=(4.0, 0.0))
    policy = make_ppo(config, ADVISED, environment(ADVISED), seed=0, device="cpu").policy
    assert (LearnedPolicy(policy).act(observations()) - 1).tolist() == rests.tolist()
    odds = policy.get_distribution(seen).log_prob(torch.from_numpy(rests + 1)).exp()
    assert odds.detach().numpy().max() <= np.exp(3) / (np.exp(3) + 2) + 0.01
    values = DQNConfig(advice_value=(0.02, 0.0))
    env = environment(ADVISED, flat_actions=True)
    network = make_dqn(values, ADVISED, env, seed=0, device="cpu").policy
    assert (LearnedPolicy(network).act(observations()) - 1).tolist() == rests.tolist()


def test_values_differ_by_the_weight_for_each_head_that_follows() -> None:
    follows, plain = dqn(advice_value=0.5), dqn(advice_value=0.25)
    layers = [
        dict(network.q_net.get_submodule("q_net.layers").state_dict())
        for network in (follows, plain)
    ]
    assert all(torch.equal(layers[0][name], layers[1][name]) for name in layers[0])
    seen = torch.from_numpy(observations())
    for online in ("q_net", "q_net_target"):
        values = [network.get_submodule(online)(seen) for network in (follows, plain)]
        gained = (values[0] - values[1]).detach().numpy().reshape(-1, 3, 3)
        replicas, threshold = (STEPS + 1).T
        heads = np.zeros((len(GAPS), 3, 3))
        heads[np.arange(len(GAPS)), replicas, :] += 0.25
        heads[np.arange(len(GAPS)), :, threshold] += 0.25
        assert gained == pytest.approx(heads, abs=1e-5)


def test_weights_of_the_advice_are_learned() -> None:
    policy = ppo()
    seen = torch.from_numpy(observations())
    against = torch.from_numpy(-STEPS + 1)
    before = policy.evaluate_actions(seen, against)[1].mean().item()
    for _ in range(50):
        policy.optimizer.zero_grad()
        (-policy.evaluate_actions(seen, against)[1].mean()).backward()  # type: ignore[no-untyped-call]
        policy.optimizer.step()
    assert policy.evaluate_actions(seen, against)[1].mean().item() > before + 0.1


@pytest.mark.parametrize("spec", [ObservationSpec("documented"), ObservationSpec("extended")])
def test_without_advice_there_is_nobody_to_follow(spec: ObservationSpec) -> None:
    for network in (ppo(spec), dqn(spec)):
        assert not any(name.endswith("advice.weight") for name in network.state_dict())
        seen = np.zeros((3, len(spec.entries)), np.float32)
        assert LearnedPolicy(network).act(seen).shape == (3, 2)
    logits = ppo(spec).get_submodule("action_net").get_parameter("weight")
    assert logits.shape == (6, 64)


def test_advice_can_be_an_entry_like_the_others() -> None:
    logits = ppo(advice_logits=0.0).get_submodule("action_net").get_parameter("weight")
    assert logits.shape == (6, 64)
    assert not any("advice" in name for name in dqn(advice_value=0.0).state_dict())


def test_a_margin_is_what_the_asked_choice_gains_in_each_head() -> None:
    policy, seen = ppo(), torch.from_numpy(observations())

    def logits() -> NDArray[np.float32]:
        heads = cast(Any, policy.get_distribution(seen)).distribution
        found: NDArray[np.float32] = np.stack([h.logits.detach().numpy() for h in heads], axis=1)
        return found - found[:, :, 1:2]  # against no change

    before = logits()
    with nudged(policy, Nudge(advice_margin=1.5)):
        gained = logits() - before
    np.testing.assert_array_equal(logits(), before)
    for way in (-1, 1):
        asked = (way == STEPS) * 1.5 - (STEPS == 0) * 1.5
        assert gained[:, :, 1 + way] == pytest.approx(asked, abs=1e-5)


def test_a_margin_is_what_actions_gain_for_each_head_that_follows() -> None:
    policy, seen = dqn(), torch.from_numpy(observations())
    before = policy.q_net(seen).detach().numpy()
    with nudged(policy, Nudge(advice_margin=0.25)):
        gained = policy.q_net(seen).detach().numpy() - before
    np.testing.assert_array_equal(policy.q_net(seen).detach().numpy(), before)
    follows = [[(a // 3 == r + 1) + (a % 3 == t + 1) for a in range(9)] for r, t in STEPS.tolist()]
    assert gained == pytest.approx(0.25 * np.array(follows), abs=1e-5)


def test_checkpoints_are_judged_with_every_pair_of_nudges() -> None:
    content: dict[str, Any] = {
        "name": "x",
        "scenarios": ["demo"],
        "ppo": {"scale_up_logits": [0.0, 1.0], "advice_margins": [0.0, 0.5]},
        "dqn": {"advice_margins": [0.0, 0.1]},
    }

    def pairs(**changes: str) -> list[tuple[float, float]]:
        found = nudges_of(parse_config(content | changes, where="x"))
        return [(one.scale_up_logit, one.advice_margin) for one in found]

    assert pairs() == [(0.0, 0.0), (0.0, 0.5), (1.0, 0.0), (1.0, 0.5)]
    assert pairs(algo="dqn") == [(0.0, 0.0), (0.0, 0.1)]
    assert pairs(observation="extended") == [(0.0, 0.0), (1.0, 0.0)]
