"""One evaluation: policies over scenarios, from the windows to the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ..agents.contestants import Contestant, Preparation
from ..agents.episodes import Episode, Outcomes, episodes_of
from ..agents.evaluation import unkeepable
from ..agents.trial import Trial, prepare_trial
from ..agents.tuning import Reporter, TuningTrials, tuning_trials
from ..envs.scenario import Scenario
from .results import GatedOut, Results, pair_up, summarise


@dataclass(frozen=True)
class StudyPlan:
    """What is asked of an evaluation."""

    scenarios: tuple[Scenario, ...]
    contestants: tuple[Contestant, ...]
    split: str | None
    """Range of each workload; `None`: all of it."""
    windows: int | None = None
    """Windows a scenario; `None`: all disjoint ones that fit, at most 64."""
    ticks: int | None = None
    """Length of an episode; `None`: each scenario's."""
    seed: int = 0
    """Of windows, traffic, faults and intervals."""
    traces_dir: Path | None = None
    """Folder of the traces; where one is absent a workload model stands in."""
    studies_dir: Path | None = None
    """Where tuning studies are kept; `None`: nowhere."""


@dataclass(frozen=True)
class Study:
    """What an evaluation found, and what it went through."""

    results: Results
    trials: tuple[Trial, ...]
    """One a scenario, without the windows that were gated out."""
    outcomes: dict[tuple[str, str], Outcomes] = field(default_factory=dict)
    """By scenario and policy, tick by tick, for plots; of several training seeds the first."""


def prepare_study(plan: StudyPlan) -> tuple[Trial, ...]:
    """Plans the windows, loads the traffic and checks that everything fits together.

    Raises:
        ValueError: It does not: one line.
    """
    trials = tuple(
        prepare_trial(
            scenario,
            split=plan.split,
            ticks=plan.ticks,
            windows=plan.windows,
            seed=plan.seed,
            traces_dir=plan.traces_dir,
        )
        for scenario in plan.scenarios
    )
    for trial in trials:
        for contestant in plan.contestants:
            contestant.check(trial)
    return trials


def run_study(plan: StudyPlan, trials: Sequence[Trial], reporter: Reporter) -> Study:
    """Gates the windows, plays every policy through the others, and sums up.

    Args:
        plan: What to evaluate.
        trials: From `prepare_study`.
        reporter: Shows progress.
    """
    gates = [_gate(trial, reporter) for trial in trials]
    labels = [contestant.label for contestant in plan.contestants]
    episodes: list[Episode] = []
    outcomes: dict[tuple[str, str], Outcomes] = {}
    settings: dict[str, dict[str, Any]] = {label: {} for label in labels}
    kept = [trial for trial, _ in gates if trial.windows]
    for trial in kept:
        name = trial.scenario.name
        training = _Training(trial, plan)
        preparation = Preparation(training, plan.studies_dir, reporter)
        for contestant in plan.contestants:
            performance = contestant.play(trial, preparation)
            if performance.settings:
                settings[contestant.label][name] = performance.settings
            for train_seed, played in performance.runs:
                outcomes.setdefault((name, contestant.label), played)
                episodes += episodes_of(
                    played, trial, policy=contestant.label, train_seed=train_seed
                )
    summary = summarise(episodes, labels, settings, seed=plan.seed) if episodes else ()
    results = Results(
        episodes=tuple(episodes),
        summary=summary,
        by_scenario={
            trial.scenario.name: summary
            if len(kept) == 1
            else summarise(
                [e for e in episodes if e.scenario == trial.scenario.name],
                labels,
                {label: _part(settings[label], trial.scenario.name) for label in labels},
                seed=plan.seed,
            )
            for trial in kept
        },
        pairs=pair_up(episodes, labels, seed=plan.seed) if episodes else (),
        gated_out=tuple(window for _, windows in gates for window in windows),
    )
    return Study(results, tuple(trial for trial, _ in gates), outcomes)


class _Training:
    """The windows to tune on of one scenario, loaded when first asked for."""

    def __init__(self, trial: Trial, plan: StudyPlan) -> None:
        self._trial = trial
        self._plan = plan

    def __call__(self) -> TuningTrials:
        return self._training

    @cached_property
    def _training(self) -> TuningTrials:
        return tuning_trials(self._trial.scenario, self._trial.ticks, self._plan.traces_dir)


def _gate(trial: Trial, reporter: Reporter) -> tuple[Trial, list[GatedOut]]:
    """Sets apart the windows that no number of replicas keeps."""
    progress = reporter.start("which windows can be kept", len(trial.windows) * trial.ticks)
    violation_rate = unkeepable(trial, progress)
    gated_out = [
        GatedOut(trial.scenario.name, window.index, window.start_s, float(share))
        for window, share in zip(trial.windows, violation_rate, strict=True)
        if share > 0
    ]
    return trial.keeping((violation_rate == 0).tolist()), gated_out


def _part(settings: dict[str, Any], scenario: str) -> dict[str, Any]:
    return {scenario: settings[scenario]} if scenario in settings else {}
