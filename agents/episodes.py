"""What is kept of an episode, measured on the plant itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..envs.batch import BatchStep, GatewayBatch
from ..envs.schema.fields import FIELDS
from .trial import TrialPlan

SECONDS_PER_HOUR: Final = 3600.0
_TTFT_LOWEST_S: Final = 1e-3
_TTFT_BIN: Final = 0.005
_TTFT_BINS: Final = 3000
"""Latencies are counted in bins of half a percent, from a millisecond to an hour."""
_COUNTS: Final = ("arrived", "ok", "error", "timeout", "shed")


@dataclass(frozen=True)
class Outcomes:
    """What happened in each window, arrays `(windows,)` in the trial's order."""

    returns: NDArray[np.float64]
    """Documented reward, summed over the episode."""
    violation_rate: NDArray[np.float64]
    """Share of ticks that end in an SLO violation."""
    replica_hours: NDArray[np.float64]
    """Billed: requested and draining replicas."""
    error_rate: NDArray[np.float64]
    """Failed share of finished requests: errors, timeouts and shed ones."""
    shed_rate: NDArray[np.float64]
    """Shed share of arrived requests."""
    ttft_p95_s: NDArray[np.float64]
    """P95 of time to first token over the episode; NaN without a single token."""
    changes: NDArray[np.int64]
    """Ticks at which replicas or threshold were changed."""
    rows: NDArray[np.float32]
    """`(windows, ticks, F)`: the plant's own snapshot after each tick."""
    violations: NDArray[np.bool_]
    """`(windows, ticks)`: which ticks violate."""

    def taken(self, which: slice) -> Outcomes:
        """The outcomes of some of the windows."""
        return Outcomes(**{f.name: getattr(self, f.name)[which] for f in fields(self)})

    @classmethod
    def joined(cls, parts: Sequence[Outcomes]) -> Outcomes:
        """Outcomes one after the other."""
        return cls(
            **{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)}
        )


@dataclass(frozen=True, slots=True)
class Episode:
    """One policy in one window: a row of every result."""

    policy: str
    train_seed: int | None
    """Seed of the training; `None` for a rule."""
    scenario: str
    window: int
    seed: int
    documented_return: float
    violation_rate: float
    replica_hours: float
    error_rate: float
    shed_rate: float
    ttft_p95_s: float | None
    changes: int


def episodes_of(
    outcomes: Outcomes, trial: TrialPlan, *, policy: str, train_seed: int | None
) -> list[Episode]:
    """One row a window."""
    return [
        Episode(
            policy=policy,
            train_seed=train_seed,
            scenario=trial.scenario.name,
            window=window.index,
            seed=window.seed,
            documented_return=float(outcomes.returns[i]),
            violation_rate=float(outcomes.violation_rate[i]),
            replica_hours=float(outcomes.replica_hours[i]),
            error_rate=float(outcomes.error_rate[i]),
            shed_rate=float(outcomes.shed_rate[i]),
            ttft_p95_s=None if math.isnan(p95 := outcomes.ttft_p95_s[i]) else float(p95),
            changes=int(outcomes.changes[i]),
        )
        for i, window in enumerate(trial.windows)
    ]


class Tally:
    """Sums up n windows that are played side by side."""

    def __init__(self, n_windows: int, ticks: int, *, with_ttft: bool = True) -> None:
        """Starts at nothing.

        Args:
            n_windows: Windows.
            ticks: Length of each.
            with_ttft: Whether to look at first tokens; else `ttft_p95_s` is NaN.
        """
        self._with_ttft = with_ttft
        self._returns = np.zeros(n_windows)
        self._billed_replica_s = np.zeros(n_windows)
        self._counts = {name: np.zeros(n_windows) for name in _COUNTS}
        self._changes = np.zeros(n_windows, np.int64)
        self._rows = np.empty((n_windows, ticks, len(FIELDS)), np.float32)
        self._violations = np.zeros((n_windows, ticks), bool)
        self._ttft = np.zeros((n_windows, _TTFT_BINS), np.int64)

    def add(
        self, tick: int, step: BatchStep, changed: NDArray[np.bool_], batch: GatewayBatch
    ) -> None:
        """Adds one tick.

        Args:
            tick: Its number.
            step: What the batch returned.
            changed: Where replicas or threshold were changed.
            batch: The gateways after the tick.
        """
        self._returns += step.reward
        self._billed_replica_s += step.info["billed_replica_s"]
        for name in _COUNTS:
            self._counts[name] += step.info[name]
        self._changes += changed
        self._rows[:, tick] = batch.truth
        self._violations[:, tick] = step.info["violation"]
        if not self._with_ttft:
            return
        windows, ttft_s = batch.first_tokens()
        bins = np.log(np.maximum(ttft_s, _TTFT_LOWEST_S) / _TTFT_LOWEST_S) / _TTFT_BIN
        np.add.at(self._ttft, (windows, np.minimum(bins.astype(np.int64), _TTFT_BINS - 1)), 1)

    def outcomes(self) -> Outcomes:
        """The sums as results."""
        counts = self._counts
        failed = counts["error"] + counts["timeout"] + counts["shed"]
        return Outcomes(
            returns=self._returns,
            violation_rate=self._violations.mean(axis=1),
            replica_hours=self._billed_replica_s / SECONDS_PER_HOUR,
            error_rate=failed / np.maximum(failed + counts["ok"], 1.0),
            shed_rate=counts["shed"] / np.maximum(counts["arrived"], 1.0),
            ttft_p95_s=self._ttft_p95_s(),
            changes=self._changes,
            rows=self._rows,
            violations=self._violations,
        )

    def _ttft_p95_s(self) -> NDArray[np.float64]:
        """Nearest-rank P95 of each window's first tokens."""
        below = self._ttft.cumsum(axis=1)
        ranks = np.ceil(0.95 * below[:, -1:])
        places = (below >= ranks).argmax(axis=1)
        p95_s = _TTFT_LOWEST_S * np.exp((places + 0.5) * _TTFT_BIN)
        return np.where(below[:, -1] > 0, p95_s, np.nan)
