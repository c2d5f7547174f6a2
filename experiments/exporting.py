"""A tracked run becomes an artifact, and the artifact a version of a registered model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Final

from ..agents.artifact.export import Trained
from ..agents.artifact.manifest import Manifest, Origin
from ..agents.baselines.planner.advisor import advisor_identity
from ..agents.callbacks import BEST_MODEL_FILE
from ..agents.learned_policy import load_policy
from ..agents.trial import trace_path
from ..envs.scenario import Scenario
from .config import to_yaml
from .run_files import RunError
from .tracking import ModelVersion, RunStore
from .tracking.onnx_model import write_onnx_model

DIGEST_TAG: Final = "digest"
"""Tag of a version that names its artifact's digest."""
MODELS_FOLDER: Final = "model"
"""Within a run's folder: what was registered, each under the start of its artifact's digest."""
_EXPORTERS: Final = ("gatepilot", "onnx", "onnxruntime", "torch")
"""Distributions that make the artifact; their versions stand beside those of the training."""


def trained_run(
    store: RunStore, run_id: str, traces_dir: Path | None, scenario: str | None = None
) -> Trained:
    """The best model of a run, with all that is known of its training.

    Args:
        store: Where runs are kept.
        run_id: MLflow's id.
        traces_dir: Folder of the traces; `None`: workload models stand in.
        scenario: Whose advisor the policy is to be bound to; `None`: the general one.

    Raises:
        RunError: No such run, no advisor of its own for the scenario, no model yet, or another
            contract than this version of the code has, or scenarios that it does not read.
    """
    files = store.files(run_id)
    config, contract = files.config(), files.contract()
    if scenario is not None:
        if scenario not in config.advisors:
            known = ", ".join(config.advisors) or "no scenario"
            raise RunError(
                f"run {run_id}: {scenario} has no advisor of its own; trained with one for {known}"
            )
        contract = replace(contract, advisor=advisor_identity(config.advisors[scenario]))
    if not (files.folder / BEST_MODEL_FILE).is_file():
        raise RunError(f"run {run_id}: no model yet; the first comes with the first validation")
    try:
        policy = load_policy(files.folder / BEST_MODEL_FILE, config)
    except ValueError as error:
        raise RunError(f"run {run_id}: {error}") from error
    scenarios = files.scenarios()
    made_by = files.provenance()
    has_traces = all(trace_path(one, traces_dir) is not None for one in scenarios)
    origin = Origin(
        run_id=run_id,
        seed=config.seed,
        steps=config.steps,
        scenarios=tuple(scenario.name for scenario in scenarios),
        config_yaml=to_yaml(config),
        scenarios_yaml=files.scenarios_text(),
        git_commit=made_by.git_commit,
        git_dirty=made_by.git_dirty,
        traffic="trace" if has_traces else "model",
        validation=store.best_figures(run_id),
        versions={**made_by.versions, **_exporters()},
    )
    return Trained(policy, config, scenarios, contract, origin)


def missing_traces(scenarios: Sequence[Scenario], traces_dir: Path | None) -> list[str]:
    """Traces that scenarios name and that are not here: workload models stand in for them."""
    named = {one.workload.trace: trace_path(one, traces_dir) for one in scenarios}
    return sorted(name for name, path in named.items() if name is not None and path is None)


def register(
    store: RunStore, folder: Path, manifest: Manifest, *, name: str, alias: str | None
) -> ModelVersion:
    """Keeps an artifact with its run, as an ONNX model of MLflow's, and makes a version of it.

    Args:
        store: The run's.
        folder: The artifact.
        manifest: Of it.
        name: The model's.
        alias: Points to the new version from now on; `None`: none does.

    Raises:
        RunError: The registry refuses it.
        ArtifactError: The run's folder cannot be written.
        OutputError: The same.
    """
    run_id = manifest.origin.run_id
    kept = store.files(run_id).folder / MODELS_FOLDER / manifest.digest[:12]
    write_onnx_model(kept, folder, manifest)
    tags = {
        DIGEST_TAG: manifest.digest,
        "fingerprint": manifest.fingerprint,
        "scenarios": ", ".join(manifest.origin.scenarios),
    }
    return store.registry().register(name, kept, run_id=run_id, tags=tags, alias=alias)


def _exporters() -> Mapping[str, str]:
    return {f"export.{name}": metadata.version(name) for name in _EXPORTERS}
