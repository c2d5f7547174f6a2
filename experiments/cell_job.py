"""The job that plays one cell: gates the windows, gets the policy ready, plays, keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from ..agents.choice import Choice
from ..agents.contestant import Contestant, Performance, PolicyError, Preparation
from ..agents.evaluation import unkeepable
from ..agents.trial import Trial, TrialPlan, load_trial
from ..agents.tuning import Reporter
from .cells import CellKey, CellStore
from .named_contestants import named_contestant, weights_of
from .places import Places
from .tuning_job import kept_trials


@dataclass(frozen=True)
class CellJob:
    """Plays a cell."""

    key: CellKey
    planned: TrialPlan
    shipped: Choice | None
    """Settings that ship for this policy and scenario."""
    places: Places

    @property
    def label(self) -> str:
        """Policy and scenario."""
        return str(self.key)

    def run(self, reporter: Reporter, threads: int | None) -> None:
        """Plays and writes it."""
        policy, traces = self.key.policy, self.places.traces
        workload = _workload(self.planned, traces, threads)
        gate = workload.gate(reporter)
        kept = workload.trial.keeping([share == 0 for share in gate])
        performance = Performance(())
        if kept.windows:
            preparation = Preparation(
                partial(kept_trials, kept.scenario, kept.ticks, traces, threads),
                self.places.studies,
                reporter,
                {} if self.shipped is None else {policy: self.shipped},
            )
            weights = tuple(self.key.ingredients["weights"])
            contestant = _contestant(policy, self.places.runs, weights)
            performance = contestant.play(kept, preparation)
        CellStore(self.places.cells).write(self.key, gate, performance, kept)


class _Workload:
    """What the cells of one scenario have in common."""

    def __init__(self, planned: TrialPlan, traces: Path | None, threads: int | None) -> None:
        self.trial: Trial = load_trial(planned, traces, threads)
        self._gate: tuple[float, ...] | None = None

    def gate(self, reporter: Reporter) -> tuple[float, ...]:
        """Of each window the share of violating ticks at maximum replicas with faults off."""
        if self._gate is None:
            trial = self.trial
            what = f"which windows of {trial.scenario.name} can be kept"
            progress = reporter.start(what, len(trial.windows) * trial.ticks)
            self._gate = tuple(unkeepable(trial, progress).tolist())
        return self._gate


_newest: dict[tuple[TrialPlan, Path | None, int | None], _Workload] = {}


def _workload(planned: TrialPlan, traces: Path | None, threads: int | None) -> _Workload:
    """The workload of a scenario, kept until another one is asked for.

    Jobs come scenario by scenario, and a day of traffic takes room.
    """
    key = (planned, traces, threads)
    if key not in _newest:
        _newest.clear()
        _newest[key] = _Workload(planned, traces, threads)
    return _newest[key]


@lru_cache(maxsize=16)
def _contestant(name: str, runs: Path, weights: tuple[str, ...]) -> Contestant:
    """A contestant, its weights loaded once a process.

    Raises:
        PolicyError: They are not those that the cell is about.
    """
    contestant = named_contestant(name, runs)
    if weights_of(contestant) != weights:
        raise PolicyError(f"{name} has changed since the evaluation began")
    return contestant
