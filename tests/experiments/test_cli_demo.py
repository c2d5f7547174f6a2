"""`gatepilot demo`: one folder with a report and MLflow's runs; the scenario it shows is fair."""

from pathlib import Path

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
FEW = ("do_nothing", "best_fixed")


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trains a light scenario instead of the shipped one; fewer rivals mean fewer bootstraps."""
    write_scenario(tmp_path / "light.yaml")
    config = write_config(tmp_path / "tiny.yaml", "light.yaml")
    monkeypatch.setattr(command, "CONFIG", str(config))
    monkeypatch.setattr(demonstration, "RIVALS", FEW)


@pytest.mark.usefixtures("tiny")
def test_report_and_runs_lie_in_one_folder(cli: Cli, runs: Path, tmp_path: Path) -> None:
    runs.rename(tmp_path / "gatepilot-demo")
    before = [name for name in contents(tmp_path) if not name.startswith("gatepilot-demo")]
    code, out, err = cli("demo", "--steps", "128", "--seed", "3")
    assert code == 0, err
    folder = tmp_path / "gatepilot-demo"
    assert {"report.html", "mlflow.db", "artifacts"} <= {path.name for path in folder.iterdir()}
    made = [name for name in contents(tmp_path) if not name.startswith("gatepilot-demo")]
    assert made == before
    assert f"report  {Path('gatepilot-demo') / 'report.html'}" in out
    assert f"MLflow  mlflow ui --backend-store-uri sqlite:///{folder.resolve()}/mlflow.db" in out
    for name in FEW:
        assert f" {name} " in out
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert "was trained for this report: 128 steps of PPO" in html


@pytest.mark.usefixtures("tiny")
def test_json_is_one_object(cli: Cli, runs: Path) -> None:
    found = cli.json("demo", "--steps", "64", "--seed", "3", "--out", runs)
    assert list(found) == ["report", "runs", "wall_s", "training", "evaluation"]
    assert Path(found["report"]) == runs / "report.html"
    assert (runs / "report.html").is_file()
    assert found["training"]["steps"] == 64
    run_id = found["training"]["run_id"]
    assert RunStore(Path(found["runs"])).files(run_id).config().seed == 3
    policies = [row["policy"] for row in found["evaluation"]["summary"]]
    assert policies == [f"run:{run_id}", *FEW]
    assert found["wall_s"] >= found["training"]["wall_s"]


def test_rivals_are_the_controllers_of_the_field() -> None:
    field = {"hpa", "hpa@unit", "best_fixed", "do_nothing", "always_max", "random"}
    assert set(demonstration.RIVALS) == field


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


def constant(trial: Trial, replicas: int) -> MakeController:
    params = FixedParams(replicas)
    return lambda window: make_controller("fixed", trial.limits, params=params, seed=window.seed)


def test_the_shipped_scenario_can_be_kept_and_no_constant_suits_all_of_it() -> None:
    config = load_config(demonstration.CONFIG)
    trial = prepare_trial(load_scenario(config.scenario), split="test")
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
