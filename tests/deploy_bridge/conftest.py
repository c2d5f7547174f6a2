"""A sealed policy for all tests of the bridge."""

from __future__ import annotations

import pytest

from gatepilot.agents.artifact.runtime import ArtifactPolicy

from .tiny_artifact import write_artifact


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> ArtifactPolicy:
    return write_artifact(tmp_path_factory.mktemp("sealed") / "artifact")
