"""`gatepilot export` and `gatepilot fetch`: from a run to an artifact, to the registry and back."""

import json
import shutil
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from gatepilot.agents.artifact.folder import read_folder
from gatepilot.agents.artifact.network import ActingNetwork
from gatepilot.agents.artifact.parity import ParityError
from gatepilot.agents.artifact.runtime import load_artifact
from gatepilot.experiments.config import load_config
from gatepilot.experiments.run_files import RunFiles
from gatepilot.experiments.tracking import RunStore

from .cli_kit import Cli, contents, write_config, write_scenario

pytestmark = pytest.mark.timeout(60)  # making MLflow's database takes a busy machine ten seconds


@pytest.fixture(scope="session")
def trained_runs(
    tmp_path_factory: pytest.TempPathFactory, empty_database: Path
) -> tuple[Path, str]:
    """A folder of runs with one tiny training, and its id."""
    from gatepilot.agents.training import Training  # noqa: PLC0415  # only where it is needed
    from gatepilot.experiments.provenance import collect  # noqa: PLC0415
    from gatepilot.experiments.training_run import open_run, run_training  # noqa: PLC0415

    work = tmp_path_factory.mktemp("trained")
    (work / "runs").mkdir()
    shutil.copy(empty_database, work / "runs")
    write_scenario(work / "light.yaml")
    config = load_config(write_config(work / "tiny.yaml", "light.yaml", seed=4))
    training = Training(config)
    run = open_run(training, RunStore(work / "runs"), collect(["gatepilot", "train"]))
    return work / "runs", run_training(training, run).run_id


