"""A folder of runs: MLflow's database, and a folder of files for each run."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from mlflow import MlflowClient
from mlflow.entities import RunStatus
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from ...agents.config import TrainingConfig
from ...agents.digests import Traffic, json_digest, scenario_digest
from ...envs.scenario import Scenario
from ...envs.schema.fingerprint import Contract
from ..config import flat
from ..provenance import Provenance
from ..run_files import RunError, RunFiles
from .entities import begun_run, dataset, origin_tags, traffic_in
from .registry import Registry
from .run_summary import RunSummary
from .tracked_run import TrackedRun
from .wording import first_line

EXPERIMENT: Final = "gatepilot"
"""MLflow experiment of all trainings."""
_DATABASE: Final = "mlflow.db"
_GROUP_TAG: Final = "seeds"
"""Tag of a parent run: how many trainings it has."""
_BEST: Final = "best/"
"""What the figures of a run's best checkpoint start with."""


class RunStore:
    """A folder of runs: MLflow's database, and a folder of files for each run."""

    def __init__(self, folder: Path) -> None:
        """Names the folder; nothing is made before `create`.

        Args:
            folder: The folder of runs.
        """
        self.folder = folder

    @property
    def uri(self) -> str:
        """MLflow's tracking URI."""
        return f"sqlite:///{(self.folder / _DATABASE).resolve()}"

    @property
    def ui_command(self) -> str:
        """How to look at the runs in a browser."""
        return f"mlflow ui --backend-store-uri {self.uri}"

    def create(
        self,
        config: TrainingConfig,
        scenarios: Sequence[Scenario],
        contract: Contract,
        provenance: Provenance,
        *,
        traffic: Sequence[Traffic] = (),
        parent: str | None = None,
    ) -> TrackedRun:
        """Starts a run and writes down what it is.

        Args:
            config: What is trained.
            scenarios: On what.
            contract: Under which contract.
            provenance: By which code and command.
            traffic: Where its requests come from: MLflow's datasets.
            parent: Group that it belongs to, if any.

        Raises:
            RunError: The folder cannot be written.
        """
        client, experiment_id = self._opened()
        tags = {
            "fingerprint": contract.fingerprint,
            "scenarios": json_digest([scenario_digest(scenario) for scenario in scenarios]),
            MLFLOW_PARENT_RUN_ID: parent,
            **origin_tags(provenance),
        }
        name = f"{config.name}-seed{config.seed}"
        run_id = begun_run(client, experiment_id, name, flat(config), tags)
        client.log_inputs(run_id, [dataset(one) for one in traffic])
        files = self._files(run_id)
        files.write(config, scenarios, contract, provenance)
        return TrackedRun(client, run_id, files.folder)

    def traffic(self, run_id: str) -> tuple[Traffic, ...]:
        """Where a run's requests came from when it was started.

        Raises:
            RunError: There is no such run.
        """
        return traffic_in(self._client(run_id).get_run(run_id))

    def create_group(self, config: TrainingConfig, seeds: int, provenance: Provenance) -> str:
        """Starts a parent run for trainings of one recipe that differ in their seed.

        Args:
            config: The recipe.
            seeds: How many trainings there will be.
            provenance: By which code and command.

        Returns:
            Its id.

        Raises:
            RunError: The folder cannot be written.
        """
        client, experiment_id = self._opened()
        settings = {key: value for key, value in flat(config).items() if key != "seed"}
        tags = {_GROUP_TAG: str(seeds), **origin_tags(provenance)}
        return begun_run(client, experiment_id, config.name, settings, tags)

    def group_size(self, run_id: str) -> int | None:
        """How many trainings a parent run has; `None`: it is no parent.

        Raises:
            RunError: There is no such run.
        """
        tags = self._client(run_id).get_run(run_id).data.tags
        return int(tags[_GROUP_TAG]) if _GROUP_TAG in tags else None

    def children(self, run_id: str) -> list[str]:
        """Ids of a parent run's trainings, in order of their start.

        Raises:
            RunError: There is no such run.
        """
        client = self._client(run_id)
        experiment_id = client.get_run(run_id).info.experiment_id
        mine = f"tags.`{MLFLOW_PARENT_RUN_ID}` = '{run_id}'"
        found = client.search_runs([experiment_id], mine, order_by=["attributes.start_time ASC"])
        return [str(run.info.run_id) for run in found]

    def finish_group(self, run_id: str, figures: Mapping[str, float]) -> None:
        """Notes figures over all trainings of a parent run and marks it as finished."""
        client = self._client(run_id)
        for name, value in figures.items():
            client.log_metric(run_id, name, value)
        client.set_terminated(run_id, RunStatus.to_string(RunStatus.FINISHED))

    def stop_group(self, run_id: str, status: Literal["FAILED", "KILLED"]) -> None:
        """Marks a parent run as ended early."""
        self._client(run_id).set_terminated(run_id, status)

    def resume(self, run_id: str) -> TrackedRun:
        """Opens a run that was broken off and marks it as running.

        Raises:
            RunError: There is no such run, or it is finished.
        """
        client = self._client(run_id)
        if client.get_run(run_id).info.status == RunStatus.to_string(RunStatus.FINISHED):
            raise RunError(f"run {run_id}: finished, nothing to resume")
        run = TrackedRun(client, run_id, self._files(run_id).folder)
        client.update_run(run_id, status=RunStatus.to_string(RunStatus.RUNNING))
        return run

    def files(self, run_id: str) -> RunFiles:
        """The folder of a run.

        Raises:
            RunError: There is no such run.
        """
        self._client(run_id)
        return self._files(run_id)

    def best_figures(self, run_id: str) -> dict[str, float]:
        """Figures of the best checkpoint on the validation windows; none before the end.

        Raises:
            RunError: There is no such run.
        """
        metrics = self._client(run_id).get_run(run_id).data.metrics
        return {k.removeprefix(_BEST): v for k, v in metrics.items() if k.startswith(_BEST)}

    def newest(self, count: int) -> list[str]:
        """Ids of the last runs, the newest first.

        Raises:
            RunError: There are none.
        """
        self._check_database("compare")
        client = MlflowClient(tracking_uri=self.uri)
        known = client.get_experiment_by_name(EXPERIMENT)
        found = [] if known is None else client.search_runs([known.experiment_id])
        ids = [str(run.info.run_id) for run in found if _GROUP_TAG not in run.data.tags]
        if not ids:  # MLflow's order: the newest first
            raise RunError(f"compare: no runs in {self.folder} (see --runs)")
        return ids[:count]

    def summary(self, run_id: str) -> RunSummary:
        """What is known of a run.

        Raises:
            RunError: There is no such run.
        """
        run = self._client(run_id).get_run(run_id)
        tags, metrics = run.data.tags, run.data.metrics
        started = datetime.fromtimestamp(run.info.start_time / 1000, UTC)
        return RunSummary(
            run_id=run_id,
            name=str(run.info.run_name),
            status=str(run.info.status),
            started=started.isoformat(timespec="seconds"),
            fingerprint=tags["fingerprint"],
            git_commit=tags.get("git_commit"),
            best=self.best_figures(run_id),
            wall_s=metrics.get("time/wall_s"),
            steps_per_s=metrics.get("time/steps_per_s"),
        )

    def curve(self, run_id: str, figure: str) -> tuple[tuple[int, float], ...]:
        """Steps and values of a figure, in order of steps; empty: never recorded.

        Raises:
            RunError: There is no such run.
        """
        points = {m.step: m.value for m in self._client(run_id).get_metric_history(run_id, figure)}
        return tuple(sorted(points.items()))

    def registry(self) -> Registry:
        """The registry of models beside the runs.

        Raises:
            RunError: There is no database.
        """
        self._check_database("registry")
        return Registry(self.uri)

    def _opened(self) -> tuple[MlflowClient, str]:
        """MLflow, made if need be, and the id of our experiment.

        Raises:
            RunError: The folder cannot be written.
        """
        try:
            (self.folder / "artifacts").mkdir(parents=True, exist_ok=True)
            with _locked(self.folder / ".lock"):
                client = MlflowClient(tracking_uri=self.uri)
                return client, _experiment(client, self.folder / "artifacts")
        except OSError as error:
            raise RunError(f"{self.folder}: cannot be written ({error.strerror})") from error
        except MlflowException as error:
            raise RunError(f"{self.folder / _DATABASE}: {first_line(error)}") from error

    def _client(self, run_id: str) -> MlflowClient:
        """MLflow, if it knows the run."""
        self._check_database(f"run {run_id}")
        client = MlflowClient(tracking_uri=self.uri)
        try:
            client.get_run(run_id)
        except MlflowException as error:
            raise RunError(f"run {run_id}: not found in {self.folder}") from error
        return client

    def _check_database(self, wanted: str) -> None:
        if not (self.folder / _DATABASE).is_file():
            raise RunError(f"{wanted}: no runs in {self.folder} (see --runs)")

    def _files(self, run_id: str) -> RunFiles:
        return RunFiles(run_id, self.folder / "artifacts" / run_id / "artifacts")


def _experiment(client: MlflowClient, artifacts: Path) -> str:
    known = client.get_experiment_by_name(EXPERIMENT)
    if known is not None:
        return str(known.experiment_id)
    return str(client.create_experiment(EXPERIMENT, artifact_location=str(artifacts.resolve())))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds a lock file: two trainings that start at once must not both create the database."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
