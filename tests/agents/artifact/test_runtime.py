"""Loading makes every check; a loaded policy never turns a non-finite number into an action."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gatepilot.agents.artifact.errors import (
    ArtifactError,
    FingerprintMismatchError,
    NonFiniteError,
    SignatureError,
)
from gatepilot.agents.artifact.runtime import PolicyOutput, load_artifact
from gatepilot.agents.baselines.planner.advisor import advisor_identity
from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.agents.policy import Policy
from gatepilot.envs.schema.fingerprint import Contract
from gatepilot.envs.schema.observation import ObservationSpec

from .artifact_kit import golden_of, load
from .conftest import Sealed

pytestmark = pytest.mark.timeout(60)  # the first test trains and exports

IN_A_PROCESS_OF_ITS_OWN = """
import json, pickle, sys
from pathlib import Path

class Refused(pickle.Unpickler):
    def __init__(self, *arguments, **options):
        raise AssertionError("something was unpickled")

def refused(*arguments, **options):
    raise AssertionError("something was unpickled")

pickle.Unpickler, pickle.load, pickle.loads = Refused, refused, refused
from gatepilot.agents.artifact.runtime import load_artifact
policy = load_artifact(Path(sys.argv[1]), public_key=Path(sys.argv[2]))
import numpy as np
observations = np.random.default_rng(0).uniform(
    0, 1, (3000, len(policy.manifest.features))
).astype(np.float32)
for observation in observations:
    policy.decide(observation)
status = Path("/proc/self/status").read_text()
print(json.dumps({
    "modules": sorted(sys.modules),
    "memory_mib": int(status.split("VmHWM:")[1].split()[0]) / 1024,
    "digest": policy.digest,
}))
"""
ABSENT = (
    "torch",
    "stable_baselines3",
    "gymnasium",
    "mlflow",
    "numba",
    "onnx",
    "model_signing",
    "cloudpickle",
    "dill",
    "joblib",
)


def test_the_process_of_a_bridge(sealed: Sealed, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    quiet_by_chance = ("CI", "ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS")
    environment = {name: v for name, v in os.environ.items() if name not in quiet_by_chance}
    done = subprocess.run(  # noqa: S603  # a fixed command
        [
            sys.executable,
            "-c",
            IN_A_PROCESS_OF_ITS_OWN,
            str(sealed.folder),
            str(sealed.public_key),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=environment | {"HOME": str(home)},
    )
    assert done.returncode == 0, done.stderr
    assert list(home.rglob("*")) == []  # onnxruntime's telemetry would leave an identity there
    found = json.loads(done.stdout)
    loaded = {name.split(".")[0] for name in found["modules"]}
    assert loaded.isdisjoint(ABSENT)
    assert found["digest"] == load(sealed.folder, sealed.public_key).digest
    assert found["memory_mib"] < 120


def test_it_is_a_policy_that_acts_as_the_trained_one(sealed: Sealed) -> None:
    policy = load(sealed.folder, sealed.public_key)
    as_policy: Policy = policy
    golden = golden_of(sealed.folder)
    observations = golden["observations"].astype(np.float32)
    actions = as_policy.act(observations)
    np.testing.assert_array_equal(actions, golden["actions"])
    np.testing.assert_array_equal(actions, sealed.trained.policy.act(observations))
    assert actions.dtype == np.int64
    for observation, action, logits in zip(
        observations[:50], actions[:50], golden["logits"][:50], strict=True
    ):
        output = policy.decide(observation)
        assert output == PolicyOutput((int(action[0]), int(action[1])), output.logits)
        np.testing.assert_allclose(output.logits, logits, atol=1e-4)
    assert policy.is_signed
    assert policy.folder == sealed.folder
    assert policy.act(observations[:0]).shape == (0, 2)


def test_non_finite_observations_never_become_an_action(sealed: Sealed) -> None:
    policy = load(sealed.folder, sealed.public_key)
    refused = golden_of(sealed.folder)["refused"].astype(np.float32)
    good = golden_of(sealed.folder)["observations"].astype(np.float32)
    assert not np.isfinite(refused).all(axis=1).any()
    for observation in refused:
        with pytest.raises(NonFiniteError, match="is not finite"):
            policy.decide(observation)
        with pytest.raises(NonFiniteError):
            policy.act(np.stack([good[0], observation, good[1]]))
    spoiled = good[0].copy()
    spoiled[1] = np.nan
    with pytest.raises(NonFiniteError, match=re.escape(sealed.spec.entries[1])):
        policy.decide(spoiled)


def test_another_shape_or_type_is_refused(ppo: Sealed) -> None:
    policy = load(ppo.folder, ppo.public_key)
    size = len(ppo.spec.entries)
    for wrong in (
        np.zeros(size - 1, np.float32),
        np.zeros(size, np.float64),
        np.zeros((1, size), np.float32),
        np.float32(0),
    ):
        with pytest.raises(ArtifactError, match="expected float32"):
            policy.decide(wrong)  # type: ignore[arg-type]


def test_the_caller_s_contract_must_be_the_same(ppo: Sealed) -> None:
    contract = ppo.trained.contract
    policy = load_artifact(ppo.folder, public_key=None, allow_unsigned=True, contract=contract)
    assert not policy.is_signed
    for other in (
        replace(contract, control_interval_s=5.0),
        replace(contract, window_s=30.0),
        replace(contract, minimum_samples=5),
        replace(contract, advisor=advisor_identity(PlannerParams(reserve=9))),
        Contract(ObservationSpec("documented")),
    ):
        with pytest.raises(FingerprintMismatchError, match="trained under contract") as caught:
            load_artifact(ppo.folder, public_key=None, allow_unsigned=True, contract=other)
        assert len(str(caught.value).splitlines()) == 1


def test_unsigned_ones_need_to_be_allowed(ppo: Sealed, tmp_path: Path) -> None:
    bare = tmp_path / "artifact"
    shutil.copytree(ppo.folder, bare)
    (bare / "model.sig").unlink()
    with pytest.raises(SignatureError, match="the artifact is unsigned"):
        load_artifact(bare, public_key=ppo.public_key)
    with pytest.raises(SignatureError, match="no public key"):
        load_artifact(ppo.folder, public_key=None)
    assert not load_artifact(bare, public_key=ppo.public_key, allow_unsigned=True).is_signed
    assert not load_artifact(bare, public_key=None, allow_unsigned=True).is_signed
    shutil.copy(ppo.private_key, bare / "model.sig")  # something there, but no signature
    with pytest.raises(SignatureError, match="not a signature bundle"):
        load_artifact(bare, public_key=ppo.public_key, allow_unsigned=True)


def test_an_empty_folder_is_refused(ppo: Sealed, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArtifactError, match="missing"):
        load_artifact(tmp_path / "empty", public_key=ppo.public_key)