@pytest.fixture
def run_id(
    trained_runs: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The training, in `runs` of the test's own folder, where commands look; keys go there too."""
    shutil.copytree(trained_runs[0], tmp_path / "runs")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    yield trained_runs[1]
    assert not [path for path in contents(tmp_path) if path.endswith(".partial")]


def test_a_model_that_stands_in_for_the_trace_is_said_aloud(
    cli: Cli, run_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise ParityError("far enough")

    monkeypatch.setattr("gatepilot.agents.artifact.export.export_policy", stop)
    code, _, err = cli("export", run_id, "-o", "with", "--unsigned")
    assert (code, err) == (1, "gatepilot export: far enough\n")
    monkeypatch.setattr("gatepilot.envs.scenario.Scenario.trace_path", lambda *_: None)
    code, out, err = cli("export", run_id, "-o", "without", "--unsigned", "--json")
    assert (code, out) == (1, "")
    assert "light.csv not here (see --traces): the workload model stands in" in err


def test_one_object_and_an_artifact_that_loads(cli: Cli, run_id: str, tmp_path: Path) -> None:
    found = cli.json("export", run_id, "-o", "artifact")
    assert list(found) == [
        "artifact",
        "digest",
        "fingerprint",
        "run_id",
        "signed",
        "public_key",
        "parity",
        "golden_vectors",
        "refused_vectors",
        "traffic",
        "registered",
        "model_stands_in",
        "wall_s",
    ]
    key = tmp_path / "config" / "gatepilot" / "signing.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert found["public_key"] == str(key.with_suffix(".pub"))
    assert found["parity"]["observations"] == 100_000
    assert found["parity"]["ties"] <= 10
    assert found["golden_vectors"] >= 1000
    assert found["registered"] is None
    policy = load_artifact(Path("artifact"), public_key=Path(found["public_key"]))
    assert policy.digest == found["digest"]
    origin = policy.manifest.origin
    assert (origin.run_id, origin.seed, origin.scenarios) == (run_id, 4, ("light",))
    files = RunFiles(run_id, tmp_path / "runs" / "artifacts" / run_id / "artifacts")
    assert origin.scenarios_yaml == files.scenarios_text()
    assert origin.traffic == "trace"
    assert {"return_mean", "step"} <= origin.validation.keys()
    assert {"torch", "export.torch", "export.onnxruntime"} <= origin.versions.keys()
    assert found["model_stands_in"] is False
    digest = found["digest"]
    assert cli.json("export", run_id, "-o", "again", "--unsigned")["digest"] == digest


def test_table_for_people(cli: Cli, run_id: str) -> None:
    code, out, err = cli("export", run_id, "-o", "artifact")
    assert code == 0
    assert "equal on 100,000 observations" in out
    assert "signing.pub" in out
    assert "made a signing key" in err
    assert "training traffic" in err
    code, out, err = cli("export", run_id, "-o", "artifact", "--unsigned", "--force")
    assert code == 0
    assert "made a signing key" not in err
    assert "signed    no" in out
    assert sorted(read_folder(Path("artifact"))) == ["golden.npz", "manifest.json", "policy.onnx"]


def test_an_artifact_is_evaluated_like_its_run(cli: Cli, run_id: str, tmp_path: Path) -> None:
    write_scenario(tmp_path / "light.yaml")
    cli.json("export", run_id, "-o", "artifact")
    options = ("--scenario", "light.yaml", "--policy", "artifact", "--policy", f"run:{run_id}")
    found = cli.json("evaluate", *options)
    by_policy: dict[str, list[dict[str, Any]]] = {}
    for episode in found["episodes"]:
        by_policy.setdefault(episode.pop("policy"), []).append(episode)
    assert by_policy["artifact"] == by_policy[f"run:{run_id}"]
    assert by_policy["artifact"][0]["train_seed"] == 4
    other = write_scenario(tmp_path / "slow.yaml", control={"tick_s": 30.0, "episode_ticks": 5})
    line = cli.refusal("evaluate", "--scenario", other, "--policy", "artifact")
    assert "trained under contract" in line
    Path("artifact", "note.txt").write_text("mine")
    line = cli.refusal("evaluate", "--scenario", "light.yaml", "--policy", "artifact")
    assert "'note.txt' does not belong to an artifact" in line


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("0123", "-o", "new"), "run 0123: not found in runs"),
        (("RUN", "-o", "runs"), "runs: is there already"),
        (("RUN", "-o", "runs", "--force"), "--force replaces artifacts only"),
        (("RUN", "-o", "no/parent"), "does not exist"),
        (("RUN",), "Missing option"),
        (("RUN", "-o", "new", "--key", "runs/mlflow.db"), "not a private key in PEM"),
        (("RUN", "-o", "new", "--key", "nowhere"), "nowhere: cannot be read"),
        (("RUN", "-o", "new", "--key", "k", "--unsigned"), "exclude each other"),
        (("RUN", "-o", "new", "--alias", "champion"), "--alias needs --register"),
        (("RUN", "-o", "new", "--register", "a/b"), "model 'a/b': expected a name without"),
        (("RUN", "-o", "new", "--register", "a", "--alias", "latest"), "reserved by MLflow"),
        (("RUN", "-o", "new", "--register", "a", "--alias", "v3"), "reserved by MLflow"),
        (("RUN", "-o", "new", "--runs", "elsewhere"), "no runs in elsewhere"),
    ],
)
def test_refusals_leave_nothing_behind(  # one line each, checked by the kit
    cli: Cli, run_id: str, tmp_path: Path, options: tuple[str, ...], expected: str
) -> None:
    before = contents(tmp_path)
    arguments = [run_id if word == "RUN" else word for word in options]
    assert expected in cli.refusal("export", *arguments)
    assert contents(tmp_path) == before


