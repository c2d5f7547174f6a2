"""What must be known to repeat an evaluation, and what a reader must be told about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from ..agents.contestants import Learned
from ..agents.digests import traffic_of
from ..agents.statistics import MIN_BLOCKS
from ..agents.trial import TrialPlan, can_redraw, trace_path
from .provenance import collect
from .shipped_settings import shipped_settings
from .study import StudyPlan
from .wording import counted

SUGGESTED_WINDOWS: Final = 16
"""What is proposed where too few windows fit."""


def described_study(plan: StudyPlan, trials: Sequence[TrialPlan]) -> dict[str, Any]:
    """Command, code, versions, scenarios, windows and seeds as plain data.

    Args:
        plan: What was evaluated.
        trials: From `prepare_study`, gated windows included.
    """
    return {
        "notes": study_notes(plan, trials),
        **asdict(collect()),
        "seed": plan.seed,
        "fingerprints": {
            contestant.label: [member.fingerprint for member in contestant.members]
            for contestant in plan.contestants
            if isinstance(contestant, Learned)
        },
        "scenarios": {trial.scenario.name: _described(plan, trial) for trial in trials},
    }


def study_notes(plan: StudyPlan, trials: Sequence[TrialPlan]) -> list[str]:
    """What would mislead a reader who is not told; arguments as in `described_study`."""
    return [note for trial in trials for note in _notes(plan, trial)]


def _described(plan: StudyPlan, trial: TrialPlan) -> dict[str, Any]:
    workload = trial.scenario.workload
    from_s, to_s = trial.scenario.split_range(trial.split)
    return {
        "split": trial.split,
        "range_s": [from_s, to_s],
        "traffic": str(traffic_of(trial.scenario, plan.places.traces)),
        "rate_scale": workload.rate_scale,
        "max_prompt_tokens": workload.max_prompt_tokens,
        "profile": trial.scenario.profile,
        "replicas": [trial.limits.min_replicas, trial.limits.max_replicas],
        "tick_s": trial.tick_s,
        "ticks": trial.ticks,
        "windows": len(trial.windows),
        "disjoint_windows_that_fit": trial.plan.fitting,
        "rounds": trial.plan.rounds,
        "window_starts_s": [round(window.start_s, 3) for window in trial.windows],
    }


def _notes(plan: StudyPlan, trial: TrialPlan) -> list[str]:
    """What would mislead a reader who is not told."""
    name, workload, windows = trial.scenario.name, trial.scenario.workload, trial.plan
    notes = []
    if workload.trace is not None and trace_path(trial.scenario, plan.places.traces) is None:
        notes.append(
            f"{name}: {workload.trace} is not here; traffic is sampled from the shipped model "
            f"{workload.model} instead."
        )
    shipped, here = shipped_settings(trial.scenario), traffic_of(trial.scenario, plan.places.traces)
    if shipped is not None and here is not None and shipped.traffic_sha256 != here.sha256:
        notes.append(
            f"{name}: the shipped settings of its controllers were tuned on {shipped.traffic} "
            f"({shipped.traffic_sha256[:12]}), the traffic here is {here} ({here.sha256[:12]})."
        )
    if windows.asked is not None and len(windows.windows) < windows.asked:
        notes.append(
            f"{name}: {windows.asked} windows asked for, but only {windows.fitting} disjoint ones "
            f"of {trial.ticks} ticks fit, and the traffic cannot be drawn anew: "
            f"{len(windows.windows)} are used."
        )
    if (
        windows.asked is None
        and len(trial.windows) < MIN_BLOCKS
        and can_redraw(trial.scenario, plan.places.traces)
    ):
        notes.append(
            f"{name}: {counted(windows.fitting, 'disjoint window')} of {trial.ticks} ticks fit, "
            f"too few for a verdict; --windows {SUGGESTED_WINDOWS} draws the traffic anew for more."
        )
    if windows.rounds > 1:
        notes.append(
            f"{name}: {counted(windows.fitting, 'disjoint window')} fit. {windows.rounds} rounds "
            "draw the traffic of the same range anew (other shifts of its copies, or another "
            "sample of its model), and a block of the bootstrap is one (round, window). The "
            "intervals speak about this range, not about other days: windows of the same place "
            "have much in common."
        )
    return notes
