"""The hindsight controller: it knows the traffic and the faults of its own window.

It lays plans beforehand, plays them all, and keeps for every window the one with the fewest
violating ticks, of those the cheapest. A scenario in whose windows even that breaks the limits
could not be kept by anybody. The plans of a window:

- replicas: what the arriving work needs, one cold start ahead, at several shares of a replica's
  capacity and held for several times; and all replicas, always;
- one more while a fault holds a single replica, more in proportion while a surge lasts;
- threshold: low, middle or high throughout, or low while single replicas fail, high while all do,
  and middle while both happen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...envs.schema.settings import MAX_THRESHOLD_STEPS, MIN_THRESHOLD_STEPS
from ..episodes import Outcomes
from ..evaluation import MakeController, Progress, no_progress, play_controllers
from ..policy import Controller
from ..trial import Trial
from ..windows import Window
from .demand import bins_ahead, planned_replicas, replicas_worth
from .phases import EVERYWHERE, SINGLE, Phases, window_phases
from .plan import Plan

TARGETS: Final = (0.4, 0.5, 0.6, 0.7, 0.8)
"""Shares of a replica's capacity to fill: TTFT suffers long before a replica is full."""
HOLDS: Final = (4, None)
"""Ticks for which a need is kept up; `None`: for the whole window, so that nothing ever moves."""
LOW_STEPS: Final = 2
"""A threshold of 0.1: sensitive, and not upset by a single failure in ten."""
MIDDLE_STEPS: Final = (3, 6)
"""0.15 and 0.3: take out one replica that fails much more than all the others do."""
COURSES: Final = ("low", "middle", "high", "by phase, 0.15 for both", "by phase, 0.3 for both")
"""Courses of the threshold, where faults are on."""


@dataclass(frozen=True)
class Hindsight:
    """What the hindsight controller reached."""

    outcomes: Outcomes
    """Of the plan chosen for each window."""
    choices: tuple[str, ...]
    """Which plan that was."""


def play_hindsight(trial: Trial, progress: Progress = no_progress) -> Hindsight:
    """Plays every plan through every window and keeps each window's best.

    Args:
        trial: Windows and traffic.
        progress: Told of every tick.
    """
    laid = {window.index: window_plans(trial, window) for window in trial.windows}
    names = tuple(next(iter(laid.values())))

    def maker(name: str) -> MakeController:
        def make(window: Window) -> Controller:
            return laid[window.index][name].make()

        return make

    played = play_controllers(trial, [maker(name) for name in names], progress)
    violations = np.stack([outcomes.violations.sum(axis=1) for outcomes in played])
    hours = np.stack([outcomes.replica_hours for outcomes in played])
    best = np.lexsort((hours, violations), axis=0)[0]
    chosen = [played[plan].taken(slice(i, i + 1)) for i, plan in enumerate(best)]
    return Hindsight(Outcomes.joined(chosen), tuple(names[plan] for plan in best))


def plan_count(trial: Trial) -> int:
    """How many plans are played through every window."""
    return (1 + len(TARGETS) * len(HOLDS)) * (len(COURSES) if trial.scenario.faults else 1)


def window_plans(trial: Trial, window: Window) -> dict[str, Plan]:
    """Every plan for a window, by name; the same names in the same order for every window."""
    phases = window_phases(trial, window)
    thresholds = _thresholds(trial, phases)
    return {
        f"{size}, threshold {kind}": Plan(replicas, steps)
        for size, replicas in _sizes(trial, window, phases).items()
        for kind, steps in thresholds.items()
    }


def _sizes(trial: Trial, window: Window, phases: Phases) -> dict[str, NDArray[np.int64]]:
    """Replicas at each tick, by name."""
    limits, ticks = trial.limits, trial.ticks
    ahead = bins_ahead(trial.scenario) + 1
    worth = replicas_worth(
        trial.scenario, trial.requests[window.round], window.start_s, ticks, trial.tick_s
    )
    worth *= phases.surge()
    lost = phases.count(SINGLE)
    sizes = {"all": np.full(ticks, limits.max_replicas)}
    for target in TARGETS:
        for hold in HOLDS:
            wanted = planned_replicas(
                worth, lost, target=target, ahead=ahead, hold=ticks if hold is None else hold
            )
            name = f"{target:.2f} busy, held {'throughout' if hold is None else hold}"
            sizes[name] = np.clip(wanted, limits.min_replicas, limits.max_replicas)
    return sizes


def _thresholds(trial: Trial, phases: Phases) -> dict[str, NDArray[np.int64]]:
    """Threshold at each tick, by name."""
    start = trial.scenario.gateway.threshold_steps
    if not trial.scenario.faults:
        return {"as it starts": np.full(trial.ticks, start)}
    single, everywhere = phases.count(SINGLE) > 0, phases.count(EVERYWHERE) > 0
    by_phase = (
        np.select(
            [single & everywhere, single, everywhere],
            [both, MIN_THRESHOLD_STEPS, MAX_THRESHOLD_STEPS],
            start,
        )
        for both in MIDDLE_STEPS
    )
    constants = (LOW_STEPS, MIDDLE_STEPS[0], MAX_THRESHOLD_STEPS)
    courses = (*(np.full(trial.ticks, steps) for steps in constants), *by_phase)
    return dict(zip(COURSES, courses, strict=True))
