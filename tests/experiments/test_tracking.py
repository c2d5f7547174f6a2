"""Runs in MLflow: batches, files, contract, resumption; refusals in one line."""

import json
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric
from mlflow.exceptions import MlflowException

from gatepilot.agents.config import TrainingConfig, parse_config
from gatepilot.agents.training import Training, contract_of
from gatepilot.envs.scenario import load_scenario
from gatepilot.envs.schema import fields
from gatepilot.envs.schema.observation import ObservationSpec
from gatepilot.experiments.config import flat
from gatepilot.experiments.provenance import collect
from gatepilot.experiments.run_files import RunError
from gatepilot.experiments.run_policy import load_run_policy
from gatepilot.experiments.tracking import RunStore, TrackedRun, tracked_run
from gatepilot.experiments.training_run import open_run, run_training

pytestmark = pytest.mark.timeout(60)  # making MLflow's database takes a busy machine ten seconds

CONTENT = {
    "name": "tiny",
    "scenarios": ["demo"],
    "observation": "documented",
    "n_envs": 2,
    "episode_ticks": 8,
    "workloads": 1,
    "seed": 5,
    "steps": 32,
    "validation": {"every_steps": 16, "windows": 1, "ticks": 2},
    "ppo": {"n_steps": 8, "batch_size": 16, "n_epochs": 1, "hidden": [8]},
}


def config(**changes: object) -> TrainingConfig:
    return parse_config(CONTENT | changes, where="test")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> RunStore:
    folder = tmp_path_factory.mktemp("work") / "runs"
    folder.mkdir()
    shutil.copy(empty_database, folder)
    return RunStore(folder)


@pytest.fixture(scope="module")
def run_id(store: RunStore) -> str:
    provenance = collect(["/somewhere/bin/gatepilot", "train", "a b"])
    training = Training(config())
    return run_training(training, open_run(training, store, provenance)).run_id


@contextmanager
def started(store: RunStore) -> Iterator[TrackedRun]:
    scenario = load_scenario("demo")
    run = store.create(config(), [scenario], contract_of(config(), scenario), collect())
    try:
        yield run
    finally:
        run.stop("KILLED")


def test_a_training_leaves_parameters_figures_and_files(store: RunStore, run_id: str) -> None:
    client = MlflowClient(tracking_uri=store.uri)
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "tiny-seed5"
    assert run.data.params == flat(config())
    assert run.data.params["ppo.n_steps"] == "8"
    assert "dqn.gamma" not in run.data.params
    assert run.data.tags["command"] == "gatepilot train 'a b'"
    assert run.data.tags["version.torch"]
    history = client.get_metric_history(run_id, "validation/return_mean")
    assert [metric.step for metric in history] == [0, 16, 32]
    assert run.data.metrics["best/return_mean"] == max(metric.value for metric in history)
    assert {"time/tracking_s", "time/steps_per_s", "best/step"} <= run.data.metrics.keys()
    names = {Path(file.path).name for file in client.list_artifacts(run_id)}
    assert {
        "config.yaml",
        "scenarios.yaml",
        "contract.json",
        "provenance.json",
        "model.zip",
    } <= names
    contract = json.loads(Path(run.info.artifact_uri, "contract.json").read_text())
    assert contract["fingerprint"] == run.data.tags["fingerprint"]


def test_policy_of_a_run(store: RunStore, run_id: str) -> None:
    trained = load_run_policy(store.folder, run_id)
    assert trained.observation == ObservationSpec("documented", 1)
    assert trained.train_seed == 5
    assert trained.fingerprint == store.files(run_id).contract().fingerprint
    observation = Training(config())._env.batch.reset()
    assert trained.policy.act(observation).shape == (2, 2)


