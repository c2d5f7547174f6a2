"""Do the figures of a stored cell fit together? Sums, counts and windows, worked out anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..agents.episodes import Outcomes
from ..agents.trial import TrialPlan
from ..envs.schema.fields import FIELDS
from ..reward.documented import default_reward
from ..reward.terms import cost

_TOLERANCE: Final = 1e-6
"""Of sums over an episode, whose rounding is a thousand times smaller."""


class CellError(ValueError):
    """A stored cell that is not what was played: one line."""


def check_gate(gate: Sequence[float], planned: TrialPlan) -> None:
    """Checks the shares of violating ticks at maximum replicas.

    Raises:
        CellError: One is missing or is no share of the ticks.
    """
    shares = np.array(gate)
    if len(gate) != len(planned.windows):
        raise CellError(f"{len(gate)} windows, {len(planned.windows)} are planned")
    if not _are_shares(shares, planned.ticks):
        raise CellError("its gate is no share of the ticks")


def check_course(course: Outcomes, planned: TrialPlan) -> None:
    """Checks that the figures of each episode follow from its ticks.

    The documented return is the cost of the replicas, which the rows show, and of the violations,
    which are marked, and between the two values of the smoothness term, which moves by its whole
    span with every change.

    Args:
        course: Episodes, tick by tick.
        planned: The windows that were played.

    Raises:
        CellError: They do not.
    """
    ticks, episodes = planned.ticks, len(course.returns)
    if course.rows.shape != (episodes, ticks, len(FIELDS)):
        raise CellError(f"its rows have the shape {course.rows.shape}")
    if course.violations.shape != (episodes, ticks) or course.violations.dtype != bool:
        raise CellError("its violations have another shape or type")
    if any(
        getattr(course, name).shape != (episodes,)
        for name in (*_SHARES, "violation_rate", "replica_hours", "ttft_p95_s", "changes")
    ):
        raise CellError("its figures have another shape")
    if not np.array_equal(course.violation_rate, course.violations.mean(axis=1)):
        raise CellError("violation_rate is not the share of its violating ticks")
    for name in _SHARES:
        values = getattr(course, name)
        if not ((values >= 0) & (values <= 1)).all():
            raise CellError(f"{name} is no share")
    if not ((course.changes >= 0) & (course.changes <= ticks)).all():
        raise CellError("more changes than ticks")
    if not (course.replica_hours > 0).all() or (course.ttft_p95_s <= 0).any():
        raise CellError("replica_hours or ttft_p95_s is not above 0")
    if not _returns_fit(course):
        raise CellError("its returns are not what its replicas and violations cost")


_SHARES: Final = ("error_rate", "shed_rate")


def _returns_fit(course: Outcomes) -> bool:
    reward, ticks = default_reward, course.rows.shape[1]
    try:
        costs = cost(
            course.rows.astype(np.float64),
            weight=reward.cost_weight,
            per_replicas=reward.cost_per_replicas,
        )
    except ValueError as error:
        raise CellError(f"its rows: {error}") from error
    rest = course.returns - costs.sum(axis=1)
    rest += reward.violation_penalty * course.violations.sum(axis=1)
    span = reward.hold_bonus + reward.change_penalty
    held = (rest + ticks * reward.change_penalty) / span
    return _are_shares(held / ticks, ticks)


def _are_shares(values: NDArray[np.float64], ticks: int) -> bool:
    """Whether each is a whole number of ticks out of so many."""
    counts = values * ticks
    whole = np.abs(counts - np.round(counts)) <= _TOLERANCE * max(ticks, 1)
    return bool((whole & (counts >= -_TOLERANCE) & (counts <= ticks + _TOLERANCE)).all())