def test_runs_that_cannot_be_exported(cli: Cli, run_id: str, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "artifacts" / run_id / "artifacts"
    export = ("export", run_id, "-o", "new", "--unsigned")
    contract = json.loads((folder / "contract.json").read_text())
    (folder / "contract.json").write_text(json.dumps(contract | {"fingerprint": "0" * 64}))
    assert "trained under contract 000000000000, but" in cli.refusal(*export)
    (folder / "contract.json").write_text(json.dumps(contract))
    (folder / "provenance.json").write_text("{}")
    assert "provenance.json is damaged" in cli.refusal(*export)
    model = folder / "model.zip"
    model.write_bytes(b"hello")
    assert "not a model of this configuration" in cli.refusal(*export)
    model.unlink()
    assert f"run {run_id}: no model yet" in cli.refusal(*export)
    assert not Path("new").exists()


def test_an_artifact_is_bound_to_the_advisor_of_the_scenario_it_is_for(
    cli: Cli, run_id: str, tmp_path: Path
) -> None:
    path = RunStore(tmp_path / "runs").files(run_id).folder / "config.yaml"
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    config["advisors"] = {"light": config["advisor"] | {"reserve": 4}}
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    line = cli.refusal("export", run_id, "-o", "a", "--scenario", "other")
    assert line.endswith("other has no advisor of its own; trained with one for light\n")
    for options, reserve in (((), 1), (("--scenario", "light"), 4)):
        cli.json("export", run_id, "-o", f"for{reserve}", "--unsigned", *options)
        policy = load_artifact(tmp_path / f"for{reserve}", public_key=None, allow_unsigned=True)
        advisor = policy.manifest.advisor
        assert advisor is not None
        assert advisor.reserve == reserve
    write_scenario(tmp_path / "light.yaml")
    names = [f"run:{run_id}", "for1", "for4"]
    players = [option for name in names for option in ("--policy", name)]
    found = cli.json("evaluate", "--scenario", "light.yaml", *players)
    returns = [
        [one["return"] for one in found["episodes"] if one["policy"] == name] for name in names
    ]
    assert returns[0] == returns[1] == returns[2]  # where it was trained, as it was trained


def test_a_network_that_decides_otherwise_is_a_no(
    cli: Cli, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph in which one bias got lost."""
    exact = ActingNetwork.exact_logits

    def other(self: ActingNetwork, observations: Any) -> Any:  # noqa: ANN401
        return exact(self, observations) + torch.eye(6)[0].numpy()

    monkeypatch.setattr(ActingNetwork, "exact_logits", other)
    code, out, err = cli("export", run_id, "-o", "new", "--unsigned")
    assert (code, out) == (1, "")
    assert "policy.onnx: a logit is off by 1" in err
    assert not Path("new").exists()


def test_to_the_registry_and_back(cli: Cli, run_id: str, tmp_path: Path) -> None:
    found = cli.json(
        "export", run_id, "-o", "artifact", "--register", "gateway", "--alias", "challenger"
    )
    assert found["registered"] == {"name": "gateway", "version": 1, "alias": "challenger"}
    uri = RunStore(tmp_path / "runs").uri
    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    version = client.get_model_version_by_alias("gateway", "challenger")
    assert version.tags["digest"] == found["digest"]
    assert version.tags["fingerprint"] == found["fingerprint"]
    assert version.run_id == run_id
    fetched = cli.json("fetch", "gateway@challenger", "-o", "live")
    assert read_folder(Path("live")) == read_folder(Path("artifact"))
    assert fetched["digest"] == found["digest"]
    request = json.loads(Path("live.request.json").read_text())
    assert request == {k: v for k, v in fetched.items() if k != "request"} | {"artifact": "live"}
    assert (request["name"], request["version"], request["alias"]) == ("gateway", 1, "challenger")
    assert request["registry"] == uri
    assert request["fetched_at"].endswith("+00:00")
    load_artifact(Path("live"), public_key=Path(found["public_key"]))
    by_number = cli.json("fetch", "gateway/1", "-o", "live")  # the very artifact: nothing to do
    assert by_number["alias"] is None
    code, out, _ = cli("fetch", "gateway@challenger", "-o", "other")
    assert code == 0
    assert "gateway/1, which challenger points to now" in out


def test_a_version_is_a_model_that_mlflow_can_load_by_itself(
    cli: Cli, run_id: str, tmp_path: Path
) -> None:
    found = cli.json("export", run_id, "-o", "artifact", "--register", "gateway")
    uri = RunStore(tmp_path / "runs").uri
    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    folder = Path(client.get_model_version_download_uri("gateway", "1"))
    assert client.get_model_version("gateway", "1").aliases == []
    content = yaml.safe_load((folder / "MLmodel").read_text())
    assert content["metadata"]["digest"] == found["digest"]
    assert set(content["flavors"]) == {"onnx", "python_function"}
    policy = load_artifact(folder / "artifact", public_key=Path(found["public_key"]))
    entries = len(policy.manifest.normaliser.mean)
    (asked,) = json.loads(content["signature"]["inputs"])
    assert asked["name"] == "observation"
    assert asked["tensor-spec"] == {"dtype": "float32", "shape": [-1, entries]}
    assert [one["name"] for one in json.loads(content["signature"]["outputs"])] == [
        "logits",
        "action",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's own
        import mlflow.pyfunc  # noqa: PLC0415

        model = mlflow.pyfunc.load_model(str(folder))
        seen = np.random.default_rng(0).uniform(-1, 1, (5, entries)).astype(np.float32)
        answers = model.predict({"observation": seen})
        with pytest.raises(MlflowException, match="observation"):
            model.predict({"observation": seen[:, 1:]})
    with np.load(folder / "artifact" / "golden.npz") as golden:
        again = model.predict({"observation": golden["observations"]})
        np.testing.assert_allclose(again["logits"], golden["logits"], atol=1e-5)
    assert answers["action"].shape == (5, 2)


def test_an_alias_moves_and_a_folder_does_not(cli: Cli, run_id: str) -> None:
    export = ("export", run_id, "--register", "gateway", "--alias", "challenger")
    first = cli.json(*export, "-o", "one")
    files = Path("runs", "artifacts", run_id, "artifacts", "config.yaml")
    files.write_text(files.read_text().replace("name: tiny", "name: renamed"))
    cli.json("fetch", "gateway@challenger", "-o", "live")
    second = cli.json(*export, "-o", "two")
    assert second["registered"]["version"] == 2
    assert second["digest"] != first["digest"]
    line = cli.refusal("fetch", "gateway@challenger", "-o", "live")
    assert "live: is there already; give another folder, or --force" in line
    assert read_folder(Path("live")) == read_folder(Path("one"))
    assert cli.json("fetch", "gateway@challenger", "-o", "live", "--force")["version"] == 2
    assert read_folder(Path("live")) == read_folder(Path("two"))
    assert cli.json("fetch", "gateway/1", "-o", "back")["digest"] == first["digest"]


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("gateway", "expected NAME@ALIAS or NAME/VERSION"),
        ("gateway/2", "gateway/2: "),
        ("gateway@champion", "gateway@champion: "),
        ("gateway@latest", "reserved by MLflow"),
        ("nobody/1", "nobody/1: "),
        ("nobody@champion", "nobody@champion: "),
    ],
)
def test_what_is_not_in_the_registry(
    cli: Cli, run_id: str, tmp_path: Path, reference: str, expected: str
) -> None:
    uri = RunStore(tmp_path / "runs").uri
    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    client.create_registered_model("gateway")
    client.create_model_version("gateway", str(tmp_path / "nothing"), run_id=run_id)
    assert expected in cli.refusal("fetch", reference, "-o", "live")
    code, out, err = cli("fetch", "gateway/1", "-o", "live")
    assert (code, out) == (1, "")
    assert "has no tag 'digest'" in err
    assert "no runs in elsewhere" in cli.refusal(
        "fetch", "gateway/1", "-o", "live", "--runs", "elsewhere"
    )
    assert not Path("live").exists()


def test_files_that_are_not_what_the_tag_says_are_a_no(cli: Cli, run_id: str) -> None:
    found = cli.json("export", run_id, "-o", "artifact", "--register", "gateway")
    kept = Path("runs/artifacts", run_id, "artifacts/model", found["digest"][:12], "artifact")
    for name, reason in (
        ("manifest.json", "digest is "),
        ("policy.onnx", "policy.onnx: not what the manifest names"),
    ):
        good = (kept / name).read_bytes()
        (kept / name).write_bytes(good.replace(b"a", b"b", 1))
        code, out, err = cli("fetch", "gateway/1", "-o", "live")
        assert (code, out) == (1, "")
        assert f"gatepilot fetch: gateway/1: {reason}" in err
        (kept / name).write_bytes(good)
    (kept / "policy.onnx").unlink()
    assert cli("fetch", "gateway/1", "-o", "live")[0] == 1
    shutil.rmtree(kept.parent)
    assert "gateway/1: its files are gone" in cli.refusal("fetch", "gateway/1", "-o", "live")
    assert sorted(path.name for path in Path().iterdir()) == ["artifact", "config", "runs"]
