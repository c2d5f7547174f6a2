"""`manifest.json`: what an artifact is, how it is called, and where it comes from.

Its bytes name the SHA-256 of every other file; the SHA-256 of its bytes is the artifact's digest.
There is one way to write a manifest (`canonical`); a file written in another way is refused.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from ...envs.schema.fingerprint import Contract
from ...envs.schema.observation import ObservationSpec
from ...envs.schema.settings import Limits
from ..baselines.planner.advisor import advisor_identity, identified
from ..baselines.planner.params import PlannerParams
from .errors import ArtifactError, FingerprintMismatchError
from .layout import (
    FORMAT,
    MANIFEST_FILE,
    QUANTILE_LEVELS,
    SEALED_FILES,
    STRICT,
    Layout,
    Tensor,
    action_table,
    expected_tensors,
)


@dataclass(frozen=True, slots=True)
class Network:
    """What `policy.onnx` looks like from outside."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    opset: int
    """Version of ONNX's operator set."""
    layout: Layout
    """`heads`: logits of the scaling head, then of the threshold head; the action is two indices.
    `table`: values of the nine actions; the action is one index, `3 * scaling + threshold`."""
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Normaliser:
    """`clip((x - mean) / spread, -clip, clip)`: inside the network, here for the reader."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    mean: tuple[float, ...]
    spread: tuple[float, ...]
    clip: float


@dataclass(frozen=True, slots=True)
class Feature:
    """What training saw of one observation entry, under the policy and under a slow random walk."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    name: str
    low: float
    """The smallest value."""
    high: float
    """The largest value."""
    quantiles: tuple[float, ...]
    """At `QUANTILE_LEVELS`."""


@dataclass(frozen=True, slots=True)
class Parity:
    """How the network in the file was compared with the trained one."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    observations: int
    """Observations on which both were asked."""
    ties: int
    """Of these, those with different answers: ties, which float32's rounding decides."""
    max_logit_error: float
    """The largest distance of a logit from its value in double precision."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the policy comes from."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    run_id: str
    """MLflow's id of the training."""
    seed: int
    """Of the training."""
    steps: int
    """Training steps asked for."""
    scenarios: tuple[str, ...]
    """Names of the scenarios it was trained on."""
    config_yaml: str
    """The training's configuration."""
    scenarios_yaml: str
    """The scenarios, in full: a list."""
    git_commit: str | None
    git_dirty: bool | None
    traffic: str
    """What `features` was taken from: `trace` or `model` (the trace was not here at export)."""
    validation: dict[str, float]
    """Figures of this checkpoint on the validation windows; empty for a training under way."""
    versions: dict[str, str]
    """Of the libraries that trained and exported it."""


@dataclass(frozen=True, slots=True)
class ReplicaLimits:
    """How many replicas the policy was trained with."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    min_replicas: int
    max_replicas: int


@dataclass(frozen=True)
class Manifest:
    """All that is said about an artifact."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    format: str
    fingerprint: str
    """Of the contract."""
    contract: dict[str, Any]
    """`Contract.as_dict()` of the code that trained it."""
    control_interval_s: float
    """Seconds between two decisions, as in the contract."""
    frame_stack: int
    """Ticks an observation shows side by side, as in the contract."""
    network: Network
    actions: tuple[tuple[int, int], ...]
    """The nine actions as steps of replicas and of the threshold, by `3 * scaling + threshold`."""
    normaliser: Normaliser
    limits: ReplicaLimits
    advised_sites: tuple[dict[str, Any], ...]
    """What the advisor knew of each of the training's sites (`agents.baselines.site.Site`), as the
    scenarios have them: their variants' cold starts lie in the bounds of `origin.config_yaml`.
    Empty: the policy sees no advice. The advisor itself stands in the contract."""
    features: tuple[Feature, ...]
    """One for each observation entry, in order."""
    golden_vectors: int
    """Observations with their actions in `golden.npz`."""
    refused_vectors: int
    """Non-finite observations in it, which must be refused."""
    parity: Parity
    origin: Origin
    files: dict[str, str]
    """SHA-256 of the other sealed files, hexadecimal."""

    @property
    def digest(self) -> str:
        """The artifact's digest: SHA-256 of the manifest's bytes, hexadecimal."""
        return hashlib.sha256(canonical(self)).hexdigest()

    @property
    def observation_spec(self) -> ObservationSpec:
        """What the policy sees."""
        return self.contract_object().observation

    @property
    def advisor(self) -> PlannerParams | None:
        """Of the planner whose advice the policy sees; `None`: it sees none.

        Raises:
            FingerprintMismatchError: This version of the code has no such advisor.
        """
        if "advice" not in self.contract:
            return None
        try:
            return identified(self.contract["advice"]["advisor"])
        except (KeyError, TypeError, AttributeError) as error:
            msg = f"{MANIFEST_FILE}: the contract's advice is none ({error!r})"
            raise FingerprintMismatchError(msg) from error
        except ValueError as error:
            msg = f"{MANIFEST_FILE}: {error}: train and export it again"
            raise FingerprintMismatchError(msg) from error

    @property
    def replica_limits(self) -> Limits:
        """The limits it was trained with."""
        return Limits(self.limits.min_replicas, self.limits.max_replicas)

    def contract_object(self) -> Contract:
        """The contract, rebuilt by this version of the code.

        Raises:
            FingerprintMismatchError: This version of the code has another contract under the same
                parameters, or the recorded contract is not one.
        """
        advisor = advisor_identity(self.advisor)
        try:
            observation = self.contract["observation"]
            contract = Contract(
                ObservationSpec(observation["preset"], observation["frame_stack"]),
                control_interval_s=self.contract["control_interval_s"],
                window_s=self.contract["window_s"],
                minimum_samples=self.contract["minimum_samples"],
                advisor=advisor,
            )
            same = contract.as_dict() == self.contract
        except (KeyError, TypeError, ValueError) as error:
            msg = f"{MANIFEST_FILE}: the contract is not one ({error!r})"
            raise FingerprintMismatchError(msg) from error
        if not same or contract.fingerprint != self.fingerprint:
            msg = (
                f"{MANIFEST_FILE}: trained under contract {self.fingerprint[:12]}, but this version"
                f" of gatepilot has {contract.fingerprint[:12]}: train and export it again"
            )
            raise FingerprintMismatchError(msg)
        return contract

    def check_files(self, content: Mapping[str, bytes]) -> None:
        """Refuses other files than the ones named.

        Args:
            content: By name.

        Raises:
            ArtifactError: A file is not what it was at the export.
        """
        for name, digest in self.files.items():
            if hashlib.sha256(content[name]).hexdigest() != digest:
                msg = f"{name}: not what the manifest names: it was changed after the export"
                raise ArtifactError(msg)


