"""Artifacts that are sealed and signed, but bad inside: the checks behind the signature."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from gatepilot.agents.artifact.errors import ArtifactError, NonFiniteError
from gatepilot.agents.artifact.layout import GOLDEN_FILE, POLICY_FILE
from gatepilot.agents.artifact.runtime import ArtifactPolicy
from gatepilot.agents.artifact.session import open_session

from .artifact_kit import golden_of, load, manifest_of, resealed
from .conftest import Sealed

pytestmark = pytest.mark.timeout(60)  # the first test trains and exports


def packed(arrays: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def edited(sealed: Sealed, edit: Callable[[Any], None]) -> bytes:
    """The network with something changed."""
    model = onnx.load_from_string((sealed.folder / POLICY_FILE).read_bytes())
    edit(model.graph)
    content: bytes = model.SerializeToString()
    return content


def refusal(sealed: Sealed, tmp_path: Path, files: dict[str, bytes], **changes: object) -> str:
    """The one line of a forged artifact that is refused."""
    forged = resealed(sealed.folder, tmp_path / "forged", sealed.private_key, files, **changes)
    with pytest.raises(ArtifactError) as caught:
        load(forged, sealed.public_key)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


def test_a_forgery_without_a_change_is_good(sealed: Sealed, tmp_path: Path) -> None:
    same = resealed(sealed.folder, tmp_path / "same", sealed.private_key, {})
    assert load(same, sealed.public_key).is_signed


def rename_input(graph: Any) -> None:  # noqa: ANN401  # protobuf
    graph.input[0].name = "obs"
    for node in graph.node:
        node.input[:] = ["obs" if name == "observation" else name for name in node.input]


def double_logits(graph: Any) -> None:  # noqa: ANN401  # protobuf
    graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        node.input[:] = ["raw" if name == "logits" else name for name in node.input]
        node.output[:] = ["raw" if name == "logits" else name for name in node.output]
    graph.node.append(helper.make_node("Cast", ["raw"], ["logits"], to=TensorProto.DOUBLE))


def fixed_batch(graph: Any) -> None:  # noqa: ANN401  # protobuf
    graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1


def one_more_output(graph: Any) -> None:  # noqa: ANN401  # protobuf
    graph.output.append(helper.make_tensor_value_info("extra", TensorProto.FLOAT, None))
    graph.node.append(helper.make_node("Identity", ["logits"], ["extra"]))


def unknown_operator(graph: Any) -> None:  # noqa: ANN401  # protobuf
    graph.node[0].op_type = "Teleport"


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (rename_input, "inputs are obs float32"),
        (double_logits, r"outputs are logits tensor(double)"),
        (fixed_batch, "inputs are observation float32 [1, "),
        (one_more_output, "outputs are logits float32"),
        (unknown_operator, "not a network that can be run"),
    ],
)
def test_other_names_types_and_shapes_are_refused(
    ppo: Sealed, tmp_path: Path, edit: Callable[[Any], None], reason: str
) -> None:
    assert reason in refusal(ppo, tmp_path, {POLICY_FILE: edited(ppo, edit)})


@pytest.mark.parametrize("content", [b"", b"hello", b"\x08\x08", b"\x80\x04N."])
def test_what_is_no_network_is_refused(ppo: Sealed, tmp_path: Path, content: bytes) -> None:
    assert "not a network" in refusal(ppo, tmp_path, {POLICY_FILE: content})


def test_weights_in_another_file_are_refused(
    ppo: Sealed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where that file is at hand: in the folder that the process runs in."""
    monkeypatch.chdir(tmp_path)

    def outside(graph: Any) -> None:  # noqa: ANN401  # protobuf
        tensor = graph.initializer[0]
        Path("weights.bin").write_bytes(numpy_helper.to_array(tensor).tobytes())
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="weights.bin")

    message = refusal(ppo, tmp_path, {POLICY_FILE: edited(ppo, outside)})
    assert "keeps weights in another file" in message


def spoiled_weight(graph: Any) -> None:  # noqa: ANN401  # protobuf
    """One weight of the last layer, far off."""
    tensor = [t for t in graph.initializer if t.name.endswith("weight")][-1]
    values = numpy_helper.to_array(tensor).copy()
    values[0, 0] += 3
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def other_argmax(graph: Any) -> None:  # noqa: ANN401  # protobuf
    """ArgMin where ArgMax was: right logits, wrong actions."""
    for node in graph.node:
        if node.op_type == "ArgMax":
            node.op_type = "ArgMin"


