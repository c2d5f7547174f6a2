"""Scenarios that gateways of one batch may stand in, side by side: what differs between them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .episodes import engine_params, most_faults, most_metric_faults, most_surge_copies
from .scenario import Scenario, ScenarioError
from .sim.engine import Engine
from .workload.request import Requests

Ints = NDArray[np.int64]

_SHARED: Final = ("control.tick_s", "control.warmup_s", "telemetry", "cluster.prefix_cache")
"""What all scenarios of a batch have in common: one clock, one kind of snapshot."""


class Mixture:
    """The workloads of a batch, each with its scenario; `(W,)` arrays are indexed by workload."""

    def __init__(self, scenarios: Sequence[Scenario], requests: Sequence[Requests]) -> None:
        """Gathers what an episode needs.

        Args:
            scenarios: Of each workload.
            requests: Offered load of each.

        Raises:
            ScenarioError: The scenarios cannot stand side by side.
            ValueError: Not as many workloads as scenarios.
        """
        if len(scenarios) != len(requests):
            msg = f"{len(requests)} workloads for {len(scenarios)} scenarios"
            raise ValueError(msg)
        self.scenarios, self.requests = tuple(scenarios), tuple(requests)
        self.distinct = distinct(scenarios)
        _check_alike(self.distinct)
        self.place: Ints = np.array([self.distinct.index(scenario) for scenario in scenarios])
        """`(W,)`: index of the scenario among the distinct ones."""
        loads = {id(load): load for load in requests}
        self._loads = list(loads.values())
        places = {key: place for place, key in enumerate(loads)}
        self.load: Ints = np.array([places[id(load)] for load in requests])
        """`(W,)`: index of the load among the distinct ones: the engine keeps each once."""
        self.min_replicas = self._gathered("cluster.min_replicas")
        self.max_replicas = self._gathered("cluster.max_replicas")
        self.start_replicas = self._gathered("cluster.start_replicas")
        self.start_threshold_steps = self._gathered("gateway.threshold_steps")

    def engine(self, n: int, *, episode_s: float, threads: int) -> Engine:
        """An engine with room for n gateways, each of any of the scenarios.

        Raises:
            ScenarioError: More faults than it can follow.
        """
        kinds = [engine_params(scenario) for scenario in self.distinct]
        control, faults = self.distinct[0].control, [one.faults for one in self.distinct]
        return Engine(
            kinds,
            self._loads,
            n,
            max_replicas=int(self.max_replicas.max()),
            faults=max(most_faults(specs, episode_s) for specs in faults),
            metric_faults=[most_metric_faults(specs, episode_s) for specs in faults],
            surge_copies=max(most_surge_copies(specs) for specs in faults),
            sampled_s=max(kinds[0].window_s + control.tick_s, control.warmup_s),
            threads=threads,
        )

    def equals(self, other: Mixture) -> bool:
        """Whether a workload's index means the same in both."""
        return self.scenarios == other.scenarios and self.load.tolist() == other.load.tolist()

    def _gathered(self, name: str) -> Ints:
        return np.array([attrgetter(name)(scenario) for scenario in self.scenarios], np.int64)


def distinct(scenarios: Sequence[Scenario]) -> tuple[Scenario, ...]:
    """The scenarios without repetitions, in order of first appearance."""
    found: list[Scenario] = []
    for scenario in scenarios:
        if scenario not in found:
            found.append(scenario)
    return tuple(found)


def common_episode_ticks(scenarios: Sequence[Scenario]) -> int:
    """Length of the scenarios' episodes.

    Raises:
        ScenarioError: Two have another: it names both.
    """
    first = scenarios[0]
    for scenario in scenarios:
        mine, theirs = first.control.episode_ticks, scenario.control.episode_ticks
        if mine != theirs:
            msg = (
                f"episodes of {first.name} have {mine} ticks, of {scenario.name} {theirs}: say how "
                "many they have side by side (episode_ticks)"
            )
            raise ScenarioError(msg)
    return first.control.episode_ticks


def _check_alike(scenarios: Sequence[Scenario]) -> None:
    """Refuses scenarios of other clocks or other telemetry.

    Raises:
        ScenarioError: It names both, and what differs.
    """
    first = scenarios[0]
    for scenario in scenarios:
        for name in _SHARED:
            mine, theirs = attrgetter(name)(first), attrgetter(name)(scenario)
            if mine != theirs:
                msg = (
                    f"{first.name} and {scenario.name} cannot stand side by side: {name} is {mine} "
                    f"and {theirs}"
                )
                raise ScenarioError(msg)
