"""Plans that cost no search, and what their play tells: how few replicas kept each tick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...envs.schema.fields import FIELD_INDEX
from ..episodes import Outcomes
from ..trial import Trial
from ..windows import Window
from .foresight import plan_count, window_plans
from .plan import Plan

THRESHOLDS: Final = (1, 2, 3, 4, 6, 8, 14, 19)
"""Thresholds tried where faults are on, besides the scenario's own: more of the lower ones, where
most of the difference lies."""


def constants(trial: Trial) -> list[tuple[int, int]]:
    """Replicas and threshold of every constant: one threshold where no fault lets it matter."""
    limits, own = trial.limits, trial.scenario.gateway.threshold_steps
    thresholds = sorted({own, *THRESHOLDS}) if trial.scenario.faults else [own]
    return [
        (replicas, threshold)
        for replicas in range(limits.min_replicas, limits.max_replicas + 1)
        for threshold in thresholds
    ]


def known_plans(trial: Trial, window: Window) -> list[Plan]:
    """Those of the hindsight controller, and every constant."""
    held = [
        Plan(np.full(trial.ticks, replicas), np.full(trial.ticks, threshold))
        for replicas, threshold in constants(trial)
    ]
    return [*window_plans(trial, window).values(), *held]


def known_count(trial: Trial) -> int:
    """How many there are for a window."""
    return plan_count(trial) + len(constants(trial))


def best_plans(plans: Sequence[Plan], returns: NDArray[np.float64], count: int) -> list[Plan]:
    """The best plans, best first; of those that bring the same only the first.

    Args:
        plans: Of one window.
        returns: `(plans,)`: what each brings.
        count: How many; the best come again where there are fewer.
    """
    unlike, first = np.unique(returns, return_index=True)
    best = first[np.argsort(-unlike, kind="stable")]
    return [plans[place] for place in np.resize(best[:count], count).tolist()]


def replicas_that_kept(played: Sequence[Outcomes], window_ticks: int) -> NDArray[np.int64]:
    """The fewest ready replicas with which somebody kept each tick: `(windows, ticks)`.

    A violation looks back over a window, so the most that were ready within it count. 0 where
    nobody kept the tick: no number of replicas would have been known to help.

    Args:
        played: Outcomes of the plans.
        window_ticks: Ticks that a violation looks back, at least 1.
    """
    ready = np.stack([outcomes.rows[..., FIELD_INDEX["replicas_ready"]] for outcomes in played])
    most = ready.copy()
    for back in range(1, window_ticks):
        most[..., back:] = np.maximum(most[..., back:], ready[..., :-back])
    violates = np.stack([outcomes.violations for outcomes in played])
    fewest = np.where(violates, np.inf, most).min(axis=0)
    kept: NDArray[np.int64] = np.where(np.isinf(fewest), 0, fewest).astype(np.int64)
    return kept