def test_another_contract_is_refused(
    store: RunStore, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatepilot.envs.schema.fingerprint.FIELDS", fields.FIELDS[:-1])
    with pytest.raises(RunError, match=rf"run {run_id}: trained under contract \w{{12}}, but"):
        load_run_policy(store.folder, run_id)


def test_unknown_runs(store: RunStore, run_id: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="run nonesuch: not found in"):
        load_run_policy(store.folder, "nonesuch")
    with pytest.raises(RunError, match=f"run {run_id}: no runs in"):
        load_run_policy(tmp_path, run_id)
    assert list(tmp_path.iterdir()) == []


def test_damaged_runs(store: RunStore) -> None:
    with started(store) as run:
        run_id, folder = run.run_id, run.folder
    with pytest.raises(RunError, match=rf"run {run_id}: .*model\.zip: not a model"):
        load_run_policy(store.folder, run_id)
    (folder / "contract.json").write_text("{}")
    with pytest.raises(RunError, match=r"contract\.json is damaged"):
        load_run_policy(store.folder, run_id)
    (folder / "contract.json").unlink()
    with pytest.raises(RunError, match=r"contract\.json cannot be read"):
        load_run_policy(store.folder, run_id)
    (folder / "config.yaml").write_text("name: [")
    with pytest.raises(RunError, match=r"run \w+: config\.yaml: line"):
        store.files(run_id).config()


def test_figures_wait_for_a_flush_and_are_written_in_batches(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []

    def count(client: MlflowClient, run_id: str, metrics: list[Metric]) -> None:
        batches.append(len(metrics))

    with started(store) as run:
        monkeypatch.setattr(MlflowClient, "log_batch", count)
        for step in range(600):
            run.record(step, {"a": 1.0, "b": 2.0, "c": float("nan")})
        assert batches == []
        run.flush()
        assert batches == [1000, 200]
        run.flush()
        assert batches == [1000, 200]
        assert run.spent_s > 0


def test_a_database_that_fails_costs_no_figure(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = MlflowClient.log_batch

    def broken(*_: object, **__: object) -> None:
        raise MlflowException("database is locked")

    with started(store) as run:
        run.record(1, {"a": 1.0})
        monkeypatch.setattr(MlflowClient, "log_batch", broken)
        run.flush()
        with pytest.raises(RunError, match="MLflow: database is locked"):
            run.finish({}, 1)
        monkeypatch.setattr(MlflowClient, "log_batch", real)
        run.finish({"b": 2.0}, 2)
        metrics = MlflowClient(tracking_uri=store.uri).get_run(run.run_id).data.metrics
    assert metrics == {"a": 1.0, "b": 2.0}


def test_a_run_has_one_trainer_and_is_free_when_stopped(store: RunStore, run_id: str) -> None:
    client = MlflowClient(tracking_uri=store.uri)
    with started(store) as run:
        with pytest.raises(RunError, match="another process is training it"):
            store.resume(run.run_id)
        run.record(1, {"lost": 1.0})
    assert client.get_run(run.run_id).info.status == "KILLED"
    again = store.resume(run.run_id)
    assert client.get_run(run.run_id).info.status == "RUNNING"
    again.finish({"kept": 1.0}, 1)
    assert client.get_run(run.run_id).data.metrics == {"kept": 1.0}
    with pytest.raises(RunError, match="finished, nothing to resume"):
        store.resume(run_id)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(RunError, match="cannot be written"), started(RunStore(tmp_path / "runs")):
        pass


def test_the_machine_is_watched_until_the_end(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracked_run, "_SAMPLING_S", 0.05)
    with started(store) as run:
        run.watch_machine()
        client = MlflowClient(tracking_uri=store.uri)
        for _ in range(100):
            time.sleep(0.1)
            run.flush()
            if (
                len(client.get_metric_history(run.run_id, "system/system_memory_usage_megabytes"))
                > 1
            ):
                break
        run.finish({}, 1)
        metrics = client.get_run(run.run_id).data.metrics
        assert 0 < metrics["system/cpu_utilization_percentage"] <= 100
        assert metrics["system/system_memory_usage_megabytes"] > 0
        assert not [thread for thread in threading.enumerate() if "SystemMetrics" in thread.name]
