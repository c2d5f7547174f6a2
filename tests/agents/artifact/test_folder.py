"""Exactly the files of an artifact, regular ones; folders appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gatepilot.agents.artifact.errors import ArtifactError
from gatepilot.agents.artifact.folder import MAX_FILE_BYTES, read_folder
from gatepilot.agents.artifact.layout import SIGNED_FILES
from gatepilot.agents.artifact.placing import place, placing


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "artifact"
    place(made, {name: name.encode() for name in SIGNED_FILES}, force=False)
    return made


def test_every_file_is_read_once(folder: Path, tmp_path: Path) -> None:
    expected = {name: name.encode() for name in SIGNED_FILES}
    assert read_folder(folder) == expected
    (folder / "model.sig").write_bytes(b"x")
    assert read_folder(folder) == expected | {"model.sig": b"x"}
    (tmp_path / "current").symlink_to(folder)
    assert read_folder(tmp_path / "current") == expected | {"model.sig": b"x"}


@pytest.mark.parametrize("name", [".gitignore", "policy.onnx.data", "model.SIG", "a\nb"])
def test_an_extra_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"")
    with pytest.raises(ArtifactError, match="does not belong to an artifact") as caught:
        read_folder(folder)
    assert len(str(caught.value).splitlines()) == 1


def test_an_extra_folder_is_refused(folder: Path) -> None:
    (folder / "__pycache__").mkdir()
    with pytest.raises(ArtifactError, match="'__pycache__' does not belong"):
        read_folder(folder)


@pytest.mark.parametrize("name", SIGNED_FILES)
def test_a_missing_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ArtifactError, match=f"not an artifact: {name} missing"):
        read_folder(folder)


def test_what_is_no_artifact_at_all(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArtifactError, match=r"policy\.onnx, golden\.npz, manifest\.json missing"):
        read_folder(tmp_path / "empty")
    with pytest.raises(ArtifactError, match="No such file or directory"):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(ArtifactError, match="Not a directory"):
        read_folder(folder / "manifest.json")


def test_a_link_a_pipe_a_folder_and_a_giant_are_refused(folder: Path, tmp_path: Path) -> None:
    policy = folder / "policy.onnx"
    (tmp_path / "elsewhere").write_bytes(policy.read_bytes())
    policy.unlink()
    policy.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArtifactError, match="a symbolic link, expected a regular file"):
        read_folder(folder)
    policy.unlink()
    os.mkfifo(policy)
    with pytest.raises(ArtifactError, match="not a regular file"):
        read_folder(folder)
    policy.unlink()
    policy.mkdir()
    with pytest.raises(ArtifactError, match="not a regular file"):
        read_folder(folder)
    policy.rmdir()
    with policy.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(ArtifactError, match=f"{MAX_FILE_BYTES + 1} bytes, at most"):
        read_folder(folder)


def test_a_broken_off_folder_leaves_nothing(tmp_path: Path) -> None:
    def broken_off() -> None:
        with placing(tmp_path / "new", force=False) as made:
            (made / "policy.onnx").write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert list(tmp_path.iterdir()) == []


def test_force_replaces_artifacts_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"is there already; .* --force"):
        place(folder, {}, force=False)
    place(folder, {"policy.onnx": b"new"}, force=True)
    assert [path.name for path in folder.iterdir()] == ["policy.onnx"]
    assert [path.name for path in tmp_path.iterdir()] == ["artifact"]
    (folder / "thesis.tex").write_bytes(b"years of work")
    with pytest.raises(ArtifactError, match=r"holds 'thesis\.tex'; --force replaces artifacts"):
        place(folder, {}, force=True)
    assert (folder / "thesis.tex").read_bytes() == b"years of work"
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "file").write_bytes(b"")
    for name in ("link", "file"):
        with pytest.raises(ArtifactError, match="not a folder"):
            place(tmp_path / name, {}, force=True)
    with pytest.raises(ArtifactError, match="does not exist"):
        place(tmp_path / "no" / "parent", {}, force=True)
