"""`gatepilot train`: what it prints and leaves behind, what it refuses, and how it resumes."""

import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mlflow import MlflowClient

from gatepilot.agents.callbacks import CHECKPOINT_FILE, TrainingStatus
from gatepilot.agents.checkpoint import load_checkpoint
from gatepilot.experiments.config import config_names
from gatepilot.experiments.progress import TrainingProgress
from gatepilot.experiments.tracking import RunStore

from .cli_kit import Cli, contents, write_config, write_scenario

pytestmark = pytest.mark.timeout(60)  # making MLflow's database takes a busy machine ten seconds

TINY_PPO = {"n_steps": 16, "batch_size": 32, "n_epochs": 2, "hidden": [16]}
"""What `write_config` writes."""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    write_scenario(tmp_path / "light.yaml")
    return write_config(tmp_path / "tiny.yaml", "light.yaml")


def checkpoint(runs: Path, run_id: str) -> dict[str, Any]:
    return load_checkpoint(RunStore(runs).files(run_id).folder / CHECKPOINT_FILE)


def assert_same(ours: object, theirs: object, where: str = "") -> None:
    """Equal to the last bit, whatever the nesting."""
    if isinstance(ours, dict):
        assert isinstance(theirs, dict)
        assert ours.keys() == theirs.keys(), where
        for key, value in ours.items():
            assert_same(value, theirs[key], f"{where}.{key}")
    elif isinstance(ours, torch.Tensor):
        assert isinstance(theirs, torch.Tensor)
        assert np.array_equal(ours.numpy(), theirs.numpy()), where
    elif not where.endswith("wall_s"):
        assert ours == theirs, where


