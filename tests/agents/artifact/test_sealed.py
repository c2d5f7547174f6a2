"""Not one byte of a signed artifact can be changed, added or taken away."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from gatepilot.agents.artifact.errors import ArtifactError
from gatepilot.agents.artifact.layout import (
    GOLDEN_FILE,
    MANIFEST_FILE,
    POLICY_FILE,
    SIGNATURE_FILE,
)

from .artifact_kit import load
from .conftest import Sealed

pytestmark = pytest.mark.timeout(60)  # the first test trains and exports

POSITIONS = 100
FILES = (POLICY_FILE, GOLDEN_FILE, MANIFEST_FILE, SIGNATURE_FILE)


@pytest.fixture
def copy(ppo: Sealed, tmp_path: Path) -> Path:
    target = tmp_path / "artifact"
    shutil.copytree(ppo.folder, target)
    return target


@pytest.mark.parametrize("name", FILES)
def test_every_changed_byte_is_refused(ppo: Sealed, copy: Path, name: str) -> None:
    path = copy / name
    good = path.read_bytes()
    rng = np.random.default_rng(FILES.index(name))
    edges = [0, 1, len(good) - 2, len(good) - 1]
    positions = [*edges, *rng.choice(len(good), POSITIONS - len(edges), replace=False).tolist()]
    for position in positions:
        before = good[position]
        flipped = before ^ (1 << int(rng.integers(8)))
        other = (before + int(rng.integers(1, 256))) % 256
        swapped_case = before ^ 0x20  # what a text survives most easily
        for value in {flipped, other, swapped_case}:
            path.write_bytes(good[:position] + bytes([value]) + good[position + 1 :])
            with pytest.raises(ArtifactError) as caught:
                load(copy, ppo.public_key)
            assert len(str(caught.value).splitlines()) == 1
    path.write_bytes(good)
    assert load(copy, ppo.public_key).is_signed


@pytest.mark.parametrize("name", FILES)
def test_cut_lengthened_and_emptied_files_are_refused(ppo: Sealed, copy: Path, name: str) -> None:
    path = copy / name
    good = path.read_bytes()
    for content in (good[:-1], good[1:], good + b"\x00", good + b"\n", good + good, b""):
        path.write_bytes(content)
        with pytest.raises(ArtifactError):
            load(copy, ppo.public_key)


def test_files_of_two_artifacts_do_not_mix(ppo: Sealed, dqn: Sealed, tmp_path: Path) -> None:
    for number, name in enumerate(FILES):
        mixed = tmp_path / str(number)
        shutil.copytree(ppo.folder, mixed)
        shutil.copy(dqn.folder / name, mixed / name)
        with pytest.raises(ArtifactError):
            load(mixed, ppo.public_key)
