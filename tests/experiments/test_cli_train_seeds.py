"""`gatepilot train --seeds`: trainings of one recipe as children of one parent run."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient

from gatepilot.agents.callbacks import TrainingStatus
from gatepilot.experiments.progress import TrainingProgress
from gatepilot.experiments.tracking import RunStore

from .cli_kit import Cli, contents, write_config, write_scenario

pytestmark = pytest.mark.timeout(90)  # making MLflow's database takes a busy machine ten seconds


@pytest.fixture
def config(tmp_path: Path) -> Path:
    write_scenario(tmp_path / "light.yaml")
    return write_config(tmp_path / "tiny.yaml", "light.yaml")


def test_a_parent_and_its_children(cli: Cli, config: Path, runs: Path) -> None:
    found = cli.json("train", config, "--seed", "7", "--seeds", "2", "--runs", runs)
    assert list(found) == ["run_id", "runs", "validation_returns"]
    store = RunStore(runs)
    parent, children = found["run_id"], [run["run_id"] for run in found["runs"]]
    assert store.children(parent) == children
    assert [store.files(child).config().seed for child in children] == [7, 8]
    best = [store.best_figures(child)["return_mean"] for child in children]
    assert list(found["validation_returns"]) == ["7", "8"]
    assert list(found["validation_returns"].values()) == best
    client = MlflowClient(tracking_uri=store.uri)
    group = client.get_run(parent)
    assert group.info.status == "FINISHED"
    assert group.data.metrics["seeds/return_mean"] == pytest.approx(sum(best) / 2)
    assert group.data.metrics["seeds/return_sd"] == pytest.approx(abs(best[0] - best[1]) / 2)
    assert "seed" not in group.data.params
    assert client.get_run(children[0]).data.tags["mlflow.parentRunId"] == parent
    page = (store.files(parent).folder / "report.html").read_text()
    assert all(child[:8] in page for child in children)
    assert store.newest(9) == children[::-1]  # a parent is no training

    code, out, err = cli("train", config, "--resume", parent, "--runs", runs, "--seed", "7")
    assert code == 0, err  # all are finished: nothing is trained, everything is told
    assert f"{best[0]:.2f}" in out
    assert store.children(parent) == children
    played = cli.json(
        *("evaluate", "--policy", f"run:{parent}", "--policy", "do_nothing", "--runs", runs),
        *("--scenario", config.parent / "light.yaml", "--ticks", "4", "--windows", "2"),
        *("--cells", runs / "cells"),
    )
    assert {e["train_seed"] for e in played["episodes"]} == {7, 8, None}


def test_a_broken_group_goes_on_where_it_was(
    cli: Cli, config: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cli.json("train", config, "--seeds", "3", "--runs", runs)
    shown: list[int] = []

    def press(self: TrainingProgress, status: TrainingStatus) -> None:
        del self
        shown.append(status.steps)
        if len(shown) > 5 and status.steps >= 128:  # in the second training
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(TrainingProgress, "__call__", press)
        code, _, err = cli("train", config, "--seeds", "3", "--runs", runs)
    assert code != 0
    store = RunStore(runs)
    parent = err.split("--resume ")[1].split()[0]
    assert store.group_size(parent) == 3
    begun = store.children(parent)
    assert [store.summary(run).status for run in begun] == ["FINISHED", "KILLED"]
    assert MlflowClient(tracking_uri=store.uri).get_run(parent).info.status == "KILLED"

    found = cli.json("train", config, "--resume", parent, "--runs", runs)
    assert store.children(parent)[:2] == begun
    assert [run["run_id"] for run in found["runs"]] == store.children(parent)[1:]
    assert found["validation_returns"] == whole["validation_returns"]


def test_refusals_leave_nothing_behind(cli: Cli, config: Path, tmp_path: Path) -> None:
    before, runs = contents(tmp_path), tmp_path / "runs"
    train = ("train", config, "--runs", runs, "--seeds")
    assert "'--seeds': Input should be greater than or equal to 2" in cli.refusal(*train, "1")
    line = cli.refusal(*train, "2", "--seed", str(2**32 - 1))
    assert "--seeds: the last seed would be 4294967296, at most 4294967295" in line
    assert contents(tmp_path) == before
    write_config(config, "light.yaml", reward="profit")
    assert "unknown preset 'profit'" in cli.refusal(*train, "2")
    assert contents(tmp_path) == before
    assert "--resume knows its own" in cli.refusal(*train, "2", "--resume", "x")