def canonical(manifest: Manifest) -> bytes:
    """The one way to write a manifest: sorted keys, one a line, ASCII, ending in a new line."""
    return canonical_json(asdict(manifest))


def canonical_json(content: Mapping[str, Any]) -> bytes:
    """Plain content in the one way that artifacts are written."""
    text = json.dumps(content, sort_keys=True, indent=1, allow_nan=False)
    return f"{text}\n".encode("ascii")


def parse_manifest(content: bytes) -> Manifest:
    """Reads a manifest, strictly.

    Args:
        content: The file's bytes.

    Raises:
        ArtifactError: It is malformed, of another format, not written canonically, or contradicts
            itself: one line that starts with the file's name.
    """
    try:
        manifest = _adapter().validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        msg = f"{MANIFEST_FILE}: {where + ': ' if where else ''}{first['msg']}"
        raise ArtifactError(msg.splitlines()[0]) from error
    if manifest.format != FORMAT:
        msg = f"{MANIFEST_FILE}: format is {manifest.format!r}, expected {FORMAT!r}"
        raise ArtifactError(msg)
    if canonical(manifest) != content:
        msg = f"{MANIFEST_FILE}: not as gatepilot writes it: it was changed after the export"
        raise ArtifactError(msg)
    _check_consistency(manifest)
    return manifest


def _check_consistency(manifest: Manifest) -> None:
    """Refuses what contradicts the contract.

    Raises:
        ArtifactError: Something does.
    """
    spec = manifest.observation_spec
    entries = spec.entries
    inputs, outputs = expected_tensors(manifest.network.layout, len(entries))
    sizes = {len(manifest.normaliser.mean), len(manifest.normaliser.spread)}
    limits = manifest.limits
    agreements = {
        "control_interval_s": manifest.control_interval_s
        == manifest.contract["control_interval_s"],
        "frame_stack": manifest.frame_stack == spec.frame_stack,
        "network.inputs": manifest.network.inputs == inputs,
        "network.outputs": manifest.network.outputs == outputs,
        "actions": manifest.actions == action_table(),
        "normaliser": sizes == {len(entries)},
        "advised_sites": spec.is_advised == bool(manifest.advised_sites),
        "features": tuple(feature.name for feature in manifest.features) == entries,
        "features.quantiles": {len(f.quantiles) for f in manifest.features}
        == {len(QUANTILE_LEVELS)},
        "limits": 1 <= limits.min_replicas <= limits.max_replicas,
        "files": manifest.files.keys() == set(SEALED_FILES),
    }
    for key, agrees in agreements.items():
        if not agrees:
            msg = f"{MANIFEST_FILE}: {key}: contradicts the contract or the format"
            raise ArtifactError(msg)


@functools.cache
def _adapter() -> TypeAdapter[Manifest]:
    """The checker of manifests."""
    return TypeAdapter(Manifest)