def break_off(monkeypatch: pytest.MonkeyPatch, at_step: int) -> None:
    """Makes somebody press Ctrl-C after so many steps, once."""

    def press(self: TrainingProgress, status: TrainingStatus) -> None:
        if status.steps >= at_step:
            monkeypatch.undo()
            raise KeyboardInterrupt

    monkeypatch.setattr(TrainingProgress, "__call__", press)


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_one_object_and_a_finished_run(
    cli: Cli, config: Path, runs: Path, algo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["train", str(config), "--algo", algo, "--seed", "3", "--runs", str(runs)]
    monkeypatch.setattr(sys, "argv", ["/somewhere/gatepilot", *arguments])
    found = cli.json(*arguments)
    assert list(found) == ["run_id", "model", "steps", "wall_s", "steps_per_s", "validation"]
    assert Path(found["model"]).is_file()
    assert found["steps"] == 256
    assert found["steps_per_s"] == pytest.approx(256 / found["wall_s"])
    assert {"return_mean", "violation_rate", "replica_hours"} <= found["validation"].keys()
    run = MlflowClient(tracking_uri=RunStore(runs).uri).get_run(found["run_id"])
    assert run.info.status == "FINISHED"
    assert run.data.params["seed"] == "3"
    assert run.data.params["algo"] == algo
    assert run.data.tags["command"] == shlex.join(["gatepilot", *arguments])


def test_table_for_people(cli: Cli, config: Path, runs: Path) -> None:
    code, out, err = cli("train", config, "--steps", "64", "--runs", runs)
    assert code == 0
    run_id = next((runs / "artifacts").iterdir()).name
    assert run_id in out
    assert "model.zip" in out
    page = runs / "artifacts" / run_id / "artifacts" / "report.html"
    assert f"report  {page}" in out
    assert run_id[:8] in page.read_text()
    assert "mlflow ui --backend-store-uri sqlite:///" in out
    assert "violating ticks" in out
    assert "steps/s" in err


def test_a_collapse_is_said_aloud(cli: Cli, config: Path, runs: Path) -> None:
    stiff = TINY_PPO | {"no_change_bias": [50, 50]}
    write_config(config, "light.yaml", observation="extended", ppo=stiff)
    code, out, err = cli("train", config, "--steps", "64", "--runs", runs)
    assert code == 0
    assert "The best checkpoint has collapsed" in out
    assert "collapsed: one action everywhere" in "".join(err.split("\n"))


@pytest.mark.parametrize(
    ("changes", "options", "expected"),
    [
        ({"ppo": {"gama": 0.9}}, (), "tiny.yaml: ppo.gama: unknown key; did you mean gamma?"),
        ({"algo": "sac"}, (), "tiny.yaml: algo: 'sac'"),
        ({"steps": -1}, (), "tiny.yaml: steps: -1"),
        ({"reward": "profit"}, (), "reward: unknown preset 'profit'; known: documented"),
        ({"validation": {"ticks": 1000}}, (), "validation.ticks"),
        ({"scenario": "nowhere"}, (), "nowhere: unknown scenario"),
        ({}, ("--steps", "-4"), "--steps"),
        ({}, ("--algo", "sac"), "sac"),
        ({}, ("--seed", "x"), "--seed"),
        ({}, ("--resume", "0123"), "run 0123: no runs in"),
    ],
)
def test_refusals_leave_nothing_behind(  # one line each, checked by the kit
    cli: Cli, tmp_path: Path, changes: dict[str, Any], options: tuple[str, ...], expected: str
) -> None:
    write_scenario(tmp_path / "light.yaml")
    scenario = changes.pop("scenario", "light.yaml")
    write_config(tmp_path / "tiny.yaml", scenario, **changes)
    before = contents(tmp_path)
    runs = tmp_path / "runs"
    assert expected in cli.refusal("train", tmp_path / "tiny.yaml", "--runs", runs, *options)
    assert contents(tmp_path) == before


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_where_there_is_none(cli: Cli, config: Path, tmp_path: Path) -> None:
    line = cli.refusal("train", config, "--device", "cuda", "--runs", tmp_path / "runs")
    assert "no CUDA device" in line
    assert not (tmp_path / "runs").exists()


def test_limits_of_the_scenario_that_contradict_each_other(cli: Cli, tmp_path: Path) -> None:
    cluster = {"min_replicas": 4, "max_replicas": 3}
    write_scenario(tmp_path / "light.yaml", cluster=cluster)
    write_config(tmp_path / "tiny.yaml", "light.yaml")
    line = cli.refusal("train", tmp_path / "tiny.yaml", "--runs", tmp_path / "runs")
    assert "light.yaml: cluster.min_replicas: 4 must not exceed max_replicas (3)" in line
    assert not (tmp_path / "runs").exists()


def test_an_unknown_configuration_lists_the_shipped_ones(cli: Cli, tmp_path: Path) -> None:
    line = cli.refusal("train", "tenants70", "--runs", tmp_path / "runs")
    assert "did you mean tenants70b?" in line
    assert ", ".join(config_names()) in line
    assert contents(tmp_path) == []


def test_ctrl_c_and_resume_end_as_an_unbroken_training(
    cli: Cli, config: Path, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(runs, whole)
    break_off(monkeypatch, at_step=128)
    code, out, err = cli("train", config, "--seed", "5", "--runs", runs)
    assert (code, out) == (130, "")
    run_id = next((runs / "artifacts").iterdir()).name
    assert f"gatepilot train {config} --resume {run_id}" in err.replace("\n", " ")
    client = MlflowClient(tracking_uri=RunStore(runs).uri)
    assert client.get_run(run_id).info.status == "KILLED"
    assert checkpoint(runs, run_id)["counters"]["num_timesteps"] == 128

    resumed = cli.json("train", config, "--resume", run_id, "--runs", runs)
    unbroken = cli.json("train", config, "--seed", "5", "--runs", whole)
    assert resumed["run_id"] == run_id
    assert resumed["validation"] == unbroken["validation"]
    assert_same(checkpoint(runs, run_id), checkpoint(whole, unbroken["run_id"]))
    assert client.get_run(run_id).info.status == "FINISHED"
    history = client.get_metric_history(run_id, "validation/return_mean")
    assert [metric.step for metric in history] == [0, 128, 256]
    line = cli.refusal("train", config, "--resume", run_id, "--runs", runs)
    assert "finished, nothing to resume" in line


def test_a_run_is_resumed_as_what_it_was(
    cli: Cli, config: Path, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_off(monkeypatch, at_step=128)
    cli("train", config, "--runs", runs)
    run_id = next((runs / "artifacts").iterdir()).name
    resume = ("train", config, "--resume", run_id, "--runs", runs)
    line = cli.refusal(*resume, "--seed", "9")
    assert f"run {run_id}: seed is 9, but the run was started with 0" in line
    assert "algo is dqn" in cli.refusal(*resume, "--algo", "dqn")
    write_config(config, "light.yaml", ppo=TINY_PPO | {"gamma": 0.9})
    assert "ppo.gamma is 0.9, but" in cli.refusal(*resume)
    write_config(config, "light.yaml")
    write_scenario(tmp_path / "light.yaml", cluster={"max_replicas": 2, "cold_start_s": 20.0})
    assert "scenario light has changed since then" in cli.refusal(*resume)


def test_a_run_is_resumed_on_the_traffic_it_was_started_on(
    cli: Cli, config: Path, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_off(monkeypatch, at_step=128)
    cli("train", config, "--runs", runs)
    monkeypatch.undo()
    store, trace = RunStore(runs), tmp_path / "light.csv"
    run_id = next((runs / "artifacts").iterdir()).name
    (known,) = store.traffic(run_id)
    assert (known.kind, known.name) == ("trace", "light.csv")
    assert known.sha256 == hashlib.sha256(trace.read_bytes()).hexdigest()
    inputs = MlflowClient(tracking_uri=store.uri).get_run(run_id).inputs
    assert inputs is not None
    (seen,) = inputs.dataset_inputs
    assert (seen.dataset.digest, seen.tags[0].value) == (known.sha256[:32], "training")
    before = trace.read_text()
    trace.write_text(before.replace(",100,", ",101,", 1))
    resume = ("train", config, "--resume", run_id, "--runs", runs)
    line = cli.refusal(*resume)
    assert f"started on trace light.csv ({known.sha256[:8]}), and now there is" in line
    trace.write_text(before)
    assert cli(*resume)[0] == 0


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_killed_process_is_resumed_exactly(cli: Cli, config: Path, tmp_path: Path) -> None:
    write_config(config, "light.yaml", steps=20_000)
    runs, whole = tmp_path / "runs", tmp_path / "whole"
    command = [sys.executable, "-m", "gatepilot.experiments", "train", str(config)]
    process = subprocess.Popen(  # noqa: S603  # a fixed command
        [*command, "--runs", str(runs)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ,
    )
    while not list(runs.glob(f"artifacts/*/artifacts/{CHECKPOINT_FILE}")):
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    run_id = next((runs / "artifacts").iterdir()).name
    assert 0 <= checkpoint(runs, run_id)["counters"]["num_timesteps"] < 20_000
    cli.json("train", config, "--resume", run_id, "--runs", runs)
    unbroken = cli.json("train", config, "--runs", whole)
    assert_same(checkpoint(runs, run_id), checkpoint(whole, unbroken["run_id"]))
