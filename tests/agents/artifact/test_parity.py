"""The exported network decides as the trained one; ties of rounding are told from faults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gatepilot.agents.artifact.export import export_policy
from gatepilot.agents.artifact.golden import chosen, margins, shortfall
from gatepilot.agents.artifact.layout import Layout
from gatepilot.agents.artifact.network import ActingNetwork
from gatepilot.agents.artifact.parity import MAX_TIES, ParityError, compare
from gatepilot.agents.artifact.vectors import anywhere
from gatepilot.agents.learned_policy import LearnedPolicy

from .artifact_kit import Quiet, golden_of, load
from .conftest import Sealed

pytestmark = pytest.mark.timeout(60)  # the first test trains and exports


def real_observations(sealed: Sealed) -> NDArray[np.float32]:
    observations: NDArray[np.float32] = golden_of(sealed.folder)["observations"]  # type: ignore[assignment]
    return observations


@dataclass
class Turned(LearnedPolicy):
    """The trained policy, but with the second-best threshold choice on some observations."""

    trained: LearnedPolicy
    least: float
    """Turned where the best two are at least so far apart ..."""
    most: float
    """... and at most so far."""
    limit: int
    turned: int = 0

    def act(self, observation: NDArray[np.float32]) -> NDArray[np.int64]:
        actions = self.trained.act(observation)
        exact = ActingNetwork(self.trained.network).exact_logits(observation)[:, 3:]
        ranked = np.sort(exact, axis=1)
        distance = ranked[:, 2] - ranked[:, 1]
        rows = np.flatnonzero((distance >= self.least) & (distance <= self.most))
        rows = rows[: self.limit - self.turned]
        self.turned += len(rows)
        second = np.argsort(exact[rows], axis=1)[:, 1]
        best = np.argsort(exact[rows], axis=1)[:, 2]
        actions[rows, 1] = np.where(actions[rows, 1] == best, second, best)
        return actions


def hesitant(trained: LearnedPolicy, observations: NDArray[np.float32]) -> NDArray[np.float32]:
    """An observation between two threshold choices, as near to the tie as float32 can say."""
    choices = trained.act(observations)[:, 1]
    one: NDArray[np.float32] = observations[0]
    other: NDArray[np.float32] = observations[np.flatnonzero(choices != choices[0])[0]]
    while True:
        middle: NDArray[np.float32] = (one + other) / np.float32(2)
        if (middle == one).all() or (middle == other).all():
            return one
        if trained.act(middle[None])[0, 1] == choices[0]:
            one = middle
        else:
            other = middle


def test_equal_actions_on_observations_the_export_has_not_seen(sealed: Sealed) -> None:
    exported = load(sealed.folder, sealed.public_key)
    assert exported.manifest.parity.observations == 100_000
    spec = exported.manifest.observation_spec
    observations = anywhere(np.random.default_rng(5), spec, 100_000)
    exact = ActingNetwork(sealed.trained.policy.network).exact_logits(observations)
    clear = margins(exact, exported.manifest.network.layout) > 1e-5
    assert clear.mean() > 0.999
    np.testing.assert_array_equal(
        exported.act(observations)[clear], sealed.trained.policy.act(observations)[clear]
    )


def test_the_normaliser_and_the_best_bias_are_in_the_graph(ppo: Sealed) -> None:
    network = ppo.trained.policy.network
    exported = load(ppo.folder, ppo.public_key)
    raw = real_observations(ppo)[:100]
    with torch.no_grad():
        distribution = network.get_distribution(torch.as_tensor(raw))  # type: ignore[operator]
    probabilities = np.concatenate([d.probs.numpy() for d in distribution.distribution], axis=1)
    logits, _ = exported.outputs(raw)
    heads = np.exp(logits.reshape(-1, 2, 3))
    expected = (heads / heads.sum(axis=2, keepdims=True)).reshape(-1, 6)
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)
    figures = exported.manifest.normaliser
    standardiser = network.get_submodule("pi_features_extractor")
    np.testing.assert_array_equal(figures.mean, standardiser.get_buffer("mean").numpy())
    assert np.ptp(figures.mean) > 0


def test_another_network_is_a_fault(ppo: Sealed) -> None:
    exported = load(ppo.folder, ppo.public_key)
    network = ActingNetwork(ppo.trained.policy.network)
    bias = network.get_submodule("logits.heads").get_parameter("bias")
    with torch.no_grad():
        bias[2] += 0.01
    try:
        with pytest.raises(ParityError, match=r"policy\.onnx: a logit is off by 0\.01"):
            compare(ppo.trained.policy, network, exported, real_observations(ppo))
    finally:
        with torch.no_grad():
            bias[2] -= 0.01


def test_one_wrong_action_is_a_fault(ppo: Sealed) -> None:
    exported = load(ppo.folder, ppo.public_key)
    network = ActingNetwork(ppo.trained.policy.network)
    wrong = Turned(ppo.trained.policy, 1e-3, np.inf, 1)
    with pytest.raises(ParityError, match="the trained policy's action is not the best on"):
        compare(wrong, network, exported, real_observations(ppo))
    assert wrong.turned == 1


def test_ties_are_counted_kept_out_of_the_golden_vectors_and_limited(ppo: Sealed) -> None:
    exported = load(ppo.folder, ppo.public_key)
    trained = ppo.trained.policy
    network = ActingNetwork(trained.network)
    tie = hesitant(trained, anywhere(np.random.default_rng(0), ppo.spec, 10_000))
    assert margins(network.exact_logits(tie[None]), "heads")[0] < 1e-6
    for count in (1, MAX_TIES):
        real = np.concatenate([real_observations(ppo), np.tile(tie, (count, 1))])
        found = compare(Turned(trained, 0.0, 1e-6, count), network, exported, real)
        assert found.parity.ties == count
        assert not (found.golden.observations == tie).all(axis=1).any()
        assert margins(found.golden.logits, "heads").min() > 1e-4
    real = np.concatenate([real_observations(ppo), np.tile(tie, (MAX_TIES + 1, 1))])
    with pytest.raises(ParityError, match=f"{MAX_TIES + 1} of 100000 actions are ties"):
        compare(Turned(trained, 0.0, 1e-6, MAX_TIES + 1), network, exported, real)


def test_a_policy_that_cannot_tell_its_actions_apart_is_refused(
    ppo: Sealed, tmp_path: Path
) -> None:
    last = ppo.trained.policy.network.get_submodule("action_net")
    before = {name: tensor.clone() for name, tensor in last.state_dict().items()}
    with torch.no_grad():
        for parameter in last.parameters():
            parameter.zero_()
    try:
        with pytest.raises(ParityError, match="hardly tells its actions apart"):
            export_policy(
                ppo.trained,
                tmp_path / "artifact",
                private_key=None,
                force=False,
                traces_dir=None,
                reporter=Quiet(),
            )
    finally:
        last.load_state_dict(before)
    assert list(tmp_path.iterdir()) == []


@given(st.integers(0, 1 << 32), st.sampled_from(["heads", "table"]))
def test_the_best_action_falls_short_of_nothing(seed: int, layout: Layout) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(50, 6 if layout == "heads" else 9)).astype(np.float32)
    best = chosen(logits, layout)
    assert (shortfall(logits, best, layout) == 0).all()
    assert (shortfall(logits, (best + 1) % 3, layout) >= margins(logits, layout)).all()
