"""The best that can be done at all in a small set-up: every course of settings, through the engine.

A dynamic programme over states of the plant. From the start every choice is tried on a copy of the
gateway (`GatewayBatch.branch`); states that are the same to the bit but for the threshold in force,
which the next tick sets anyway, are one state; values come back from the end. The number of states
grows with the power of the ticks, so this is for a dozen of them and a few choices: a measure for
the look-ahead controller, which must come near to it.

Chance is foreseen, as the look-ahead controller foresees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from ..evaluation import Progress, gateway_batch, no_progress, start_windows
from ..trial import Trial
from .beam import Ints
from .plan import Plan

MAX_ROWS: Final = 128
"""Gateways stepped side by side in each tick's batch."""


@dataclass(frozen=True)
class Course:
    """What can come of a state, from there to the end."""

    best: float
    """Highest return."""
    worst: float
    """Lowest return."""
    choice: int
    """Number of the choice that leads to the highest."""
    following: Course | None
    """What comes of the state that it leads to; `None` at the end."""


@dataclass(frozen=True)
class Exact:
    """What an exhaustive search of one window found."""

    best: float
    """Highest documented return of any course of settings."""
    worst: float
    """Lowest."""
    plan: Plan
    """One that reaches the highest."""
    states: int
    """States that were looked at, the same ones counted once."""


def solve_exactly(
    trial: Trial, threshold_steps: Sequence[int] | None = None, progress: Progress = no_progress
) -> Exact:
    """Tries every number of replicas and every one of the thresholds at every tick.

    Args:
        trial: One window.
        threshold_steps: Thresholds that may be set; `None`: the scenario's own alone.
        progress: Told of every tick; how many there will be is not known beforehand.

    Raises:
        ValueError: Not one window.
    """
    if len(trial.windows) != 1:
        msg = f"{len(trial.windows)} windows, expected 1: an exact programme solves one"
        raise ValueError(msg)
    programme = _Programme(trial, threshold_steps, progress)
    course = programme.solve()
    chosen = []
    step: Course | None = course
    while step is not None:
        chosen.append(programme.choices[step.choice])
        step = step.following
    replicas, thresholds = np.array(chosen).T
    return Exact(course.best, course.worst, Plan(replicas, thresholds), programme.states)


class _Programme:
    """The states of each tick, and what can come of them."""

    def __init__(
        self, trial: Trial, threshold_steps: Sequence[int] | None, progress: Progress
    ) -> None:
        limits = trial.limits
        self.choices = list(
            product(
                range(limits.min_replicas, limits.max_replicas + 1),
                threshold_steps or [trial.scenario.gateway.threshold_steps],
            )
        )
        self._width = max(MAX_ROWS // len(self.choices), 1)
        self._progress = progress
        root = gateway_batch(trial, 1)
        start_windows(root, trial.windows)
        rows = self._width * len(self.choices)
        self._batches = [root]
        for _ in range(trial.ticks):
            batch = gateway_batch(trial, rows)
            batch.branch(np.zeros(rows, np.int64), np.arange(rows), root)
            self._batches.append(batch)
        self._known: list[dict[bytes, Course]] = [{} for _ in range(trial.ticks)]
        self._settings = np.tile(np.array(self.choices).T, self._width)

    @property
    def states(self) -> int:
        """States looked at, but for those after the last tick."""
        return sum(len(known) for known in self._known)

    def solve(self) -> Course:
        """What can come of the start."""
        return self._courses(0, np.zeros(1, np.int64))[0]

    def _courses(self, tick: int, rows: Ints) -> list[Course]:
        """What can come of states of the batch of a tick, each met before or not."""
        known, batch = self._known[tick], self._batches[tick]
        names = [batch.fingerprint(int(row)) for row in rows]
        fresh = {name: row for name, row in zip(names, rows, strict=True) if name not in known}
        todo = list(fresh.items())
        for first in range(0, len(todo), self._width):
            part = todo[first : first + self._width]
            known.update(zip([name for name, _ in part], self._expanded(tick, part), strict=True))
        return [known[name] for name in names]

    def _expanded(self, tick: int, states: Sequence[tuple[bytes, np.int64]]) -> list[Course]:
        """What can come of a few states, every choice tried."""
        every, batch = len(self.choices), self._batches[tick + 1]
        parents = np.repeat([row for _, row in states], every)
        children = np.arange(len(parents))
        batch.branch(parents, children, self._batches[tick])
        rewards = batch.step_settings(*self._settings).reward[: len(parents)]
        self._progress(len(parents))
        if tick + 1 == len(self._known):
            best = worst = rewards
            following: Sequence[Course | None] = [None] * len(parents)
        else:
            following = courses = self._courses(tick + 1, children)
            best = rewards + [course.best for course in courses]
            worst = rewards + [course.worst for course in courses]
        found = []
        for first in range(0, len(parents), every):
            choice = int(best[first : first + every].argmax())
            found.append(
                Course(
                    float(best[first + choice]),
                    float(worst[first : first + every].min()),
                    choice,
                    following[first + choice],
                )
            )
        return found
