"""Scenarios that differ in the replicas' start-up time alone, as a sweep over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...agents.trial import TrialPlan
from ...envs.scenario import Scenario
from .standings import Standings


@dataclass(frozen=True)
class Sweep:
    """One policy's figures at each start-up time."""

    policy: str
    cold_start_s: tuple[float, ...]
    """From the order of a replica until it takes requests, rising."""
    return_mean: tuple[float, ...]
    violation_rate: tuple[float, ...]
    replica_hours: tuple[float, ...]


def sweeps_of(planned: Sequence[TrialPlan], standings: Standings) -> tuple[Sweep, ...]:
    """The largest set of scenarios that differ in nothing but the start-up time.

    Args:
        planned: One a scenario.
        standings: Of these scenarios.

    Returns:
        One sweep a policy; none where no two scenarios are of that kind.
    """
    groups: dict[Scenario, dict[float, str]] = {}
    for trial in planned:
        scenario = trial.scenario
        if scenario.name in standings.scenarios and trial.site.replica is not None:
            alike = groups.setdefault(_without_cold_start(scenario), {})
            alike.setdefault(trial.site.replica.cold_start_s, scenario.name)
    largest = max(groups.values(), key=len, default={})
    if len(largest) < 2:
        return ()
    times = tuple(sorted(largest))
    tables = [standings.scenarios[largest[time]] for time in times]
    return tuple(
        Sweep(
            rows[0].policy,
            times,
            tuple(row.return_mean for row in rows),
            tuple(row.violation_rate for row in rows),
            tuple(row.replica_hours for row in rows),
        )
        for rows in zip(*tables, strict=True)
    )


def _without_cold_start(scenario: Scenario) -> Scenario:
    cluster = replace(scenario.cluster, cold_start_s=None)
    return replace(scenario, name="any", description="", cluster=cluster)
