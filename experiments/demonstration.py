"""What `gatepilot demo` shows.

A training, its policy against the controllers of the field, the policy as a sealed artifact, and
that artifact in shadow beside the Kubernetes autoscaler.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ..agents.artifact.export import export_policy
from ..agents.artifact.manifest import Manifest
from ..agents.artifact.signing import PRIVATE_KEY_FILE, PUBLIC_KEY_FILE, make_key_pair
from ..agents.config import TrainingConfig
from ..agents.pretrained import PREFIX, pretrained_names
from ..agents.training import Training
from ..deploy_bridge.settings import LEDGER_FILE
from ..envs.scenario import Scenario
from .conduct import conduct
from .exporting import trained_run
from .places import Places as StudyPlaces
from .progress import TrainingProgress
from .provenance import collect
from .rehearsal.incumbent import named_incumbent
from .rehearsal.plan import RehearsalPlan, load_for, one_window
from .rehearsal.rehearsal import Rehearsal, rehearse
from .study import Study, StudyPlan, prepare_study
from .terminal import StudyProgress
from .tracking import RunStore
from .training_run import FinishedRun, open_run, run_training
from .wording import short

CONFIG: Final = "demo"
"""The shipped configuration that is trained."""
RIVALS: Final = (
    *(PREFIX + name for name in pretrained_names()),
    *("hpa", "hpa@unit", "best_fixed", "do_nothing", "always_max", "random"),
)
"""Whom the trained policy meets: those that ship, and the field's."""
INCUMBENT: Final = "hpa"
"""Who drives while the policy watches."""
SHADOW_TICKS: Final = 480
"""Length of the shadow; two hours."""


@dataclass(frozen=True)
class Places:
    """Where in the demo's folder things lie."""

    out: Path

    @property
    def report(self) -> Path:
        """The report."""
        return self.out / "report.html"

    @property
    def artifact(self) -> Path:
        """The sealed policy; not `artifact`, MLflow has `artifacts`."""
        return self.out / "policy"

    @property
    def private_key(self) -> Path:
        """Signs it."""
        return self.out / "keys" / PRIVATE_KEY_FILE

    @property
    def public_key(self) -> Path:
        """Its signature is checked with."""
        return self.out / "keys" / PUBLIC_KEY_FILE

    @property
    def state(self) -> Path:
        """Folder of the shadow's ledger."""
        return self.out / "shadow"


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
        return run_training(training, run, on_status=progress), training.scenarios[0]


def compared(finished: FinishedRun, scenario: Scenario, store: RunStore) -> Study:
    """Evaluates the run's best model against the rivals, over the test windows.

    Args:
        finished: The training.
        scenario: What it was trained on.
        store: Where it is kept.
    """
    names = (f"run:{finished.run_id}", *RIVALS)
    plan = StudyPlan(
        scenarios=(scenario,),
        policies=names,
        split="test",
        places=StudyPlaces(cells=store.folder / "cells", runs=store.folder),
    )
    study = conduct(plan, prepare_study(plan))
    provenance = study.results.provenance
    note = f"{short(names[0])} was trained for this report: {finished.result.steps:,} steps of PPO."
    provenance = provenance | {"notes": [note, *provenance["notes"]]}
    return replace(study, results=replace(study.results, provenance=provenance))


def sealed(finished: FinishedRun, store: RunStore, places: Places) -> Manifest:
    """Exports the run's best model, signed with a key of the demo's own.

    Args:
        finished: The training.
        store: Where it is kept.
        places: Where things lie; what an earlier demo left there is replaced, but its key is kept.

    Raises:
        ArtifactError: It cannot be written.
        ParityError: The network in the file decides otherwise than the trained one.
    """
    if not places.private_key.exists():
        make_key_pair(places.private_key.parent)
    with StudyProgress() as progress:
        return export_policy(
            trained_run(store, finished.run_id, None),
            places.artifact,
            private_key=places.private_key,
            force=True,
            traces_dir=None,
            reporter=progress,
        )


def watched(study: Study, scenario: Scenario, places: Places) -> Rehearsal:
    """Holds a rehearsal of the artifact in shadow, beside the autoscaler as it was tuned.

    Args:
        study: The comparison, which has tuned it.
        scenario: What it was trained on.
        places: Where things lie; the ledger of an earlier demo is replaced.

    Raises:
        RehearsalError: The ledger's folder cannot be made.
    """
    settings = {row.policy: row.settings.get(scenario.name, {}) for row in study.results.summary}
    tuned = settings.get(INCUMBENT, {})
    from_s, to_s = scenario.split_range("test")
    fitting = int((to_s - from_s) // scenario.control.tick_s)
    plan = RehearsalPlan(
        one_window(
            scenario,
            split="test",
            ticks=min(SHADOW_TICKS, fitting),
            number=None,
            seed=0,
            traces_dir=None,
        ),
        load_for(scenario, places.artifact, places.public_key),
        named_incumbent(INCUMBENT, tuned.get("params"), tuned.get("threshold_steps")),
    )
    for old in places.state.glob(f"{Path(LEDGER_FILE).stem}.*"):
        old.unlink()
    with StudyProgress() as progress:
        return rehearse(plan, places.state, progress)
