"""Contestants that know the windows they are judged on: bounds for the others, no rivals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from .baselines.fixed import FixedParams
from .contestant import Performance, Preparation
from .episodes import Outcomes
from .evaluation import MakeController, Progress, play_controllers
from .oracles.foresight import plan_count, play_hindsight
from .oracles.known_plans import THRESHOLDS
from .oracles.lookahead import lookahead_ticks, play_lookahead
from .policy import Controller
from .trial import Trial, TrialPlan
from .windows import Window

SIZES_TRIED: Final = 3
"""Numbers of replicas for which the best constant is looked for at all thresholds."""


@dataclass(frozen=True)
class BestFixed:
    """The constant that turned out best on these very windows: a bound for constants.

    Every allowed number of replicas is played at the scenario's own threshold. Where faults are on,
    so that it plays a part, the best few are played at other thresholds too.
    """

    label: str

    def check(self, trial: TrialPlan) -> None:
        """It fits everywhere."""

    def play(self, trial: Trial, preparation: Preparation) -> Performance:
        """Plays them all and keeps the highest mean return."""
        limits, start = trial.limits, trial.scenario.gateway.threshold_steps
        counts = range(limits.min_replicas, limits.max_replicas + 1)
        others = [step for step in THRESHOLDS if step != start and trial.scenario.faults]
        sizes = min(SIZES_TRIED, len(counts))
        ticks = (len(counts) + sizes * len(others)) * len(trial.windows) * trial.ticks
        progress = preparation.reporter.start(self.label, ticks)
        constants = [(count, start) for count in counts]
        played = _play_constants(trial, constants, progress)
        best_first = sorted(constants, key=lambda c: played[c].returns.mean(), reverse=True)
        further = [(count, step) for count, _ in best_first[:sizes] for step in others]
        played |= _play_constants(trial, further, progress)
        best = max(played, key=lambda constant: played[constant].returns.mean())
        settings = {"replicas": best[0]} | ({"threshold_steps": best[1]} if others else {})
        return Performance(((None, played[best]),), settings)


@dataclass(frozen=True)
class Oracle:
    """A controller that knows what is to come: a bound, not a rival."""

    label: str
    """One of `ORACLES`."""

    def check(self, trial: TrialPlan) -> None:
        """It fits everywhere."""

    def play(self, trial: Trial, preparation: Preparation) -> Performance:
        """Plays what it has found out about every window."""
        ticks, play = ORACLES[self.label]
        progress = preparation.reporter.start(self.label, ticks(trial))
        return Performance(((None, play(trial, progress)),))


def constant_maker(trial: TrialPlan, replicas: int, threshold_steps: int) -> MakeController:
    """Makes the controller that never moves."""
    params = FixedParams(replicas, threshold_steps)

    def make(window: Window) -> Controller:
        return params.make(trial.site, seed=window.seed)

    return make


def _play_constants(
    trial: Trial, constants: Sequence[tuple[int, int]], progress: Progress
) -> dict[tuple[int, int], Outcomes]:
    """Outcomes by replicas and threshold."""
    if not constants:
        return {}
    makers = [constant_maker(trial, *constant) for constant in constants]
    return dict(zip(constants, play_controllers(trial, makers, progress), strict=True))


def _hindsight_ticks(trial: Trial) -> int:
    return plan_count(trial) * len(trial.windows) * trial.ticks


def _hindsight(trial: Trial, progress: Progress) -> Outcomes:
    return play_hindsight(trial, progress).outcomes


def _lookahead(trial: Trial, progress: Progress) -> Outcomes:
    return play_lookahead(trial, progress).outcomes


_Ticks: TypeAlias = Callable[[Trial], int]
_Play: TypeAlias = Callable[[Trial, Progress], Outcomes]
ORACLES: Final[Mapping[str, tuple[_Ticks, _Play]]] = {
    "hindsight": (_hindsight_ticks, _hindsight),
    "lookahead": (lookahead_ticks, _lookahead),
}
"""By label: how many ticks it simulates, over all gateways, and what it reaches."""
