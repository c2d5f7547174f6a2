"""The job that tunes one controller in one scenario."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..agents.tuning import Reporter, Tuned, TuningTrials, tune, tuning_trials
from ..envs.scenario import Scenario
from .places import Places


@dataclass(frozen=True)
class Study:
    """A study that was carried through."""

    tuned: Tuned
    train_windows: int
    """Windows that candidates were played on."""
    validation_windows: int
    """Windows on which the best was held against the defaults."""


@dataclass(frozen=True)
class TuningJob:
    """Carries a study through; an interrupted one is gone on with."""

    policy: str
    """A controller's name, with or without `@unit`."""
    scenario: Scenario
    ticks: int
    """Length of a window."""
    places: Places

    @property
    def label(self) -> str:
        """Policy and scenario."""
        return f"tuning {self.policy} on {self.scenario.name}"

    def run(self, reporter: Reporter, threads: int | None) -> Study:
        """Tunes."""
        trials = kept_trials(self.scenario, self.ticks, self.places.traces, threads)
        tuned = tune(self.policy, trials, studies_dir=self.places.studies, reporter=reporter)
        return Study(tuned, len(trials.train.windows), len(trials.validation.windows))


_newest: dict[tuple[Scenario, int, Path | None, int | None], TuningTrials] = {}


def kept_trials(
    scenario: Scenario, ticks: int, traces: Path | None, threads: int | None
) -> TuningTrials:
    """The windows to tune on, kept until those of another scenario are asked for.

    Jobs come scenario by scenario, and half a day of traffic takes room.

    Args:
        scenario: What is run.
        ticks: Length of a window.
        traces: Where trace files lie.
        threads: As in `Trial`.
    """
    key = (scenario, ticks, traces, threads)
    if key not in _newest:
        _newest.clear()
        _newest[key] = tuning_trials(scenario, ticks, traces, threads)
    return _newest[key]
