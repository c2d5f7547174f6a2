"""Carries an evaluation through as a command does: with a progress bar, and with its provenance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..agents.trial import Trial
from .compilation import compile_with_notice
from .study import Study, StudyPlan, run_study
from .study_provenance import described_study
from .terminal import StudyProgress


def conduct(plan: StudyPlan, trials: Sequence[Trial]) -> Study:
    """Compiles the engine if need be, runs the evaluation and says what a reader must be told.

    Args:
        plan: What to evaluate.
        trials: From `prepare_study`.
    """
    compile_with_notice()
    with StudyProgress() as progress:
        study = run_study(plan, trials, progress)
        provenance = described_study(plan, trials)
        for note in provenance["notes"]:
            progress.note(note)
    return replace(study, results=replace(study.results, provenance=provenance))