@pytest.mark.parametrize("edit", [spoiled_weight, other_argmax])
def test_another_network_fails_the_golden_vectors(
    sealed: Sealed, tmp_path: Path, edit: Callable[[Any], None]
) -> None:
    message = refusal(sealed, tmp_path, {POLICY_FILE: edited(sealed, edit)})
    assert "golden.npz: vector" in message


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("actions", lambda a: (a + 1) % 3, "vector 0 leads to another action"),
        ("logits", lambda a: a + np.float32(0.01), "vector 0 leads to other logits"),
        ("actions", lambda a: a.astype(np.int32), "actions is int32"),
        ("observations", lambda a: a[:, :-1], "observations is float32"),
        ("observations", lambda a: a[:-1], "logits is float32"),
        ("observations", lambda _: np.float32(1), "observations is float32 ()"),
        ("refused", lambda a: np.nan_to_num(a, posinf=1, neginf=0), "vector 0 became an action"),
        ("refused", lambda a: a[:-1], "but the manifest names other numbers"),
    ],
)
def test_bad_golden_vectors(
    ppo: Sealed, tmp_path: Path, name: str, change: Callable[[Any], Any], reason: str
) -> None:
    arrays = golden_of(ppo.folder)
    content = packed(arrays | {name: change(arrays[name])})
    assert reason in refusal(ppo, tmp_path, {GOLDEN_FILE: content})


def test_too_few_golden_vectors(ppo: Sealed, tmp_path: Path) -> None:
    arrays = golden_of(ppo.folder)
    few = packed({k: v if k == "refused" else v[:999] for k, v in arrays.items()})
    message = refusal(ppo, tmp_path, {GOLDEN_FILE: few}, golden_vectors=999)
    assert "999 vectors, expected 1000 or more" in message


def test_golden_vectors_are_never_unpickled(ppo: Sealed, tmp_path: Path) -> None:
    arrays: dict[str, Any] = dict(golden_of(ppo.folder))
    arrays["refused"] = np.array([{"a": 1}], dtype=object)
    message = refusal(ppo, tmp_path, {GOLDEN_FILE: packed(arrays)})
    assert "not readable as arrays of numbers" in message


def test_a_bomb_is_not_unpacked(ppo: Sealed, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("observations.npy", b"\x00" * (80 << 20))
    message = refusal(ppo, tmp_path, {GOLDEN_FILE: buffer.getvalue()})
    assert "unpacks to more than" in message


@pytest.mark.parametrize("content", [b"", b"PK", b"\x93NUMPY", b"\x80\x04N."])
def test_what_are_no_arrays(ppo: Sealed, tmp_path: Path, content: bytes) -> None:
    message = refusal(ppo, tmp_path, {GOLDEN_FILE: content})
    assert "not readable as arrays of numbers" in message


def test_non_finite_logits_never_become_an_action(ppo: Sealed) -> None:
    """A network that overflows on a finite observation: 1 / (first entry)."""

    def dividing(graph: Any) -> None:  # noqa: ANN401  # protobuf
        for node in graph.node:
            node.input[:] = ["raw" if name == "logits" else name for name in node.input]
            node.output[:] = ["raw" if name == "logits" else name for name in node.output]
        one = numpy_helper.from_array(np.array([[0]], np.int64), "first")
        graph.initializer.append(one)
        graph.node.append(helper.make_node("Gather", ["observation", "first"], ["x"], axis=1))
        graph.node.append(helper.make_node("Squeeze", ["x"], ["y"]))
        graph.node.append(helper.make_node("Div", ["raw", "y"], ["logits"]))

    session = open_session(edited(ppo, dividing))
    policy = ArtifactPolicy(manifest_of(ppo.folder), session, folder=ppo.folder, is_signed=False)
    observation = np.full(len(ppo.spec.entries), 0.5, np.float32)
    assert policy.decide(observation).logits
    observation[0] = 0.0
    with pytest.raises(NonFiniteError, match="logits are not finite"):
        policy.decide(observation)
    with pytest.raises(NonFiniteError, match="logits are not finite"):
        policy.act(observation[None])
