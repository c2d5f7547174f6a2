"""The beam search of the look-ahead controller, through the engine itself.

For every window copies of the gateway (`GatewayBatch.branch`) go ahead of the decision by a
receding horizon. At every step each copy may ask for any number of replicas, and while faults are
on for any threshold; `beam` says which of these moves are made. Once the search is a horizon ahead
of a tick, what its best state did there is settled, and whoever did something else is dropped.

A few copies are guides: each follows a plan that is known to be good and is never dropped. So what
is found is never below them, and all that they could do better branches off them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...envs.episodes import engine_params
from ...envs.schema.fields import FIELD_INDEX
from ...reward.documented import default_reward
from ..evaluation import Progress, gateway_batch, start_windows
from ..trial import Trial
from .beam import Floats, Ints, Moves, chosen, ready_after, rows_for
from .demand import bins_ahead
from .known_plans import THRESHOLDS
from .phases import EVERYWHERE, SINGLE, window_phases
from .plan import Plan

_HALF: Final = 0.5
"""A replica counts in a tick if it is ready for half of it."""


@dataclass(frozen=True)
class LookaheadParams:
    """How far and how wide the search goes; chosen by docs/evaluation.md's table."""

    horizon: int = 16
    """Ticks that it looks ahead beyond the longest cold start before a decision is settled."""
    step: int = 1
    """Ticks from one decision to the next."""
    branches: int = 248
    """Copies of the gateway per window that may do anything."""
    guides: int = 8
    """Copies per window that follow a known plan."""
    rounds: int = 1
    """Searches of a window; what one finds guides the next."""
    threshold_steps: tuple[int, ...] = THRESHOLDS
    """Thresholds tried while faults are on, besides the scenario's own."""

    def __post_init__(self) -> None:
        """Refuses a search that would find nothing.

        Raises:
            ValueError: A number is below 1; it is named.
        """
        for name in ("horizon", "step", "branches", "guides", "rounds"):
            if getattr(self, name) < 1:
                msg = f"{name} is {getattr(self, name)}, expected 1 or more"
                raise ValueError(msg)


@dataclass(frozen=True, eq=False)
class Found:
    """What the search of one window found."""

    value: float
    """The plan's return."""
    plan: Plan
    is_guide: bool
    """Whether it is one of those that were known, and nothing better was found."""


