"""A sealed policy, a gateway and a command line for all tests of the bridge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepilot.agents.artifact.runtime import ArtifactPolicy
from gatepilot.deploy_bridge.cli import run

from .kit import FAST, Cli, Gateway, gateway
from .tiny_artifact import ADVISED, write_artifact


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> ArtifactPolicy:
    return write_artifact(tmp_path_factory.mktemp("sealed") / "artifact")


@pytest.fixture(scope="session")
def advised(tmp_path_factory: pytest.TempPathFactory) -> ArtifactPolicy:
    """One that is advised by the planner."""
    return write_artifact(tmp_path_factory.mktemp("advised") / "artifact", contract=ADVISED)


@pytest.fixture(params=["policy", "advised"])
def either(request: pytest.FixtureRequest) -> ArtifactPolicy:
    """Both, one after the other."""
    found: ArtifactPolicy = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_artifact(tmp_path / "artifact", contract=FAST)
    return tmp_path


@pytest.fixture
def world() -> Iterator[Gateway]:
    with gateway(FAST) as made:
        yield made


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    def called(*arguments: str | Path) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        return code, *capfd.readouterr()

    return called
