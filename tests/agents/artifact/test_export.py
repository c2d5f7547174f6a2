"""An export is whole or not there, the same every time, and refuses before it works."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from gatepilot.agents.artifact import export
from gatepilot.agents.artifact.errors import ArtifactError, SignatureError
from gatepilot.agents.artifact.experience import TICKS, TrainingTraffic
from gatepilot.agents.artifact.export import Trained, export_policy
from gatepilot.agents.artifact.folder import read_folder
from gatepilot.agents.artifact.layout import POLICY_FILE
from gatepilot.agents.artifact.manifest import Manifest
from gatepilot.agents.artifact.network import OPSET, ActingNetwork, to_onnx
from gatepilot.agents.evaluation import Progress

from .artifact_kit import Quiet, load, manifest_of
from .conftest import Sealed

pytestmark = pytest.mark.timeout(60)  # the first test trains and exports


def exported(trained: Trained, folder: Path, **changes: Any) -> Manifest:  # noqa: ANN401
    options = {"private_key": None, "force": False, "traces_dir": None, "reporter": Quiet()}
    return export_policy(trained, folder, **(options | changes))


def test_the_same_run_gives_the_same_digest(sealed: Sealed, tmp_path: Path) -> None:
    manifest = exported(sealed.trained, tmp_path / "again")
    assert manifest == manifest_of(sealed.folder)
    again, before = read_folder(tmp_path / "again"), read_folder(sealed.folder)
    before.pop("model.sig")
    assert again == before


def test_the_graph(sealed: Sealed) -> None:
    model = onnx.load_from_string((sealed.folder / POLICY_FILE).read_bytes())
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", OPSET)]
    kinds = {node.op_type for node in model.graph.node}
    assert {"Sub", "Div", "Clip", "Gemm", "ArgMax"} <= kinds
    assert all(
        tensor.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.INT64)
        for tensor in model.graph.initializer
    )
    assert not any(node.doc_string for node in model.graph.node)
    assert str(Path.cwd()).encode() not in (sealed.folder / POLICY_FILE).read_bytes()


@pytest.mark.parametrize("fault", ["sign", "load_artifact", "compare"])
def test_a_failed_export_leaves_nothing(
    ppo: Sealed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def fails(*arguments: object, **options: object) -> None:
        del arguments, options
        raise ArtifactError(fault)

    monkeypatch.setattr(export, fault, fails)
    with pytest.raises(ArtifactError, match=fault):
        exported(ppo.trained, tmp_path / "artifact", private_key=ppo.private_key)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_replacement_leaves_the_one_before(
    ppo: Sealed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "artifact"
    shutil.copytree(ppo.folder, target)
    before = read_folder(target)
    with pytest.raises(ArtifactError, match="is there already"):
        exported(ppo.trained, target)

    def full(*arguments: object) -> None:
        del arguments
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(export, "sign", full)
        with pytest.raises(ArtifactError, match=r"cannot be written \(No space left on device\)"):
            exported(ppo.trained, target, private_key=ppo.private_key, force=True)
    assert read_folder(target) == before
    exported(ppo.trained, target, force=True)
    assert "model.sig" not in read_folder(target)
    assert [path.name for path in tmp_path.iterdir()] == ["artifact"]


def test_a_bad_key_is_found_before_the_work(ppo: Sealed, tmp_path: Path) -> None:
    class Never:
        def start(self, what: str, ticks: int) -> Progress:
            raise AssertionError((what, ticks))

    options: dict[str, Any] = {"private_key": ppo.public_key, "reporter": Never()}
    with pytest.raises(SignatureError, match="not a private key"):
        exported(ppo.trained, tmp_path / "artifact", **options)
    with pytest.raises(ArtifactError, match="does not exist"):
        exported(ppo.trained, tmp_path / "no" / "artifact", reporter=Never())


def test_training_traffic_is_played_twice_from_where_training_begins(ppo: Sealed) -> None:
    traffic = TrainingTraffic(ppo.trained.config, ppo.trained.scenarios, None)
    counted: list[int] = []
    seen = traffic.play(ppo.trained.policy, counted.append)
    assert sum(counted) == traffic.ticks == 2 * TICKS * 4
    assert seen.shape == (traffic.ticks, len(ppo.spec.entries))
    again = TrainingTraffic(ppo.trained.config, ppo.trained.scenarios, None)
    np.testing.assert_array_equal(seen, again.play(ppo.trained.policy, counted.append))


def test_only_networks_of_ours_are_exported(ppo: Sealed) -> None:
    with pytest.raises(TypeError, match="policy is int, expected one of PPO or DQN"):
        ActingNetwork(3)  # type: ignore[arg-type]
    assert len(to_onnx(ActingNetwork(ppo.trained.policy.network))) > 1000


def test_provenance_does_not_have_to_be_known(ppo: Sealed, tmp_path: Path) -> None:
    origin = replace(ppo.trained.origin, validation={}, git_commit="0" * 40, git_dirty=True)
    exported(
        replace(ppo.trained, origin=origin), tmp_path / "artifact", private_key=ppo.private_key
    )
    assert load(tmp_path / "artifact", ppo.public_key).manifest.origin == origin
