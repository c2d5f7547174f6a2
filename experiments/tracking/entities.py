"""Runs, tags and datasets as MLflow has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Param, Run, RunTag

from ...agents.digests import Traffic
from ..provenance import Provenance

_MOST_DIGEST: Final = 32
"""Digits of a dataset's digest; MLflow takes 36."""


def begun_run(
    client: MlflowClient,
    experiment_id: str,
    name: str,
    settings: Mapping[str, str],
    tags: Mapping[str, object],
) -> str:
    """Creates a run; tags without a value are left out.

    Returns:
        Its id.
    """
    run_id = str(client.create_run(experiment_id, run_name=name).info.run_id)
    client.log_batch(
        run_id,
        params=[Param(key, value) for key, value in settings.items()],
        tags=[RunTag(key, str(value)) for key, value in tags.items() if value is not None],
    )
    return run_id


def origin_tags(provenance: Provenance) -> dict[str, object]:
    """By which code and command."""
    return {
        "git_commit": provenance.git_commit,
        "git_dirty": provenance.git_dirty,
        "command": provenance.command,
        "python": provenance.python,
        **{f"version.{name}": version for name, version in provenance.versions.items()},
    }


def dataset(traffic: Traffic) -> DatasetInput:
    """Traffic as a dataset; its source is the hash, its digest what MLflow takes of it."""
    made = Dataset(traffic.name, traffic.sha256[:_MOST_DIGEST], traffic.kind, traffic.sha256)
    return DatasetInput(made, [InputTag("mlflow.data.context", "training")])


def traffic_in(run: Run) -> tuple[Traffic, ...]:
    """The traffic among a run's datasets."""
    inputs = [] if run.inputs is None else run.inputs.dataset_inputs
    found = [one.dataset for one in inputs]
    return tuple(
        Traffic("trace" if one.source_type == "trace" else "model", one.name, one.source)
        for one in found
    )
