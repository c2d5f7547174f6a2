"""The look-ahead controller: it tries out, through the engine itself, what is to come.

For every window a beam of copies of the gateway (`GatewayBatch.branch`) goes ahead of the decision
by a receding horizon. At every step each copy may ask for any number of replicas, and while faults
are on for any threshold; `beam` says which of these moves are made. Once the search is a horizon
ahead of a tick, what its best state did there is settled, and whoever did something else is
dropped. What comes out is a plan, played like anybody's.

Traffic, faults and all that chance will decide (routing, cold starts, whom a fault hits) are in the
copied state and so foreseen: this is a bound for what can be reached, not a rival. It is never
below the plans of the hindsight controller nor below any constant number of replicas, which are
played as well. Horizon, step and width were chosen by docs/evaluation.md's table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...envs.episodes import engine_params
from ...envs.schema.fields import FIELD_INDEX
from ...reward.documented import default_reward
from ..episodes import Outcomes
from ..evaluation import (
    MakeController,
    Progress,
    gateway_batch,
    no_progress,
    play_controllers,
    start_windows,
)
from ..policy import Controller
from ..trial import Trial
from ..windows import Window
from .beam import Floats, Ints, Moves, chosen, ready_after, rows_for
from .demand import bins_ahead
from .known_plans import known_count, known_plans, replicas_that_kept
from .phases import EVERYWHERE, SINGLE, window_phases
from .plan import Plan

MAX_ROWS: Final = 512
"""Gateways stepped side by side; one takes about a third of a MiB."""
_HALF: Final = 0.5
"""A replica counts in a tick if it is ready for half of it."""


@dataclass(frozen=True)
class LookaheadParams:
    """How far and how wide the search goes."""

    horizon: int = 16
    """Ticks that it looks ahead beyond the longest cold start before a decision is settled."""
    step: int = 1
    """Ticks from one decision to the next."""
    branches: int = 256
    """Copies of the gateway per window."""
    threshold_steps: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 19)
    """Thresholds tried while faults are on, besides the scenario's own."""

    def __post_init__(self) -> None:
        """Refuses a search that would find nothing.

        Raises:
            ValueError: A number is below 1; it is named.
        """
        for name in ("horizon", "step", "branches"):
            if getattr(self, name) < 1:
                msg = f"{name} is {getattr(self, name)}, expected 1 or more"
                raise ValueError(msg)


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
    """`(windows,)`: where a plan that needs no search was better than what the search found."""


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
    known = {window.index: known_plans(trial, window) for window in trial.windows}
    played = play_controllers(trial, [_nth(known, i) for i in range(known_count(trial))], progress)
    window_ticks = max(math.ceil(trial.scenario.telemetry.window_s / trial.tick_s), 1)
    needs = replicas_that_kept(played, window_ticks)
    found: list[tuple[float, Plan]] = []
    together = max(MAX_ROWS // params.branches, 1)
    for first in range(0, len(trial.windows), together):
        part = slice(first, first + together)
        inside = [first <= place < first + together for place in range(len(trial.windows))]
        found += _Search(trial.keeping(inside), needs[part], params).run(progress)
    returns = np.stack([outcomes.returns for outcomes in played])
    best = returns.argmax(axis=0)
    searched = np.array([value for value, _ in found])
    is_known = returns.max(axis=0) > searched
    plans = tuple(
        known[window.index][best[i]] if is_known[i] else found[i][1]
        for i, window in enumerate(trial.windows)
    )
    by_window = {window.index: [plan] for window, plan in zip(trial.windows, plans, strict=True)}
    outcomes = play_controllers(trial, [_nth(by_window, 0)], progress)[0]
    planned = np.where(is_known, returns.max(axis=0), searched)
    return Lookahead(outcomes, plans, planned, is_known)


def lookahead_ticks(trial: Trial, params: LookaheadParams | None = None) -> int:
    """How many ticks are simulated, over all gateways."""
    rows = known_count(trial) + (params or LookaheadParams()).branches + 1
    return rows * len(trial.windows) * trial.ticks


def _nth(plans: dict[int, list[Plan]], place: int) -> MakeController:
    def make(window: Window) -> Controller:
        return plans[window.index][place].make()

    return make


class _Search:
    """The beams of a few windows, side by side: rows `i * branches` on belong to window i."""

    def __init__(self, trial: Trial, needs: Ints, params: LookaheadParams) -> None:
        """Puts every copy at the start of its window.

        Args:
            trial: The windows.
            needs: `(windows, ticks)`: replicas that each tick is known to need.
            params: How far and how wide.
        """
        windows = len(trial.windows)
        rows = windows * params.branches
        self._trial, self._params = trial, params
        self._window_of = np.repeat(np.arange(windows), params.branches)
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
        self._alive = np.arange(rows) % params.branches == 0
        self._lineage = np.zeros((min(self._horizon, trial.ticks), rows), np.int64)
        self._parents: list[Ints] = []
        self._replicas: list[Ints] = []
        self._steps: list[Ints] = []

    def run(self, progress: Progress) -> list[tuple[float, Plan]]:
        """The best return and its plan, one a window."""
        batch = self._batch
        for tick in range(self._trial.ticks):
            parents = np.arange(len(self._returns))
            replicas, steps = batch.replicas.copy(), batch.threshold_steps.copy()
            if tick % self._params.step == 0:
                parents, replicas, steps = self._decide(tick)
            self._parents.append(parents)
            self._replicas.append(replicas)
            self._steps.append(steps)
            self._returns += batch.step_settings(replicas, steps).reward
            self._lineage[tick % len(self._lineage)] = np.arange(len(self._returns))
            if self._faulty[:, tick].any():
                self._drop_twins()
            progress(len(self._returns))
        alive = np.where(self._alive, self._returns, -np.inf)
        best = alive.reshape(len(self._trial.windows), -1).argmax(axis=1)
        return [self._traced(i * self._params.branches + int(row)) for i, row in enumerate(best)]

    def _decide(self, tick: int) -> tuple[Ints, Ints, Ints]:
        """Settles what lies a horizon back and branches; each row's parent and new settings."""
        batch = self._batch
        ready = (batch.ready_in_s[:, :, None] <= self._lead_ends_s).sum(axis=1)
        parents = np.arange(len(self._returns))
        replicas, steps = batch.replicas.copy(), batch.threshold_steps.copy()
        alive = np.zeros_like(self._alive)
        for i in range(len(self._trial.windows)):
            rows = np.arange(i * self._params.branches, (i + 1) * self._params.branches)
            living = rows[self._alive[rows]]
            if tick >= self._horizon:
                living = self._settled(tick, i, living, ready[living])
            moves = self._moves(tick, i, living, ready[living])
            kept = chosen(moves, len(rows))
            children = rows_for(moves.parents[kept], rows)
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
        """The rows that did a horizon ago what the best one did."""
        worth = self._returns[rows] - self._losses(tick, window, ready)
        ancestors = self._lineage[tick % len(self._lineage), rows]
        kept: Ints = rows[ancestors == ancestors[worth.argmax()]]
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
        cost = reward.cost_weight * size / reward.cost_per_replicas * span
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
        """Of states that only the threshold in force tells apart one stays, nearest to the rest."""
        truth = self._batch.truth.copy()
        truth[:, FIELD_INDEX["breaker_threshold"]] = 0.0
        rest = self._trial.scenario.gateway.threshold_steps
        away = np.abs(self._batch.threshold_steps - rest)
        rows = np.flatnonzero(self._alive)
        rows = rows[np.argsort(away[rows], kind="stable")]
        shown = np.column_stack([self._window_of[rows], self._returns[rows], truth[rows]])
        whole = np.ascontiguousarray(shown).view(f"V{shown.itemsize * shown.shape[1]}").ravel()
        _, first = np.unique(whole, return_index=True)
        self._alive[:] = False
        self._alive[rows[first]] = True

    def _traced(self, row: int) -> tuple[float, Plan]:
        """The return of a final state, and what led to it."""
        value = float(self._returns[row])
        replicas, steps = [], []
        for parents, asked, set_steps in zip(
            reversed(self._parents), reversed(self._replicas), reversed(self._steps), strict=True
        ):
            replicas.append(asked[row])
            steps.append(set_steps[row])
            row = int(parents[row])
        return value, Plan(np.array(replicas[::-1]), np.array(steps[::-1]))
