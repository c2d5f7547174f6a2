"""Tiny trained policies, and artifacts that are changed and then sealed anew."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gatepilot.agents.artifact.export import Trained
from gatepilot.agents.artifact.folder import read_folder, sha256
from gatepilot.agents.artifact.layout import GOLDEN_FILE, MANIFEST_FILE, POLICY_FILE
from gatepilot.agents.artifact.manifest import Manifest, Origin, canonical, parse_manifest
from gatepilot.agents.artifact.runtime import ArtifactPolicy, load_artifact
from gatepilot.agents.artifact.signing import sign, verify_signature
from gatepilot.agents.config import TrainingConfig
from gatepilot.agents.evaluation import Progress, no_progress
from gatepilot.agents.learned_policy import load_policy
from gatepilot.agents.training import Training

from ..training_helpers import ListRecorder


class Quiet:
    """Shows nothing."""

    def start(self, what: str, ticks: int) -> Progress:
        del what, ticks
        return no_progress


def train(config: TrainingConfig, folder: Path) -> Trained:
    """Trains for a few updates."""
    training = Training(config)
    result = training.run(folder, ListRecorder())
    origin = Origin(
        run_id="0123456789abcdef0123456789abcdef",
        seed=config.seed,
        steps=config.steps,
        scenarios=tuple(scenario.name for scenario in training.scenarios),
        config_yaml="name: tiny\n",
        scenarios_yaml="- name: tiny\n",
        git_commit=None,
        git_dirty=None,
        traffic="model",
        validation={"return_mean": result.validation.return_mean},
        versions={"torch": "2"},
    )
    policy = load_policy(result.model_path, config)
    return Trained(policy, config, training.scenarios, training.contract, origin)


def load(folder: Path, public_key: Path) -> ArtifactPolicy:
    """All checks, the signature's in this process: a child for each would take minutes."""
    return load_artifact(folder, public_key=public_key, check_signature=verify_signature)


def manifest_of(folder: Path) -> Manifest:
    return parse_manifest(read_folder(folder)[MANIFEST_FILE])


def golden_of(folder: Path) -> dict[str, NDArray[np.generic]]:
    with np.load(folder / GOLDEN_FILE, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def resealed(
    source: Path,
    target: Path,
    private_key: Path,
    files: Mapping[str, bytes],
    **changes: object,
) -> Path:
    """A copy with other content whose hashes and signature are good: only what it says is bad."""
    shutil.copytree(source, target)
    for name, content in files.items():
        (target / name).write_bytes(content)
    manifest = parse_manifest((source / MANIFEST_FILE).read_bytes())
    hashes = {name: sha256((target / name).read_bytes()) for name in (POLICY_FILE, GOLDEN_FILE)}
    changed = replace(manifest, **{"files": hashes, **changes})  # type: ignore[arg-type]
    (target / MANIFEST_FILE).write_bytes(canonical(changed))
    sign(target, private_key)
    return target
