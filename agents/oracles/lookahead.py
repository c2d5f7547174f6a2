"""The look-ahead controller: it tries out, through the engine itself, what is to come.

Before it searches (`search`) it plays plans that need no search: those of the hindsight controller
and every constant. The best of them guide the search, so it is never below any of them. What comes
out is a plan for each window, played like anybody's.

Traffic, faults and all that chance will decide (routing, cold starts, whom a fault hits) are in the
copied state and so foreseen: this is a bound for what can be reached, not a rival. It is one over
courses of replicas and of the threshold; the admission limit stays the scenario's own, which no
limit tried was ever better than (docs/evaluation.md, The bound).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..baselines.look_back import whole_ticks
from ..episodes import Outcomes
from ..evaluation import MakeController, Progress, no_progress, play_controllers
from ..policy import Controller
from ..trial import Trial
from ..windows import Window
from .beam import Floats
from .known_plans import best_plans, known_count, known_plans, replicas_that_kept
from .plan import Plan
from .search import LookaheadParams, Search

MAX_ROWS: Final = 512
"""Gateways stepped side by side; one takes about a third of a MiB."""


@dataclass(frozen=True)
class Lookahead:
    """What the look-ahead controller reached."""

    outcomes: Outcomes
    """Of the plan of each window, as played."""
    plans: tuple[Plan, ...]
    """One a window."""
    planned_returns: Floats
    """`(windows,)`: what the search says they bring."""
    is_known: NDArray[np.bool_]
    """`(windows,)`: where nothing was found that is better than a plan which needs no search."""


def play_lookahead(
    trial: Trial, progress: Progress = no_progress, params: LookaheadParams | None = None
) -> Lookahead:
    """Searches a plan for every window and plays it.

    Args:
        trial: Windows and traffic.
        progress: Told of every tick.
        params: How far and how wide; `None`: the defaults.
    """
    params = params or LookaheadParams()
    together = max(MAX_ROWS // (params.guides + params.branches), 1)
    places = range(len(trial.windows))
    parts = [
        _part(trial.keeping([first <= i < first + together for i in places]), progress, params)
        for first in places[::together]
    ]
    return Lookahead(
        Outcomes.joined([part.outcomes for part in parts]),
        tuple(plan for part in parts for plan in part.plans),
        np.concatenate([part.planned_returns for part in parts]),
        np.concatenate([part.is_known for part in parts]),
    )


def lookahead_ticks(trial: Trial, params: LookaheadParams | None = None) -> int:
    """How many ticks are simulated, over all gateways."""
    params = params or LookaheadParams()
    rows = known_count(trial) + params.rounds * (params.guides + params.branches + 1)
    return rows * len(trial.windows) * trial.ticks


def _part(trial: Trial, progress: Progress, params: LookaheadParams) -> Lookahead:
    """A few windows, which are searched side by side."""
    plans = [known_plans(trial, window) for window in trial.windows]
    makers = [_nth(trial, plans, place) for place in range(known_count(trial))]
    played = play_controllers(trial, makers, progress, with_ttft=False)
    window_ticks = whole_ticks(trial.scenario.telemetry.window_s, trial.tick_s)
    is_known = np.ones(len(plans), bool)
    for _ in range(params.rounds):
        returns = np.stack([outcomes.returns for outcomes in played], axis=1)
        guides = [
            best_plans(of_window, found, params.guides)
            for of_window, found in zip(plans, returns, strict=True)
        ]
        needs = replicas_that_kept(played, window_ticks)
        found = Search(trial, guides, needs, params).run(progress)
        is_known &= [one.is_guide for one in found]
        for of_window, one in zip(plans, found, strict=True):
            of_window.append(one.plan)
        played += play_controllers(trial, [_nth(trial, plans, -1)], progress)
    values = np.array([one.value for one in found])
    return Lookahead(played[-1], tuple(one.plan for one in found), values, is_known)


def _nth(trial: Trial, plans: list[list[Plan]], place: int) -> MakeController:
    """Follows the plan at a place of each window's list."""
    by_window = {w.index: of[place] for w, of in zip(trial.windows, plans, strict=True)}

    def make(window: Window) -> Controller:
        return by_window[window.index].make()

    return make
