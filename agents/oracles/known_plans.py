"""Plans that cost no search, and what their play tells: how few replicas kept each tick."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...envs.schema.fields import FIELD_INDEX
from ..episodes import Outcomes
from ..trial import Trial
from ..windows import Window
from .foresight import plan_count, window_plans
from .plan import Plan


def known_plans(trial: Trial, window: Window) -> list[Plan]:
    """Those of the hindsight controller, and every number of replicas throughout."""
    limits, threshold_steps = trial.limits, trial.scenario.gateway.threshold_steps
    constants = [
        Plan(np.full(trial.ticks, replicas), np.full(trial.ticks, threshold_steps))
        for replicas in range(limits.min_replicas, limits.max_replicas + 1)
    ]
    return [*window_plans(trial, window).values(), *constants]


def known_count(trial: Trial) -> int:
    """How many there are for a window."""
    return plan_count(trial) + trial.limits.max_replicas - trial.limits.min_replicas + 1


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
