"""What `gatepilot demo` shows: a training, and its policy against the controllers of the field."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from ..agents.config import TrainingConfig
from ..agents.contestants import parse_contestant
from ..agents.training import Training
from ..envs.scenario import Scenario
from .conduct import conduct
from .progress import TrainingProgress
from .provenance import collect
from .run_policy import load_run_policy
from .study import Study, StudyPlan, prepare_study
from .tracking import RunStore
from .training_run import FinishedRun, open_run, run_training
from .wording import short

CONFIG: Final = "demo"
"""The shipped configuration that is trained."""
RIVALS: Final = ("hpa", "hpa@unit", "best_fixed", "do_nothing", "always_max", "random")
"""Whom the trained policy meets."""


def trained(config: TrainingConfig, store: RunStore) -> tuple[FinishedRun, Scenario]:
    """Trains with a progress bar.

    Args:
        config: What to train.
        store: Where the run is kept.

    Returns:
        The finished run and the scenario it was trained on.
    """
    training = Training(config)
    run = open_run(training, store, collect())
    with TrainingProgress(config.name, config.steps) as progress:
        return run_training(training, run, on_status=progress), training.scenario


def compared(finished: FinishedRun, scenario: Scenario, store: RunStore) -> Study:
    """Evaluates the run's best model against the rivals, over the test windows.

    Args:
        finished: The training.
        scenario: What it was trained on.
        store: Where it is kept.
    """
    load_run = partial(load_run_policy, store.folder)
    names = (f"run:{finished.run_id}", *RIVALS)
    plan = StudyPlan(
        scenarios=(scenario,),
        contestants=tuple(parse_contestant(name, load_run) for name in names),
        split="test",
    )
    study = conduct(plan, prepare_study(plan))
    provenance = study.results.provenance
    note = f"{short(names[0])} was trained for this report: {finished.result.steps:,} steps of PPO."
    provenance = provenance | {"notes": [note, *provenance["notes"]]}
    return replace(study, results=replace(study.results, provenance=provenance))
