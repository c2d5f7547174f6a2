"""The manifest: one way to write it, and nothing in it that contradicts the contract."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from gatepilot.agents.artifact.errors import ArtifactError, FingerprintMismatchError
from gatepilot.agents.artifact.layout import MANIFEST_FILE, action_table
from gatepilot.agents.artifact.manifest import (
    Manifest,
    ReplicaLimits,
    canonical,
    canonical_json,
    parse_manifest,
)
from gatepilot.agents.scenario_site import scenario_site
from gatepilot.envs.schema import fields
from gatepilot.envs.schema.action import from_discrete
from gatepilot.envs.schema.settings import Limits

from .artifact_kit import manifest_of
from .conftest import Sealed

pytestmark = pytest.mark.timeout(60)  # the first test trains and exports


@pytest.fixture
def manifest(sealed: Sealed) -> Manifest:
    return manifest_of(sealed.folder)


def test_it_says_what_was_trained(sealed: Sealed, manifest: Manifest) -> None:
    trained = sealed.trained
    content = (sealed.folder / MANIFEST_FILE).read_bytes()
    assert canonical(manifest) == content
    assert manifest.digest == hashlib.sha256(content).hexdigest()
    assert manifest.contract_object() == trained.contract
    assert manifest.fingerprint == trained.contract.fingerprint
    assert manifest.observation_spec == trained.config.observation_spec
    assert manifest.frame_stack == trained.config.frame_stack
    assert manifest.control_interval_s == trained.scenarios[0].control.tick_s
    several = len(trained.scenarios) > 1
    assert manifest.replica_limits == (Limits(1, 8) if several else Limits(1, 6))
    assert manifest.advisor == trained.config.general_advisor
    sites = [asdict(scenario_site(scenario)) for scenario in trained.scenarios]
    is_advised = trained.config.observation == "advised"
    assert list(manifest.advised_sites) == (json.loads(json.dumps(sites)) if is_advised else [])
    assert manifest.origin.scenarios == (("tiny", "tiny_faults") if several else ("tiny",))
    assert manifest.origin == trained.origin
    assert manifest.network.layout == ("heads" if trained.config.algo == "ppo" else "table")
    assert manifest.golden_vectors >= 1000
    assert manifest.refused_vectors == 3 * len(manifest.observation_spec.entries) + 3
    for name, digest in manifest.files.items():
        assert hashlib.sha256((sealed.folder / name).read_bytes()).hexdigest() == digest


def test_the_action_table_is_the_contract_s() -> None:
    for index, steps in enumerate(action_table()):
        assert tuple(from_discrete([index])[0] - 1) == steps  # type: ignore[arg-type]


def test_ranges_and_quantiles_of_what_training_saw(manifest: Manifest) -> None:
    by_name = {feature.name: feature for feature in manifest.features}
    assert tuple(by_name) == manifest.observation_spec.entries
    for feature in manifest.features:
        assert feature.low <= feature.quantiles[0]
        assert list(feature.quantiles) == sorted(feature.quantiles)
        assert feature.quantiles[-1] <= feature.high
    replicas = by_name["replicas_requested"]
    assert replicas.low == pytest.approx(1 / 32)
    most = manifest.replica_limits.max_replicas
    assert replicas.high == pytest.approx(most / 32)  # the walk goes through all of them
    threshold = by_name["breaker_threshold"]
    assert threshold.low < 0.5 < threshold.high


def edited(manifest: Manifest, *path: str, value: object) -> bytes:
    """The manifest with one value set, canonical again."""
    content: dict[str, Any] = json.loads(canonical(manifest))
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return canonical_json(content)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("note",), "x", "note: Unexpected keyword argument"),
        (("origin", "note"), "x", r"origin\.note: Unexpected keyword argument"),
        (("golden_vectors",), "1500", "golden_vectors: Input should be a valid integer"),
        (("golden_vectors",), True, "golden_vectors: Input should be a valid integer"),
        (("format",), "gatepilot-artifact/3", "format is 'gatepilot-artifact/3', expected"),
        (("control_interval_s",), 5.0, "control_interval_s: contradicts the contract"),
        (("frame_stack",), 7, "frame_stack: contradicts the contract"),
        (("features",), [], "features: contradicts the contract"),
        (("normaliser", "mean"), [0.0], "normaliser: contradicts the contract"),
        (("network", "inputs"), [], r"network\.inputs: contradicts"),
        (("files",), {"policy.onnx": "00"}, "files: contradicts"),
        (("files",), {"../policy.onnx": "00", "golden.npz": "00"}, "files: contradicts"),
        (("actions",), [[0, 0]] * 9, "actions: contradicts"),
        (("advised_sites",), [], "advised_sites: contradicts"),
        (("advised_sites",), [3], "advised_sites.0: Input should be an object"),
    ],
)
def test_refusals(ppo: Sealed, path: tuple[str, ...], value: object, reason: str) -> None:
    content = edited(manifest_of(ppo.folder), *path, value=value)
    with pytest.raises(ArtifactError, match=reason) as caught:
        parse_manifest(content)
    assert str(caught.value).startswith(MANIFEST_FILE)
    assert len(str(caught.value).splitlines()) == 1


def test_another_advisor_is_refused(ppo: Sealed, dqn: Sealed) -> None:
    manifest = manifest_of(ppo.folder)
    for path, value, reason in (
        (
            ("version",),
            99,
            "advisor planner 99: this version of gatepilot has planner 1: train and",
        ),
        (("name",), "hpa", "advisor hpa 1: this version of gatepilot has planner 1"),
        (("params", "courage"), 1.0, "has other parameters than planner 1"),
        (("params", "headroom"), 0.0, "headroom is 0.0, expected a number above 0"),
        # a good advisor, but not the one that the fingerprint names
        (("params", "reserve"), 9.0, "trained under contract"),
    ):
        content = edited(manifest, "contract", "advice", "advisor", *path, value=value)
        with pytest.raises(FingerprintMismatchError, match=reason) as caught:
            parse_manifest(content)
        assert len(str(caught.value).splitlines()) == 1
    nonsense: object
    for nonsense in ({}, None, 7):
        with pytest.raises(FingerprintMismatchError, match="the contract"):
            parse_manifest(edited(manifest, "contract", "advice", value=nonsense))
    documented = manifest_of(dqn.folder)
    advice = manifest.contract["advice"]
    with pytest.raises(FingerprintMismatchError, match="'documented' was given one"):
        parse_manifest(edited(documented, "contract", "advice", value=advice))
    with pytest.raises(ArtifactError, match="advised_sites: contradicts"):
        parse_manifest(edited(documented, "advised_sites", value=[{}]))


def test_the_same_content_written_otherwise_is_refused(ppo: Sealed) -> None:
    content = canonical(manifest_of(ppo.folder))
    for other in (
        content + b" ",
        content.rstrip(),
        json.dumps(json.loads(content)).encode(),
        content.replace(b'"fingerprint"', b'"fi\\u006egerprint"', 1),
        content.replace(b'"frame_stack"', b'"format": "a",\n "frame_stack"', 1),
    ):
        with pytest.raises(ArtifactError, match="not as gatepilot writes it"):
            parse_manifest(other)
    for broken in (b"", b"\x00", b"[]", b"\xff\xfe", content[:-9], b"[" * 100_000):
        with pytest.raises(ArtifactError, match=MANIFEST_FILE):
            parse_manifest(broken)
    nan = content.replace(b'"clip": 5.0', b'"clip": NaN')
    with pytest.raises(ArtifactError, match=r"normaliser\.clip"):
        parse_manifest(nan)


def test_another_contract_is_refused(ppo: Sealed, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = manifest_of(ppo.folder)
    with pytest.raises(FingerprintMismatchError, match="trained under contract 000"):
        parse_manifest(canonical(replace(manifest, fingerprint="0" * 64)))
    contract = manifest.contract | {"window_s": 30.0}
    with pytest.raises(FingerprintMismatchError):
        parse_manifest(canonical(replace(manifest, contract=contract)))
    with pytest.raises(FingerprintMismatchError, match="the contract is not one"):
        parse_manifest(canonical(replace(manifest, contract={})))
    with pytest.raises(ArtifactError, match="limits"):
        parse_manifest(canonical(replace(manifest, limits=ReplicaLimits(3, 2))))
    monkeypatch.setattr("gatepilot.envs.schema.fingerprint.FIELDS", fields.FIELDS[:-1])
    with pytest.raises(FingerprintMismatchError, match="train and export it again"):
        parse_manifest(canonical(manifest))
