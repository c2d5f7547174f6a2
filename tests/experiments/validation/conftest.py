"""Reference runs that lie in a temporary folder."""

import shutil
from pathlib import Path

import pytest

from .reference_kit import write_runs


@pytest.fixture(scope="session")
def made_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once; do not write into it."""
    return write_runs(tmp_path_factory.mktemp("made") / "runs")


@pytest.fixture
def reference_runs(made_runs: Path, tmp_path: Path) -> Path:
    """Three runs, to change as a test likes."""
    return Path(shutil.copytree(made_runs, tmp_path / "reference-runs"))
