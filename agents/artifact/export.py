"""A trained policy becomes an artifact: network, vectors, manifest, signature; all or nothing."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...envs.scenario import Scenario
from ...envs.schema.fingerprint import Contract
from ..config import TrainingConfig
from ..learned_policy import LearnedPolicy
from ..scenario_site import scenario_site
from ..tuning import Reporter
from .experience import TrainingTraffic, described
from .folder import sha256
from .layout import FORMAT, GOLDEN_FILE, MANIFEST_FILE, POLICY_FILE, action_table
from .manifest import Manifest, Origin, Parity, ReplicaLimits, canonical
from .network import ActingNetwork, to_onnx
from .parity import compare
from .placing import check_place, placing
from .runtime import ArtifactPolicy, load_artifact
from .session import open_session
from .signing import PUBLIC_KEY_FILE, public_key_of, sign, verify_signature


@dataclass(frozen=True)
class Trained:
    """A policy and all that is known of its training."""

    policy: LearnedPolicy
    config: TrainingConfig
    scenarios: tuple[Scenario, ...]
    contract: Contract
    origin: Origin


def export_policy(
    trained: Trained,
    folder: Path,
    *,
    private_key: Path | None,
    force: bool,
    traces_dir: Path | None,
    reporter: Reporter,
) -> Manifest:
    """Writes an artifact and puts it through every check that the bridge makes.

    Args:
        trained: What to export.
        folder: Where to; it is whole or not there.
        private_key: Signs it; `None`: it stays unsigned.
        force: Whether an artifact that is there may be replaced.
        traces_dir: Folder of the traces; `None`: workload models stand in.
        reporter: Shows how far it is.

    Returns:
        What is said about it.

    Raises:
        ArtifactError: It cannot be written there, or would be refused.
        ParityError: The network in the file decides otherwise than the trained one.
        SignatureError: The key cannot be used.
        ScenarioError: The training's traffic cannot be loaded.
    """
    check_place(folder, force=force)
    if private_key is not None:
        public_key_of(private_key)  # before minutes of work
    traffic = TrainingTraffic(trained.config, trained.scenarios, traces_dir)
    observations = traffic.play(trained.policy, reporter.start("training traffic", traffic.ticks))
    manifest, files = _built(trained, observations)
    with placing(folder, force=force) as made:
        for name, content in files.items():
            (made / name).write_bytes(content)
        _seal(made, private_key)
    return manifest


def _built(
    trained: Trained, observations: NDArray[np.float32]
) -> tuple[Manifest, dict[str, bytes]]:
    """The manifest and the content of every file but the signature."""
    network = ActingNetwork(trained.policy.network)
    shape, normaliser = network.described()
    graph = to_onnx(network)
    contract, clusters = trained.contract, [scenario.cluster for scenario in trained.scenarios]
    sites = dict.fromkeys(scenario_site(scenario) for scenario in trained.scenarios)
    advised = [asdict(site) for site in sites]
    draft = Manifest(
        format=FORMAT,
        fingerprint=contract.fingerprint,
        contract=contract.as_dict(),
        control_interval_s=float(contract.control_interval_s),
        frame_stack=contract.observation.frame_stack,
        network=shape,
        actions=action_table(),
        normaliser=normaliser,
        limits=ReplicaLimits(
            min(cluster.min_replicas for cluster in clusters),
            max(cluster.max_replicas for cluster in clusters),
        ),
        advised_sites=tuple(advised) if contract.observation.is_advised else (),
        features=described(contract.observation.entries, observations),
        golden_vectors=0,
        refused_vectors=0,
        parity=Parity(0, 0, 0.0),
        origin=trained.origin,
        files={},
    )
    exported = ArtifactPolicy(draft, open_session(graph), folder=Path(), is_signed=False)
    found = compare(trained.policy, network, exported, observations)
    vectors = found.golden.to_bytes()
    manifest = replace(
        draft,
        golden_vectors=len(found.golden.observations),
        refused_vectors=len(found.golden.refused),
        parity=found.parity,
        files={POLICY_FILE: sha256(graph), GOLDEN_FILE: sha256(vectors)},
    )
    files = {POLICY_FILE: graph, GOLDEN_FILE: vectors, MANIFEST_FILE: canonical(manifest)}
    return manifest, files


def _seal(made: Path, private_key: Path | None) -> None:
    """Signs what has been written, and loads it as the bridge would."""
    if private_key is None:
        load_artifact(made, public_key=None, allow_unsigned=True)
        return
    sign(made, private_key)
    with tempfile.TemporaryDirectory() as name:
        public_key = Path(name) / PUBLIC_KEY_FILE
        public_key.write_bytes(public_key_of(private_key))
        load_artifact(made, public_key=public_key, check_signature=verify_signature)
