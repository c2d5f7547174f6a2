"""An artifact of each learner and one of two scenarios, trained and exported once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from gatepilot.agents.artifact.export import Trained, export_policy
from gatepilot.agents.artifact.signing import make_key_pair
from gatepilot.envs.schema.observation import ObservationSpec

from ..training_helpers import SCENARIO, tiny
from .artifact_kit import Quiet, train


@dataclass(frozen=True)
class Sealed:
    """An artifact, what it was made of, and the keys."""

    folder: Path
    trained: Trained
    private_key: Path
    public_key: Path

    @property
    def spec(self) -> ObservationSpec:
        return self.trained.contract.observation


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_key_pair(tmp_path_factory.mktemp("keys"))


def _sealed(folder: Path, keys: tuple[Path, Path], **changes: object) -> Sealed:
    trained = train(tiny(**changes), folder)
    if trained.config.algo == "ppo":  # after so short a training it has hardly an opinion
        with torch.no_grad():
            for parameter in trained.policy.network.get_submodule("action_net").parameters():
                parameter.mul_(30)
    export_policy(
        trained,
        folder / "artifact",
        private_key=keys[0],
        force=False,
        traces_dir=None,
        reporter=Quiet(),
    )
    return Sealed(folder / "artifact", trained, *keys)


@pytest.fixture(scope="session")
def ppo(tmp_path_factory: pytest.TempPathFactory, keys: tuple[Path, Path]) -> Sealed:
    learner = {
        "n_steps": 16,
        "batch_size": 32,
        "n_epochs": 2,
        "advice_logits": [0.1, 0.1],  # 3 when multiplied
        "hidden": [16],
        "no_change_bias": [0, 0],
    }
    return _sealed(tmp_path_factory.mktemp("ppo"), keys, frame_stack=2, ppo=learner)


@pytest.fixture(scope="session")
def dqn(tmp_path_factory: pytest.TempPathFactory, keys: tuple[Path, Path]) -> Sealed:
    return _sealed(tmp_path_factory.mktemp("dqn"), keys, algo="dqn", observation="documented")


@pytest.fixture(scope="session")
def several(tmp_path_factory: pytest.TempPathFactory, keys: tuple[Path, Path]) -> Sealed:
    """Advised values, over two scenarios and their variants."""
    return _sealed(
        tmp_path_factory.mktemp("several"),
        keys,
        algo="dqn",
        scenarios=[str(SCENARIO), str(SCENARIO.with_name("tiny_faults.yaml"))],
        load_scales=[1.0, 2.0],
        randomised={"cold_start": [0.5, 2.0], "more_faults": 0.5},
    )


@pytest.fixture(params=["ppo", "dqn", "several"])
def sealed(request: pytest.FixtureRequest) -> Sealed:
    """All, one after the other."""
    found: Sealed = request.getfixturevalue(request.param)
    return found