class Search:
    """The beams of a few windows, side by side.

    Window i has the rows from `i * (guides + branches)` on, its guides first.
    """

    def __init__(
        self,
        trial: Trial,
        guides: Sequence[Sequence[Plan]],
        needs: Ints,
        params: LookaheadParams,
    ) -> None:
        """Puts every copy at the start of its window.

        Args:
            trial: The windows.
            guides: Of each window, `params.guides` plans.
            needs: `(windows, ticks)`: replicas that each tick is known to need.
            params: How far and how wide.
        """
        windows, width = len(trial.windows), params.guides + params.branches
        rows = windows * width
        self._trial, self._params, self._width = trial, params, width
        self._window_of = np.repeat(np.arange(windows), width)
        self._guides = np.flatnonzero(np.arange(rows) % width < params.guides)
        plans = [plan for of_window in guides for plan in of_window]
        self._guide_replicas = np.stack([plan.replicas for plan in plans])
        self._guide_steps = np.stack([plan.threshold_steps for plan in plans])
        roots = gateway_batch(trial, windows)
        start_windows(roots, trial.windows)
        self._batch = gateway_batch(trial, rows)
        self._batch.branch(self._window_of, np.arange(rows), roots)
        leads = bins_ahead(trial.scenario) + 1
        self._lead_ends_s = (np.arange(leads) + _HALF) * trial.tick_s
        self._waits = self._lead_ends_s < engine_params(trial.scenario).cold_start_s
        self._needs = np.pad(needs, ((0, 0), (0, leads)))
        self._horizon = leads - 1 + params.horizon
        self._faulty = np.stack(
            [window_phases(trial, w).count(SINGLE | EVERYWHERE) > 0 for w in trial.windows]
        )
        own = trial.scenario.gateway.threshold_steps
        self._thresholds = np.array(sorted({own, *params.threshold_steps}))
        self._returns = np.zeros(rows)
        self._alive = np.arange(rows) % width == 0
        self._lineage = np.zeros((min(self._horizon, trial.ticks), rows), np.int64)
        self._parents: list[Ints] = []
        self._replicas: list[Ints] = []
        self._steps: list[Ints] = []

    def run(self, progress: Progress) -> list[Found]:
        """The best of each window."""
        batch = self._batch
        for tick in range(self._trial.ticks):
            parents = np.arange(len(self._returns))
            replicas, steps = batch.replicas.copy(), batch.threshold_steps.copy()
            if tick % self._params.step == 0:
                parents, replicas, steps = self._decide(tick)
            replicas[self._guides] = self._guide_replicas[:, tick]
            steps[self._guides] = self._guide_steps[:, tick]
            self._parents.append(parents)
            self._replicas.append(replicas)
            self._steps.append(steps)
            self._returns += batch.step_settings(replicas, steps).reward
            self._lineage[tick % len(self._lineage)] = np.arange(len(self._returns))
            self._drop_twins()
            progress(len(self._returns))
        alive = np.where(self._alive, self._returns, -np.inf)
        best = alive.reshape(len(self._trial.windows), -1).argmax(axis=1)
        return [self._traced(i * self._width + int(row)) for i, row in enumerate(best)]

    def _decide(self, tick: int) -> tuple[Ints, Ints, Ints]:
        """Settles what lies a horizon back and branches; each row's parent and new settings."""
        batch = self._batch
        ready = (batch.ready_in_s[:, :, None] <= self._lead_ends_s).sum(axis=1)
        parents = np.arange(len(self._returns))
        replicas, steps = batch.replicas.copy(), batch.threshold_steps.copy()
        alive = np.zeros_like(self._alive)
        alive[self._guides] = True
        for i in range(len(self._trial.windows)):
            first = i * self._width
            rows = np.arange(first, first + self._width)
            living = rows[self._alive[rows]]
            if tick >= self._horizon:
                living = self._settled(tick, i, living, ready[living])
            moves = self._moves(tick, i, living, ready[living])
            free = rows[self._params.guides :]
            kept = chosen(moves, len(free))
            children = rows_for(moves.parents[kept], free)
            parents[children] = moves.parents[kept]
            replicas[children] = moves.replicas[kept]
            steps[children] = moves.threshold_steps[kept]
            alive[children] = True
        self._alive = alive
        moved = np.flatnonzero(parents != np.arange(len(parents)))
        batch.branch(parents[moved], moved)
        self._returns = self._returns[parents]
        self._lineage = self._lineage[:, parents]
        return parents, replicas, steps

    def _settled(self, tick: int, window: int, rows: Ints, ready: Ints) -> Ints:
        """The rows that did a horizon ago what the best one did, and the guides."""
        worth = self._returns[rows] - self._losses(tick, window, ready)
        ancestors = self._lineage[tick % len(self._lineage), rows]
        is_guide = rows % self._width < self._params.guides
        kept: Ints = rows[(ancestors == ancestors[worth.argmax()]) | is_guide]
        return kept

    def _moves(self, tick: int, window: int, rows: Ints, ready: Ints) -> Moves:
        """All that the states in these rows may do."""
        limits, reward = self._trial.limits, default_reward
        sizes = np.arange(limits.min_replicas, limits.max_replicas + 1)
        thresholds = self._thresholds if self._faulty[window, tick] else np.array([0])
        state, size, threshold = (
            axis.ravel()
            for axis in np.meshgrid(np.arange(len(rows)), sizes, thresholds, indexing="ij")
        )
        before = self._batch.replicas[rows][state]
        own = self._batch.threshold_steps[rows][state]
        threshold = np.where(threshold == 0, own, threshold)
        ready = ready_after(ready[state], before, size, self._waits)
        span = min(self._params.step, self._trial.ticks - tick)
        cost = reward.replica_price * size * span
        smooth = np.where(size == before, reward.hold_bonus, -reward.change_penalty)
        returns = self._returns[rows][state] - cost + smooth
        losses = self._losses(tick, window, ready)
        # of moves that promise the same those come first that leave the threshold alone
        order = np.argsort(threshold != own, kind="stable")
        return Moves(
            parents=rows[state][order],
            replicas=size[order],
            threshold_steps=threshold[order],
            ready=ready[order],
            returns=returns[order],
            losses=losses[order],
        )

    def _losses(self, tick: int, window: int, ready: Ints) -> Floats:
        """What it costs that from this tick on fewer will be ready than are known to be needed."""
        needs = self._needs[window, tick : tick + ready.shape[1]]
        losses: Floats = default_reward.violation_penalty * (ready < needs).sum(axis=1)
        return losses

    def _drop_twins(self) -> None:
        """Of states that only the threshold in force tells apart one stays.

        That is a guide, which needs no row of its own, or else the nearest to the rest.
        """
        truth = self._batch.truth.copy()
        truth[:, FIELD_INDEX["breaker_threshold"]] = 0.0
        rest = self._trial.scenario.gateway.threshold_steps
        away = np.abs(self._batch.threshold_steps - rest)
        away[self._guides] = -1
        rows = np.flatnonzero(self._alive)
        rows = rows[np.argsort(away[rows], kind="stable")]
        shown = np.column_stack([self._window_of[rows], self._returns[rows], truth[rows]])
        whole = np.ascontiguousarray(shown).view(f"V{shown.itemsize * shown.shape[1]}").ravel()
        _, first = np.unique(whole, return_index=True)
        self._alive[:] = False
        self._alive[rows[first]] = True

    def _traced(self, row: int) -> Found:
        """The return of a final state, and what led to it."""
        value, is_guide = float(self._returns[row]), row % self._width < self._params.guides
        replicas, steps = [], []
        for parents, asked, set_steps in zip(
            reversed(self._parents), reversed(self._replicas), reversed(self._steps), strict=True
        ):
            replicas.append(asked[row])
            steps.append(set_steps[row])
            row = int(parents[row])
        return Found(value, Plan(np.array(replicas[::-1]), np.array(steps[::-1])), is_guide)
