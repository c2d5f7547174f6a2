"""The network in onnxruntime: one thread, asleep between two decisions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from .errors import ArtifactError
from .layout import POLICY_FILE, Tensor
from .manifest import Manifest

if TYPE_CHECKING:
    import onnxruntime as ort

_TYPES: Final = {"tensor(float)": "float32", "tensor(int64)": "int64"}
_EXTERNAL_MARK: Final = b"location"
"""The key under which a tensor names a file of its own; no graph of ours holds the word."""
_ERRORS_ONLY: Final = 3
"""onnxruntime's level of logging."""


def open_session(network: bytes) -> ort.InferenceSession:
    """A session on one thread that sleeps between two decisions.

    Args:
        network: ONNX.

    Raises:
        ArtifactError: It is not a network that runs, or keeps weights in other files.
    """
    # Since 1.29 onnxruntime's Linux wheels report sessions, with hashes of graph and weights, to
    # their maker, unless this is set before they are loaded. An operator's own setting stands.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime as ort  # noqa: PLC0415  # 0.2 s; a refused artifact does not pay it

    if _EXTERNAL_MARK in network:
        msg = f"{POLICY_FILE}: keeps weights in another file; they must be inside"
        raise ArtifactError(msg)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = _ERRORS_ONLY
    try:
        return ort.InferenceSession(network, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no class in common
        msg = f"{POLICY_FILE}: not a network that can be run ({str(error).splitlines()[0]})"
        raise ArtifactError(msg) from error


def check_tensors(session: ort.InferenceSession, manifest: Manifest) -> None:
    """Refuses a network with other inputs or outputs than the manifest names.

    Raises:
        ArtifactError: Names, types or shapes differ.
    """
    for kind, found, expected in (
        ("inputs", session.get_inputs(), manifest.network.inputs),
        ("outputs", session.get_outputs(), manifest.network.outputs),
    ):
        tensors = tuple(_tensor(argument) for argument in found)
        if tensors != expected:
            msg = f"{POLICY_FILE}: {kind} are {_shown(tensors)}, expected {_shown(expected)}"
            raise ArtifactError(msg)


def _tensor(argument: Any) -> Tensor:  # noqa: ANN401  # onnxruntime's NodeArg has no public class
    kind = _TYPES.get(argument.type, argument.type)
    return Tensor(argument.name, kind, tuple(argument.shape))


def _shown(tensors: tuple[Tensor, ...]) -> str:
    return ", ".join(f"{t.name} {t.dtype} {list(t.shape)}" for t in tensors) or "none"
