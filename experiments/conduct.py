"""Carries an evaluation through as a command does: with progress bars, and with its provenance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..agents.trial import TrialPlan
from .compilation import compile_with_notice
from .files import check_folder
from .job_progress import JobsProgress
from .study import Study, StudyPlan, run_study
from .study_provenance import described_study


def conduct(plan: StudyPlan, planned: Sequence[TrialPlan]) -> Study:
    """Compiles the engine if need be, runs the evaluation and says what a reader must be told.

    Args:
        plan: What to evaluate.
        planned: From `prepare_study`.

    Raises:
        OutputError: There is no place for cells or studies.
    """
    for folder in (plan.places.cells, plan.places.studies):
        if folder is not None:
            check_folder(folder)
    compile_with_notice()
    with JobsProgress() as progress:
        study = run_study(plan, planned, progress)
        provenance = described_study(plan, planned)
        for note in provenance["notes"]:
            progress.note(note)
    return replace(study, results=replace(study.results, provenance=provenance))
