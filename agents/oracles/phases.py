"""Which faults are on at each tick of a window: what no policy is told and an oracle knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...envs.episodes import draw_episode
from ...envs.sim.faults import Fault
from ...envs.sim.metric_faults import MetricFault
from ..trial import Trial
from ..windows import Window

CALM: Final = "calm"
"""The phase in which no fault is on."""
SINGLE: Final = frozenset(
    {"replica_errors", "slow_replica", "sick_replica", "flapping", "hang", "crash"}
)
"""Kinds that hit one replica: one more makes up for it."""
EVERYWHERE: Final = frozenset({"brown_out"})
"""Kinds that make all replicas fail alike: ejecting some only takes capacity away."""


@dataclass(frozen=True, eq=False)
class Phases:
    """The course of faults in one window."""

    faults: tuple[Fault, ...]
    """In order of onset."""
    on: NDArray[np.bool_]
    """`(faults, ticks)`: whether a fault is on at any time of the tick."""
    metric_faults: tuple[MetricFault, ...] = ()
    """Of what is measured: they leave the plant alone and make no phase."""

    @property
    def names(self) -> tuple[str, ...]:
        """The phase of each tick: the kinds that are on, joined by `+`, or `calm`."""
        names = (
            {fault.kind for fault, on in zip(self.faults, column, strict=True) if on}
            for column in self.on.T
        )
        return tuple("+".join(sorted(kinds)) or CALM for kinds in names)

    def count(self, kinds: frozenset[str]) -> NDArray[np.int64]:
        """`(ticks,)`: how many faults of these kinds are on."""
        chosen = np.array([fault.kind in kinds for fault in self.faults], bool)
        count: NDArray[np.int64] = self.on[chosen].sum(axis=0)
        return count

    def surge(self) -> NDArray[np.float64]:
        """`(ticks,)`: how many times more requests come; 1 where nothing surges."""
        factors = np.array([f.factor if f.kind == "surge" else 1.0 for f in self.faults])
        further: NDArray[np.float64] = ((factors[:, None] - 1.0) * self.on).sum(axis=0)
        return 1.0 + further


def window_phases(trial: Trial, window: Window) -> Phases:
    """The faults that a window's seed draws."""
    ticks, tick_s = trial.ticks, trial.tick_s
    episode_s = ticks * tick_s
    room_s = trial.requests[window.round].span_s - episode_s
    drawn = draw_episode(trial.scenario, window.seed, room_s=room_s, episode_s=episode_s)
    faults = drawn.faults
    edges = np.arange(ticks) * tick_s
    on = np.array([(f.start_s < edges + tick_s) & (f.end_s > edges) for f in faults], bool).reshape(
        len(faults), ticks
    )
    return Phases(faults, on, drawn.metric_faults)
