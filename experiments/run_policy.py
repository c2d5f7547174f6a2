"""The best model of a tracked run as a policy that can be evaluated."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from ..agents.callbacks import BEST_MODEL_FILE
from ..agents.contestants import TrainedPolicy
from ..agents.digests import file_digest, json_digest
from ..agents.learned_policy import load_policy
from .run_files import RunError
from .tracking import RunStore


def load_run_policy(runs_folder: Path, run_id: str) -> TrainedPolicy:
    """Loads the best model of a run.

    Args:
        runs_folder: The folder of runs.
        run_id: Its MLflow id.

    Returns:
        The policy, what it sees, its contract's fingerprint, its training seed, its digest and its
        advisors.

    Raises:
        RunError: No such run, no model yet, or another contract than this version of the code has.
    """
    files = RunStore(runs_folder).files(run_id)
    config, contract = files.config(), files.contract()
    model = files.folder / BEST_MODEL_FILE
    try:
        policy = load_policy(model, config)
    except ValueError as error:
        raise RunError(f"run {run_id}: {error}") from error
    digest = json_digest([file_digest(model), asdict(config)])
    return TrainedPolicy(
        policy,
        config.observation_spec,
        contract.fingerprint,
        config.seed,
        digest,
        config.general_advisor,
        config.advisors,
    )
