"""A real artifact without torch: one linear layer, written as ONNX by hand, sealed as usual.

The base install has onnxruntime but neither torch nor onnx, and the bridge's tests must run there.
The policy reads three entries: it scales up on a high request rate, down on a low one, and raises
the threshold with the error rate. An advised one follows the gap that its advisor sees instead of
the rate.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gatepilot.agents.artifact.folder import sha256
from gatepilot.agents.artifact.golden import GoldenVectors
from gatepilot.agents.artifact.layout import (
    FORMAT,
    GOLDEN_FILE,
    MANIFEST_FILE,
    POLICY_FILE,
    action_table,
    expected_tensors,
)
from gatepilot.agents.artifact.manifest import (
    Feature,
    Manifest,
    Network,
    Normaliser,
    Origin,
    Parity,
    ReplicaLimits,
    canonical,
)
from gatepilot.agents.artifact.runtime import ArtifactPolicy, load_artifact
from gatepilot.agents.artifact.session import open_session
from gatepilot.agents.baselines.planner.advisor import advisor_identity
from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.agents.baselines.site import ReplicaSpec, Site
from gatepilot.envs.profiles.profile import load_profile
from gatepilot.envs.schema.fingerprint import Contract
from gatepilot.envs.schema.observation import ObservationSpec
from gatepilot.envs.schema.settings import Limits

TICK_S = 5.0
CONTRACT = Contract(ObservationSpec("extended"), control_interval_s=TICK_S, window_s=60.0)
ADVISED = Contract(
    ObservationSpec("advised"), TICK_S, 60.0, advisor=advisor_identity(PlannerParams())
)
"""What is shown to a policy that is advised."""
PROFILE = "llama-3.1-8b-bf16-l40s-tp1-vllm-kernel"
SITE = Site(
    Limits(1, 8),
    TICK_S,
    replica=ReplicaSpec(
        load_profile(PROFILE).step,
        cold_start_s=20.0,
        kv_capacity_tokens=load_profile(PROFILE).kv_capacity_tokens,
    ),
)
"""Where advised policies were "trained"."""
OPSET = 17
FLOAT, INT64 = 1, 7


def write_artifact(
    folder: Path,
    *,
    contract: Contract = CONTRACT,
    features: Mapping[str, tuple[float, float]] | None = None,
) -> ArtifactPolicy:
    """Writes an unsigned artifact and loads it with all checks.

    Args:
        folder: Where to.
        contract: What it was "trained" under.
        features: Training range by entry; others have their whole range.
    """
    spec = contract.observation
    entries = spec.entries
    graph = linear_policy(*_layer(entries))
    inputs, outputs = expected_tensors("heads", len(entries))
    ranges = {
        name: (float(low), float(high))
        for name, low, high in zip(entries, spec.low, spec.high, strict=True)
    } | dict(features or {})
    golden = _golden(graph, contract)
    vectors = golden.to_bytes()
    manifest = Manifest(
        format=FORMAT,
        fingerprint=contract.fingerprint,
        contract=contract.as_dict(),
        control_interval_s=contract.control_interval_s,
        frame_stack=spec.frame_stack,
        network=Network(OPSET, "heads", inputs, outputs),
        actions=action_table(),
        normaliser=Normaliser((0.0,) * len(entries), (1.0,) * len(entries), 10.0),
        limits=ReplicaLimits(1, 8),
        advised_sites=(asdict(SITE),) if spec.is_advised else (),
        features=tuple(
            Feature(name, *ranges[name], quantiles=tuple(np.linspace(*ranges[name], 7).tolist()))
            for name in entries
        ),
        golden_vectors=len(golden.observations),
        refused_vectors=len(golden.refused),
        parity=Parity(len(golden.observations), 0, 0.0),
        origin=Origin(
            run_id="tiny",
            seed=0,
            steps=1,
            scenarios=("tiny",),
            config_yaml="",
            scenarios_yaml="",
            git_commit=None,
            git_dirty=None,
            traffic="model",
            validation={},
            versions={},
        ),
        files={POLICY_FILE: sha256(graph), GOLDEN_FILE: sha256(vectors)},
    )
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (
        (POLICY_FILE, graph),
        (GOLDEN_FILE, vectors),
        (MANIFEST_FILE, canonical(manifest)),
    ):
        (folder / name).write_bytes(content)
    return load_artifact(folder, public_key=None, allow_unsigned=True)


def _layer(entries: tuple[str, ...]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    weights = np.zeros((len(entries), 6), np.float32)
    bias = np.array([0.55, 0.5, -0.4, -0.5, 0.6, -0.5], np.float32)
    drive = "replicas_gap" if "replicas_gap" in entries else "request_rate_rps"
    weights[entries.index(drive)] = [-1.7, 0.1, 2.3, 0.0, 0.0, 0.0]
    weights[entries.index("error_rate")] = [-0.3, 0.0, 0.7, -1.1, 0.0, 2.9]
    weights[entries.index("kv_usage")] = [0.0, 0.0, 0.9, 1.3, 0.0, -0.7]
    return weights, bias


def _golden(graph: bytes, contract: Contract) -> GoldenVectors:
    spec = contract.observation
    rng = np.random.default_rng(0)
    low, high = spec.low, spec.high
    observations = rng.uniform(low, high, (1100, len(low))).astype(np.float32)
    session = open_session(graph)
    logits, actions = session.run(["logits", "action"], {"observation": observations})
    heads = np.sort(logits.reshape(-1, 2, 3), axis=2)
    clear = ((heads[:, :, 2] - heads[:, :, 1]) > 1e-3).all(axis=1)
    refused = observations[:8].copy()
    refused[np.arange(8), np.arange(8)] = [np.nan, np.inf, -np.inf, np.nan] * 2
    return GoldenVectors(
        observations[clear][:1050], logits[clear][:1050], actions[clear][:1050], refused
    )


def linear_policy(weights: NDArray[np.float32], bias: NDArray[np.float32]) -> bytes:
    """ONNX of `logits = observation @ weights + bias`, `action = argmax` of each head of three."""
    tensors = [
        _tensor("weights", weights),
        _tensor("bias", bias),
        _tensor("heads", np.array([-1, 2, 3], np.int64)),
    ]
    nodes = [
        _node("MatMul", ["observation", "weights"], ["product"]),
        _node("Add", ["product", "bias"], ["logits"]),
        _node("Reshape", ["logits", "heads"], ["by_head"]),
        _node("ArgMax", ["by_head"], ["action"], axis=2, keepdims=0),
    ]
    graph = b"".join(
        [
            *(_field(1, node) for node in nodes),
            _field(2, b"tiny"),
            *(_field(5, tensor) for tensor in tensors),
            _field(11, _value("observation", FLOAT, ["batch", len(weights)])),
            _field(12, _value("logits", FLOAT, ["batch", 6])),
            _field(12, _value("action", INT64, ["batch", 2])),
        ]
    )
    opset = _field(1, b"") + _number(2, OPSET)
    return _number(1, 8) + _field(7, graph) + _field(8, opset)


# The protobuf encoding of what onnx.proto calls NodeProto, TensorProto, ValueInfoProto.


def _node(kind: str, inputs: list[str], outputs: list[str], **attributes: int) -> bytes:
    return b"".join(
        [
            *(_field(1, name.encode()) for name in inputs),
            *(_field(2, name.encode()) for name in outputs),
            _field(4, kind.encode()),
            *(
                _field(5, _field(1, key.encode()) + _number(3, value) + _number(20, 2))
                for key, value in attributes.items()
            ),
        ]
    )


def _tensor(name: str, array: NDArray[np.generic]) -> bytes:
    kind = FLOAT if array.dtype == np.float32 else INT64
    dims = b"".join(_number(1, n) for n in array.shape)
    return dims + _number(2, kind) + _field(8, name.encode()) + _field(9, array.tobytes())


def _value(name: str, kind: int, shape: list[int | str]) -> bytes:
    dims = b"".join(
        _field(1, _number(1, n) if isinstance(n, int) else _field(2, n.encode())) for n in shape
    )
    tensor_type = _number(1, kind) + _field(2, dims)
    return _field(1, name.encode()) + _field(2, _field(1, tensor_type))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return struct.pack(f"{len(groups) + 1}B", *groups, value)
