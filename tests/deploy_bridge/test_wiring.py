"""The composition root: shadow cannot write, and what does not fit together is refused."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import pytest

from gatepilot.agents.artifact.errors import ArtifactError
from gatepilot.deploy_bridge import actuators, wiring
from gatepilot.deploy_bridge.actuators.noop import NoopActuator
from gatepilot.deploy_bridge.audit.ledger import Ledger
from gatepilot.deploy_bridge.audit.reader import LedgerReader
from gatepilot.deploy_bridge.decision import Lifecycle
from gatepilot.deploy_bridge.errors import (
    ControlError,
    LedgerError,
    LedgerUnavailableError,
    SettingsError,
)
from gatepilot.deploy_bridge.settings import load_settings
from gatepilot.deploy_bridge.wiring import Bridge, Head, make_head, recorded_controller
from gatepilot.envs.profiles.profile import load_profile, profile_content

from .kit import CATALOGUE, Gateway, gateway, write_bridge
from .tiny_artifact import ADVISED, CONTRACT, PROFILE, write_artifact

FAST = replace(CONTRACT, control_interval_s=0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("wired")
    write_artifact(made / "artifact", contract=FAST)
    return made


@pytest.fixture
def world() -> Iterator[Gateway]:
    with gateway(FAST) as made:
        yield made


def head(folder: Path, url: str, **changes: Any) -> Head:  # noqa: ANN401
    return make_head(load_settings(write_bridge(folder, url, **changes)), "bridge.yaml")


def test_shadow_constructs_the_one_actuator_that_cannot_write() -> None:
    assert get_args(Lifecycle) == ("SHADOW",)
    assert type(wiring._actuator("SHADOW")) is NoopActuator
    classes = {
        kind.__name__
        for module in pkgutil.iter_modules(actuators.__path__, f"{actuators.__name__}.")
        for kind in vars(importlib.import_module(module.name)).values()
        if inspect.isclass(kind) and hasattr(kind, "apply")
    }
    assert classes == {"Actuator", "NoopActuator"}


def test_a_whole_run_only_reads(folder: Path, world: Gateway, tmp_path: Path) -> None:
    bridge = Bridge(head(folder, world.url, state_dir=str(tmp_path / "state")))
    bridge.start()
    for _ in range(4):
        decision = bridge.loop.tick()
        assert decision is not None
        assert decision.lifecycle == "SHADOW"
    bridge.close("done")
    assert world.server is not None
    assert {method for method, _ in world.server.asked} == {"GET"}
    assert {path.partition("?")[0] for _, path in world.server.asked} == {"/api/v1/query"}
    assert {one.name for one in (tmp_path / "state").iterdir()} == {"ledger.sqlite", "ledger.head"}


LOADED = """
import sys
from pathlib import Path
from gatepilot.deploy_bridge.commands import run, status, why, history, replay, check, verify
from gatepilot.deploy_bridge.settings import load_settings
run.make_head(load_settings(Path(sys.argv[1])), "bridge.yaml")
print(" ".join(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def test_the_bridge_loads_nothing_that_trains(folder: Path) -> None:
    path = write_bridge(folder, "http://127.0.0.1:1")
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", LOADED, str(path)], capture_output=True, text=True, check=True
    )
    trains = {"torch", "stable_baselines3", "gymnasium", "mlflow", "numba", "pandas", "cloudpickle"}
    assert not (trains | {"model_signing", "sigstore"}) & set(done.stdout.split())


def test_a_replay_makes_the_same_controller(folder: Path) -> None:
    made = head(folder, "http://127.0.0.1:1", good_ticks=4)
    again = recorded_controller(made.identity)
    assert again.params == made.controller.params
    assert again.saved() == made.controller.saved()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"incumbent": {"controller": "hpaa"}}, "incumbent.controller: unknown controller 'hpaa'"),
        ({"incumbent": {"params": {"metric": 1}}}, "incumbent.params.metric: unknown key"),
        ({"guardrails": {"drift": {"ignore": ["x"]}}}, "guardrails.drift.ignore: 'x' is no entry"),
        ({"catalogue": {"model": "m", "deployment": "d"}}, "catalogue.cluster: missing key"),
        ({"catalogue": dict(CATALOGUE) | {"disabled": ["waitingx"]}}, "catalogue: disabled: "),
        (
            {"catalogue": dict(CATALOGUE) | {"scrape_interval_s": 30.0}},
            "catalogue: the contract's window of 60 s holds fewer than 4 scrapes",
        ),
        (
            {"catalogue": {k: v for k, v in CATALOGUE.items() if k != "overrides"}},
            "envoy_admin: missing key: no source gives breaker_threshold",
        ),
        (
            {"envoy_admin": {"url": "http://127.0.0.1:1", "timeout_s": 0.2}},
            "reading may take 0.6 s, expected less than the artifact's control interval of 0.5 s",
        ),
    ],
)
def test_what_does_not_fit_is_named(folder: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        head(folder, "http://127.0.0.1:1", **changes)
    assert str(caught.value).startswith("bridge.yaml: ")
    assert words in str(caught.value)


@pytest.fixture(scope="module")
def advised_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("advised")
    write_artifact(made / "artifact", contract=replace(ADVISED, control_interval_s=0.5))
    return made


URL = "http://127.0.0.1:1"
REPLICA = {"profile": PROFILE, "cold_start_s": 20.0}


def test_an_advised_artifact_needs_to_know_what_a_replica_can_do(advised_folder: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        head(advised_folder, URL)
    assert str(caught.value).startswith(
        "bridge.yaml: replica: missing key: the artifact's policy is advised"
    )
    assert len(str(caught.value).splitlines()) == 1
    made = head(advised_folder, URL, replica=REPLICA)
    assert not any("replica" in remark for remark in made.remarks)
    again = recorded_controller(json.loads(json.dumps(made.identity)))
    assert again.saved() == made.controller.saved()


def test_another_replica_than_the_trainings_is_remarked(advised_folder: Path) -> None:
    profile = "llama-3.1-8b-fp8-l40s-tp1-vllm-kernel"
    made = head(advised_folder, URL, replica=REPLICA | {"profile": profile, "max_num_seqs": 64})
    remark = made.remarks[-1]
    assert remark.startswith(
        "replica is none of the training's, the nearest differs in step.base_s, "
    )
    assert "max_num_seqs" in remark
    assert "cold_start_s" not in remark


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"replica": {"profile": "gpt"}}, "replica.profile: gpt: unknown profile"),
        ({"replica": {"cold_start_s": 3.0}}, "replica.profile: missing key"),
        ({"replica": {"profile": PROFILE, "chunks": 3}}, "replica.chunks: unknown key"),
        ({"incumbent": {"replica": REPLICA}}, "incumbent.replica: unknown key"),
        ({"incumbent": {"controller": "planner"}}, "replica: planner needs to know what a replica"),
        (
            {"replica": REPLICA, "incumbent": {"controller": "planner", "params": {"planer": {}}}},
            "incumbent.params.planer: unknown key",
        ),
        (
            {
                "replica": REPLICA,
                "incumbent": {"controller": "planner", "params": {"planner": {"error": 1.0}}},
            },
            "incumbent.params.planner.error: unknown key",
        ),
    ],
)
def test_what_is_wrong_about_a_replica_is_named(
    folder: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        head(folder, URL, **changes)
    assert str(caught.value).startswith(f"bridge.yaml: {words}")


def test_a_profile_of_ones_own_lies_relative_to_the_file(folder: Path) -> None:
    content = profile_content(PROFILE)
    (folder / "own.json").write_text(json.dumps(content))
    made = head(folder, URL, replica={"profile": "own.json"})
    assert made.identity["replica"]["step"] == asdict(load_profile(PROFILE).step)


def test_an_incumbent_that_plans_is_told_the_same(advised_folder: Path) -> None:
    made = head(advised_folder, URL, replica=REPLICA, incumbent={"controller": "planner"})
    again = recorded_controller(json.loads(json.dumps(made.identity)))
    assert again.saved() == made.controller.saved()


def test_a_refused_artifact_is_the_artifacts_own_error(tmp_path: Path) -> None:
    (tmp_path / "artifact").mkdir()
    with pytest.raises(ArtifactError):
        head(tmp_path, "http://127.0.0.1:1")


def test_remarks_name_what_an_operator_should_know(folder: Path) -> None:
    made = head(folder, "http://127.0.0.1:1", limits={"min_replicas": 1, "max_replicas": 12})
    assert made.remarks[0].startswith("UNSIGNED artifact")
    assert "limits 1-12 are wider than the training's 1-8" in made.remarks[-1]


def test_a_variable_for_a_part_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEPILOT_BRIDGE_INCUMBENT__CONTROLLER", "hpaa")
    name = "GATEPILOT_BRIDGE_INCUMBENT__CONTROLLER"
    with pytest.raises(SettingsError, match=f"{name}: incumbent.controller: unknown controller"):
        head(folder, "http://127.0.0.1:1")
    monkeypatch.delenv(name)
    monkeypatch.setenv("GATEPILOT_BRIDGE_PROMETHEUS__DEADLINE_S", "9")
    name = "GATEPILOT_BRIDGE_PROMETHEUS__DEADLINE_S"
    with pytest.raises(SettingsError, match=f"^environment: {name}: prometheus.deadline_s: "):
        head(folder, "http://127.0.0.1:1")


def test_a_key_beside_allow_unsigned_is_remarked(folder: Path) -> None:
    made = head(folder, "http://127.0.0.1:1", public_key="signing.pub")
    assert "a signature is checked where there is one" in made.remarks[1]


def test_a_bridge_that_is_stopped_before_its_first_tick_leaves_a_trace(
    folder: Path, tmp_path: Path
) -> None:
    bridge = Bridge(head(folder, "http://127.0.0.1:1", state_dir=str(tmp_path / "state")))
    bridge.start()
    bridge.close("SIGTERM")
    records = LedgerReader(tmp_path / "state" / "ledger.sqlite").newest(9, None)
    assert [one.kind for one in records] == ["boot", "stop"]
    assert records[0].content["state"]["mode"]["mode"] == "BOOT"


def test_what_a_stop_cannot_record_the_log_says(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_: object, **__: object) -> None:
        raise LedgerUnavailableError("disk is full")

    made = head(folder, "http://127.0.0.1:1", state_dir=str(tmp_path / "state"))
    for ticks, words in ((2, "2 ticks were not recorded: "), (0, "the stop was not recorded: ")):
        bridge = Bridge(made)
        bridge.start()
        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "append", full)
            for _ in range(ticks):
                bridge.loop.tick()
            bridge.close("SIGTERM")
        assert caplog.records[-1].levelname == "WARNING"
        assert caplog.records[-1].getMessage() == f"{words}disk is full"


def test_a_second_bridge_and_a_taken_port_leave_nothing_behind(
    folder: Path, tmp_path: Path
) -> None:
    made = head(folder, "http://127.0.0.1:1", state_dir=str(tmp_path / "state"))
    first = Bridge(made)
    with pytest.raises(LedgerError, match="another bridge writes here"):
        Bridge(made)
    assert first.address is not None
    port = int(first.address.rpartition(":")[2])
    taken = head(folder, "http://127.0.0.1:1", state_dir=str(tmp_path / "b"), serve={"port": port})
    with pytest.raises(ControlError, match=f"127.0.0.1:{port}"):
        Bridge(taken)
    first.close("done")
    second = Bridge(taken)
    second.close("done")


def test_a_folder_that_cannot_be_made_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    made = head(folder, "http://127.0.0.1:1", state_dir=str(tmp_path / "file" / "state"))
    with pytest.raises(SettingsError, match=r"state_dir: .* cannot be made"):
        Bridge(made)
