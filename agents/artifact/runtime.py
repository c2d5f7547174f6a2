"""Loads, checks and runs an artifact, with onnxruntime and NumPy.

No torch, stable-baselines3, Gymnasium or MLflow is imported, and nothing is unpickled: the network
is ONNX (protobuf), the vectors are arrays read with `allow_pickle=False`, the rest is JSON. (NumPy
and the standard library import the module `pickle`; no unpickler is ever called.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...envs.schema.action import from_discrete
from ...envs.schema.fingerprint import Contract
from .errors import ArtifactError, FingerprintMismatchError, NonFiniteError, SignatureError
from .folder import read_folder, sha256
from .golden import LOGIT_TOLERANCE, GoldenVectors, chosen, logit_scale
from .layout import (
    ACTION,
    GOLDEN_FILE,
    INPUT,
    LOGITS,
    MANIFEST_FILE,
    POLICY_FILE,
    SIGNATURE_FILE,
    SIGNED_FILES,
)
from .manifest import Manifest, parse_manifest
from .session import check_tensors, open_session
from .signing import verify_in_child

if TYPE_CHECKING:
    import onnxruntime as ort

MIN_GOLDEN_VECTORS: Final = 1000
"""Fewer are refused."""
CheckSignature: TypeAlias = Callable[[Path, Path], Mapping[str, str]]
"""From artifact and public key to the SHA-256 of each signed file."""


@dataclass(frozen=True, slots=True)
class PolicyOutput:
    """What a policy says about one observation."""

    action: tuple[int, int]
    """Indices of the scaling head and of the threshold head; 1 is "no change"."""
    logits: tuple[float, ...]
    """What it was chosen from: six (two heads of three) or nine (the table)."""


class ArtifactPolicy:
    """A loaded artifact that has passed every check; also an `agents.policy.Policy`."""

    def __init__(
        self,
        manifest: Manifest,
        session: ort.InferenceSession,
        *,
        folder: Path,
        is_signed: bool,
    ) -> None:
        """Wraps a session; `load_artifact` makes one.

        Args:
            manifest: What the artifact says about itself.
            session: The network.
            folder: Where it was read from.
            is_signed: Whether a signature was checked with a given key.
        """
        self.manifest = manifest
        self.digest = manifest.digest
        self.folder = folder
        self.is_signed = is_signed
        self._session = session
        self._entries = len(manifest.features)
        self._is_flat = manifest.network.layout == "table"

    def decide(self, observation: NDArray[np.float32]) -> PolicyOutput:
        """Chooses for one gateway.

        Args:
            observation: Shape `(D,)`, as `envs.schema.observation.encode` makes it.

        Raises:
            NonFiniteError: The observation or the logits hold NaN or an infinity.
            ArtifactError: The observation has another shape or type.
        """
        logits, actions = self._run(np.asarray(observation)[np.newaxis])
        scale, threshold = actions[0]
        return PolicyOutput((int(scale), int(threshold)), tuple(logits[0].tolist()))

    def act(self, observation: NDArray[np.float32]) -> NDArray[np.int64]:
        """Chooses for n gateways.

        Args:
            observation: Shape `(n, D)`.

        Returns:
            Shape `(n, 2)`: head indices; 1 is "no change".

        Raises:
            NonFiniteError: Any observation or logit is NaN or infinite.
            ArtifactError: The observations have another shape or type.
        """
        return self._run(np.asarray(observation))[1]

    def outputs(
        self, observation: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Logits `(n, K)` and head indices `(n, 2)`, checked like `act`."""
        return self._run(np.asarray(observation))

    def _run(
        self, observation: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        if observation.dtype != np.float32 or observation.shape[1:] != (self._entries,):
            msg = (
                f"{self.folder}: observation is {observation.dtype} {observation.shape}, "
                f"expected float32 (n, {self._entries})"
            )
            raise ArtifactError(msg)
        if not np.isfinite(observation).all():
            column = int(np.argwhere(~np.isfinite(observation))[0][1])
            msg = f"observation entry {self.manifest.features[column].name} is not finite"
            raise NonFiniteError(msg)
        logits, actions = self._session.run([LOGITS, ACTION], {INPUT: observation})
        if not np.isfinite(logits).all():
            msg = f"{self.folder}: the network's logits are not finite"
            raise NonFiniteError(msg)
        return logits, from_discrete(actions) if self._is_flat else actions


def load_artifact(
    folder: Path,
    *,
    public_key: Path | None,
    allow_unsigned: bool = False,
    contract: Contract | None = None,
    check_signature: CheckSignature = verify_in_child,
) -> ArtifactPolicy:
    """Makes every check there is, then hands out the policy.

    The order is: the folder's files, the manifest, the hashes, the contract, the signature, and
    only then the network and the golden vectors.

    Args:
        folder: The artifact.
        public_key: Who must have signed it. `None` needs `allow_unsigned`; a signature is then not
            looked at.
        allow_unsigned: Take an artifact without a signature. With a key, one that is there must
            still be good.
        contract: What the caller measures and sets; `None`: any that this code knows.
        check_signature: How a signature is checked; the default leaves no memory behind.

    Raises:
        FingerprintMismatchError: It was trained under another contract.
        SignatureError: Its signature is missing or refused.
        ArtifactError: Anything else that is not as exported.
    """
    files = read_folder(folder)
    try:
        manifest = parse_manifest(files[MANIFEST_FILE])
        manifest.check_files(files)
        _check_contract(manifest, contract)
    except FingerprintMismatchError as error:
        raise FingerprintMismatchError(f"{folder}: {error}") from error
    except ArtifactError as error:
        raise ArtifactError(f"{folder}: {error}") from error
    is_signed = _check_origin(folder, files, public_key, allow_unsigned, check_signature)
    try:
        session = open_session(files[POLICY_FILE])
        check_tensors(session, manifest)
        golden = GoldenVectors.from_bytes(
            files[GOLDEN_FILE],
            entries=len(manifest.features),
            logits=int(manifest.network.outputs[0].shape[1]),
        )
        policy = ArtifactPolicy(manifest, session, folder=folder, is_signed=is_signed)
        _check_golden(policy, golden)
    except ArtifactError as error:
        raise ArtifactError(f"{folder}: {error}") from error
    return policy


def _check_origin(
    folder: Path,
    files: Mapping[str, bytes],
    public_key: Path | None,
    allow_unsigned: bool,
    check_signature: CheckSignature,
) -> bool:
    """Whether it is signed with the given key; what may not be used is refused."""
    if public_key is None:
        if not allow_unsigned:
            msg = f"{folder}: no public key to check the signature with; name one"
            raise SignatureError(msg)
        return False
    if SIGNATURE_FILE not in files:
        if not allow_unsigned:
            msg = f"{folder}: {SIGNATURE_FILE} missing: the artifact is unsigned"
            raise SignatureError(msg)
        return False
    signed = check_signature(folder, public_key)
    if dict(signed) != {name: sha256(files[name]) for name in SIGNED_FILES}:
        msg = f"{folder}: the files changed while they were checked"
        raise SignatureError(msg)
    return True


def _check_contract(manifest: Manifest, wanted: Contract | None) -> None:
    found = manifest.contract_object()
    if wanted is not None and wanted.fingerprint != found.fingerprint:
        msg = (
            f"trained under contract {found.fingerprint[:12]} (tick {found.control_interval_s:g} s,"
            f" window {found.window_s:g} s, observation {found.observation.preset}), expected "
            f"{wanted.fingerprint[:12]} (tick {wanted.control_interval_s:g} s, window "
            f"{wanted.window_s:g} s, observation {wanted.observation.preset})"
        )
        raise FingerprintMismatchError(msg)


def _check_golden(policy: ArtifactPolicy, golden: GoldenVectors) -> None:
    """Every vector leads to its action, every non-finite one to a refusal."""
    manifest = policy.manifest
    counts = (len(golden.observations), len(golden.refused))
    if counts != (manifest.golden_vectors, manifest.refused_vectors):
        msg = f"{GOLDEN_FILE}: {counts} vectors, but the manifest names other numbers"
        raise ArtifactError(msg)
    if counts[0] < MIN_GOLDEN_VECTORS or counts[1] == 0:
        msg = f"{GOLDEN_FILE}: {counts[0]} vectors, expected {MIN_GOLDEN_VECTORS} or more"
        raise ArtifactError(msg)
    logits, actions = policy.outputs(golden.observations)
    for reason, wrong in {
        "leads to another action": (actions != golden.actions).any(axis=1),
        "has an action that is not the best of its logits": (
            chosen(logits, manifest.network.layout) != actions
        ).any(axis=1),
        "leads to other logits": np.abs(logits - golden.logits).max(axis=1)
        > LOGIT_TOLERANCE * logit_scale(golden.logits),
    }.items():
        if wrong.any():
            msg = f"{GOLDEN_FILE}: vector {int(np.flatnonzero(wrong)[0])} {reason}"
            raise ArtifactError(msg)
    for i, observation in enumerate(golden.refused):
        try:
            policy.decide(observation)
        except NonFiniteError:
            continue
        msg = f"{GOLDEN_FILE}: non-finite vector {i} became an action"
        raise ArtifactError(msg)
