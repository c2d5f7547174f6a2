"""What is it worth to move the breaker's threshold? Schedules in hindsight against constants.

A schedule names one threshold for each phase, that is for each set of fault kinds that can be on at
once; it is told the phase at every tick, which no policy is. Constants and schedules are chosen on
one half of the windows and scored on the other. Replicas stay where they are, at a number chosen
together with the threshold, so that what replicas can mend is mended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..episodes import Outcomes
from ..evaluation import MakeController, Progress, no_progress, play_controllers
from ..policy import Controller
from ..trial import Trial
from ..windows import Window
from .phases import window_phases
from .plan import Plan

STEPS: Final = (1, 2, 3, 4, 6, 8, 12, 19)
"""Thresholds that are tried: more of the lower ones, where most of the difference lies."""
SCREENED: Final = 6
"""Windows on which every constant is tried."""
FINALISTS: Final = 12
"""The best of them, which are tried on all."""
SIZES: Final = 2
"""Numbers of replicas for which a schedule is searched: those of the best constants."""
PASSES: Final = 2
"""Rounds over the phases; in each, one phase's threshold is searched after the other."""

Score: TypeAlias = Callable[[Outcomes], NDArray[np.float64]]
"""What is to be high, `(windows,)`."""


@dataclass(frozen=True)
class Setting:
    """Replicas that stay, and a threshold for each phase."""

    replicas: int
    threshold_steps: Mapping[str, int]
    """By phase; a constant has the same everywhere."""

    def with_step(self, phase: str, steps: int) -> Setting:
        """The same with another threshold in one phase."""
        return Setting(self.replicas, {**self.threshold_steps, phase: steps})


@dataclass(frozen=True)
class Headroom:
    """The best constant and the best schedule, chosen on some windows, scored on others."""

    phases: Mapping[str, float]
    """Share of the ticks of all windows spent in each phase."""
    constant: Setting
    schedule: Setting
    constant_outcomes: Outcomes
    """Of the windows it is scored on."""
    schedule_outcomes: Outcomes
    """Of the same windows."""
    by_threshold: Mapping[int, Outcomes]
    """Each constant threshold at the constant's number of replicas, on the same windows."""


def documented(outcomes: Outcomes) -> NDArray[np.float64]:
    """The documented reward, summed over the episode."""
    return outcomes.returns


def halves(trial: Trial) -> tuple[Trial, Trial]:
    """Every other window to choose on, the rest to score on."""
    even = [place % 2 == 0 for place in range(len(trial.windows))]
    return trial.keeping(even), trial.keeping([not chosen for chosen in even])


class ThresholdStudy:
    """Plays settings through the windows of a trial."""

    def __init__(self, trial: Trial, progress: Progress = no_progress) -> None:
        """Finds the phases of every window.

        Args:
            trial: Windows and traffic.
            progress: Told of every tick.
        """
        self._progress = progress
        self._choosing, self._scoring = halves(trial)
        self._names = {w.index: window_phases(trial, w).names for w in trial.windows}
        ticks = Counter(name for names in self._names.values() for name in names)
        self.phases = {name: count / ticks.total() for name, count in ticks.most_common()}

    def headroom(self, score: Score = documented) -> Headroom:
        """Searches on one half, scores on the other.

        Args:
            score: What is to be high.
        """
        constants = self._constants(score)
        constant = constants[0]
        best_of_size: dict[int, Setting] = {}
        for found in constants:
            best_of_size.setdefault(found.replicas, found)
        starts = list(best_of_size.values())[:SIZES]
        schedule = max((self._search(start, score) for start in starts), key=itemgetter(1))[0]
        by_threshold = [Setting(constant.replicas, dict.fromkeys(self.phases, h)) for h in STEPS]
        played = self._play(self._scoring, [constant, schedule, *by_threshold])
        return Headroom(
            self.phases,
            constant,
            schedule,
            played[0],
            played[1],
            dict(zip(STEPS, played[2:], strict=True)),
        )

    def _constants(self, score: Score) -> list[Setting]:
        """The best constants, best first."""
        limits, choosing = self._choosing.limits, self._choosing
        every = [
            Setting(replicas, dict.fromkeys(self.phases, steps))
            for replicas in range(limits.min_replicas, limits.max_replicas + 1)
            for steps in STEPS
        ]
        screening = choosing.keeping([place < SCREENED for place in range(len(choosing.windows))])
        finalists = self._best_first(screening, every, score)[:FINALISTS]
        return self._best_first(choosing, finalists, score)

    def _best_first(self, trial: Trial, settings: list[Setting], score: Score) -> list[Setting]:
        scores = self._scores(trial, settings, score)
        return [settings[place] for place in np.argsort(-scores, kind="stable")]

    def _search(self, start: Setting, score: Score) -> tuple[Setting, float]:
        """Coordinate ascent over the phases, from the best constant of a number of replicas."""
        best, best_score = start, float(self._scores(self._choosing, [start], score)[0])
        for _ in range(PASSES):
            before = best
            for phase in self.phases:
                tried = [best.with_step(phase, steps) for steps in STEPS]
                scores = self._scores(self._choosing, tried, score)
                place = int(scores.argmax())
                if scores[place] > best_score:
                    best, best_score = tried[place], float(scores[place])
            if best == before:
                break
        return best, best_score

    def _scores(
        self, trial: Trial, settings: Sequence[Setting], score: Score
    ) -> NDArray[np.float64]:
        """Mean score of each setting."""
        return np.array([score(outcomes).mean() for outcomes in self._play(trial, settings)])

    def _play(self, trial: Trial, settings: Sequence[Setting]) -> list[Outcomes]:
        return play_controllers(trial, [self._maker(s) for s in settings], self._progress)

    def _maker(self, setting: Setting) -> MakeController:
        def make(window: Window) -> Controller:
            names = self._names[window.index]
            steps = np.array([setting.threshold_steps[name] for name in names])
            return Plan(np.full(len(names), setting.replicas), steps).make()

        return make
