"""What the critic is told and the policy is not: the traffic and the faults that are to come.

How much an episode returns hangs mostly on what its traffic and its faults do, whatever the policy
decides. A critic that knows them ahead takes that part out of the advantages, and what is left says
more about the decision (input-dependent baselines, Mao et al., ICLR 2019; asymmetric actor-critic,
Pinto et al., RSS 2018). The policy sees none of it, so nothing of it is needed when it acts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ..envs.episodes import Episode
from .layouts import Layouts
from .oracles.demand import replicas_worth
from .oracles.phases import EVERYWHERE, SINGLE

AHEAD_TICKS: Final = (1, 2, 4, 8, 16, 32)
"""Ends of the stretches whose mean load is told, ticks from now."""
_FAULT_TICKS: Final = (1, 4, 16)
"""How far ahead the share of ticks with a fault is told."""
_KINDS: Final = (SINGLE, EVERYWHERE, frozenset({"surge"}), frozenset({"failed_start"}))
_LEAST_LOAD: Final = 0.1
"""Added to every load, replicas kept busy: the log of next to nothing stays quiet."""
_MOST: Final = 5.0
"""Largest entry, either way."""
SIZE: Final = len(AHEAD_TICKS) + len(_KINDS) * len(_FAULT_TICKS)
"""Entries: the load of the next tick and its change from there on, logarithms of busy replicas; for
each group of fault kinds the share of the next ticks in which one is on."""


def with_critic_sight(seen: spaces.Box, is_told: bool) -> spaces.Box:
    """The space of what a policy sees, and behind it of what its critic is told."""
    if not is_told:
        return seen
    more = np.full(SIZE, _MOST, np.float32)
    return spaces.Box(np.concatenate([seen.low, -more]), np.concatenate([seen.high, more]))


class CriticSight:
    """What is to come in n gateways."""

    def __init__(self, layouts: Layouts, n: int, episode_ticks: int, tick_s: float) -> None:
        """Adds up the load of every workload.

        Args:
            layouts: The workloads that episodes draw.
            n: Gateways.
            episode_ticks: Length of an episode.
            tick_s: Length of a tick.
        """
        self._tick_s = tick_s
        ahead = max(AHEAD_TICKS)
        sums = []
        for scenario, requests in zip(layouts.scenarios, layouts.requests, strict=True):
            ticks = int(requests.span_s // tick_s)
            worth = replicas_worth(scenario, requests, 0.0, ticks, tick_s)
            round_about = np.resize(worth, ticks + episode_ticks + ahead)  # the load begins anew
            sums.append(np.concatenate([[0.0], np.cumsum(round_about)]))
        self._begins = np.cumsum([0, *(len(one) for one in sums[:-1])])
        self._sums = np.concatenate(sums)
        self._first = np.zeros(n)
        self._on = np.zeros((n, len(_KINDS), episode_ticks + max(_FAULT_TICKS) + 1))

    def begin(
        self,
        which: NDArray[np.int64],
        workloads: NDArray[np.int64],
        episodes: Sequence[Episode],
    ) -> None:
        """Takes down what new episodes will bring.

        Args:
            which: Of which gateways, `(k,)`.
            workloads: Index of the workload of each, `(k,)`.
            episodes: What each has drawn.
        """
        starts = np.array([episode.start_s for episode in episodes]) / self._tick_s
        self._first[which] = self._begins[workloads] + starts
        edges = np.arange(self._on.shape[2] - 1) * self._tick_s
        for row, episode in zip(which, episodes, strict=True):
            on = np.zeros((len(_KINDS), len(edges)), np.bool_)
            for fault in episode.faults:
                group = [fault.kind in kinds for kinds in _KINDS]
                is_over = (fault.end_s <= edges) & (fault.start_s < edges)  # a crash lasts no time
                on[group] |= (fault.start_s < edges + self._tick_s) & ~is_over
            self._on[row, :, 1:] = np.cumsum(on, axis=1)

    def look(self, ages: NDArray[np.int64]) -> NDArray[np.float32]:
        """What lies ahead, `(n, SIZE)`.

        Args:
            ages: Ticks of its episode that each gateway has done, `(n,)`.
        """
        now = (self._first + ages)[:, None]
        places = now + np.array([0, *AHEAD_TICKS])
        below = places.astype(np.int64)
        part = places - below
        sums = self._sums[below] * (1 - part) + self._sums[below + 1] * part
        loads = np.log(np.diff(sums) / np.diff([0, *AHEAD_TICKS]) + _LEAST_LOAD)
        rows = np.arange(len(ages))
        faults = [
            (self._on[rows, :, ages + ticks] - self._on[rows, :, ages]) / ticks
            for ticks in _FAULT_TICKS
        ]
        seen = np.concatenate([loads[:, :1], loads[:, 1:] - loads[:, :1], *faults], axis=1)
        told: NDArray[np.float32] = np.clip(seen, -_MOST, _MOST).astype(np.float32)
        return told
