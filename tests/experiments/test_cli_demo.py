"""`gatepilot demo`: one folder with all that it made; the scenario it shows is fair."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gatepilot.agents.baselines.fixed import FixedParams
from gatepilot.agents.baselines.registry import make_controller
from gatepilot.agents.evaluation import MakeController, play_controllers, unkeepable
from gatepilot.agents.trial import Trial, prepare_trial
from gatepilot.envs.scenario import load_scenario
from gatepilot.experiments import demonstration
from gatepilot.experiments.commands import demo as command
from gatepilot.experiments.config import load_config
from gatepilot.experiments.tracking import RunStore

from .cli_kit import Cli, contents, write_config, write_scenario

pytestmark = pytest.mark.timeout(60)  # making MLflow's database takes a busy machine ten seconds
FEW = ("do_nothing", "hpa")


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trains a light scenario instead of the shipped one; fewer rivals mean fewer bootstraps."""
    write_scenario(tmp_path / "light.yaml")
    config = write_config(tmp_path / "tiny.yaml", "light.yaml")
    monkeypatch.setattr(command, "CONFIG", str(config))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # where the demo has nothing to look for
    monkeypatch.setattr(demonstration, "RIVALS", FEW)


def bridge(*arguments: str) -> dict[str, Any]:
    """The object that a successful `gatepilot-bridge` prints, in a process of its own."""
    command = [sys.executable, "-m", "gatepilot.deploy_bridge", *arguments]
    done = subprocess.run(  # noqa: S603  # our own
        command, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.usefixtures("tiny")
def test_report_and_runs_lie_in_one_folder(cli: Cli, runs: Path, tmp_path: Path) -> None:
    runs.rename(tmp_path / "gatepilot-demo")
    before = [name for name in contents(tmp_path) if not name.startswith("gatepilot-demo")]
    code, out, err = cli("demo", "--steps", "128", "--seed", "3")
    assert code == 0, err
    folder = tmp_path / "gatepilot-demo"
    made_in_it = {"report.html", "mlflow.db", "artifacts", "policy", "keys", "shadow"}
    assert made_in_it <= {path.name for path in folder.iterdir()}
    made = [name for name in contents(tmp_path) if not name.startswith("gatepilot-demo")]
    assert made == before
    assert f"report    {Path('gatepilot-demo') / 'report.html'}" in out
    assert f"MLflow    mlflow ui --backend-store-uri sqlite:///{folder.resolve()}/mlflow.db" in out
    for name in FEW:
        assert f" {name} " in out
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert "was trained for this report: 128 steps of PPO" in html
    assert "Rehearsed in shadow" in html
    assert "In shadow beside hpa: " in out
    assert "gatepilot-bridge verify gatepilot-demo/policy --public-key gatepilot-demo/keys" in out


@pytest.mark.usefixtures("tiny")
def test_json_is_one_object_and_a_second_demo_replaces_the_first(cli: Cli, runs: Path) -> None:
    cli.json("demo", "--steps", "64", "--out", runs)
    key = (runs / "keys" / "signing.pem").read_bytes()
    found = cli.json("demo", "--steps", "64", "--seed", "3", "--out", runs)
    assert list(found) == [
        "report",
        "runs",
        "artifact",
        "public_key",
        "digest",
        "wall_s",
        "training",
        "evaluation",
        "rehearsal",
    ]
    assert Path(found["report"]) == runs / "report.html"
    assert (runs / "report.html").is_file()
    assert found["training"]["steps"] == 64
    run_id = found["training"]["run_id"]
    assert RunStore(Path(found["runs"])).files(run_id).config().seed == 3
    policies = [row["policy"] for row in found["evaluation"]["summary"]]
    assert policies == [f"run:{run_id}", *FEW]
    assert found["wall_s"] >= found["training"]["wall_s"]

    verified = bridge("verify", found["artifact"], "--public-key", found["public_key"], "--json")
    assert verified["accepted"]
    assert verified["is_signed"]
    assert verified["run_id"] == run_id
    assert verified["digest"] == found["digest"] == found["rehearsal"]["artifact"]["digest"]
    replayed = bridge("replay", found["rehearsal"]["ledger"]["path"], "--json")
    assert replayed["identical"]
    assert replayed["ticks"] == found["rehearsal"]["ticks"] == 20  # all that the light range holds
    assert (runs / "keys" / "signing.pem").read_bytes() == key
    assert (runs / "keys" / "signing.pem").stat().st_mode & 0o777 == 0o600
    assert not (Path.home() / ".config").exists()


def test_rivals_are_the_controllers_of_the_field_and_what_ships() -> None:
    field = {"hpa", "hpa@unit", "best_fixed", "do_nothing", "always_max", "random"}
    assert set(demonstration.RIVALS) == field | {"pretrained:ppo", "pretrained:dqn"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "0"], "--steps"),
        (["--seed", "-1"], "--seed"),
        (["--out", "file"], "file is a file, expected a folder"),
        (["--out", "file/below"], "file is a file, expected a folder"),
        (["extra"], "extra"),
    ],
)
def test_wrong_usage(cli: Cli, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "file").touch()
    assert message in cli.refusal("demo", *arguments)
    assert contents(tmp_path) == ["file"]


def test_a_folder_of_somebody_else_is_refused_before_the_training(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "demo" / "policy").mkdir(parents=True)
    (tmp_path / "demo" / "policy" / "notes.txt").touch()
    assert "holds 'notes.txt'" in cli.refusal("demo", "--out", "demo")


def constant(trial: Trial, replicas: int) -> MakeController:
    params = FixedParams(replicas)
    return lambda window: make_controller("fixed", trial.site, params=params, seed=window.seed)


def test_the_shipped_scenario_can_be_kept_and_no_constant_suits_all_of_it() -> None:
    config = load_config(demonstration.CONFIG)
    trial = prepare_trial(load_scenario(config.scenarios[0]), split="test")
    assert (unkeepable(trial) == 0).all()
    few = trial.keeping([window.index % 4 == 1 for window in trial.windows])
    counts = range(1, trial.limits.max_replicas + 1)
    played = play_controllers(few, [constant(few, count) for count in counts])
    returns = np.array([outcomes.returns for outcomes in played])
    violated = np.array([outcomes.violations for outcomes in played])
    needed = np.argmin(violated, axis=0) + counts[0]
    assert {1, 2, 3, 4, 5} <= set(needed.ravel().tolist())
    assert len(set(returns.argmax(axis=0).tolist())) >= 3  # what is best differs between windows
    assert 3 <= counts[int(returns.mean(axis=1).argmax())] < trial.limits.max_replicas
