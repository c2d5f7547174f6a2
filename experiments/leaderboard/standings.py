"""Who stands where: every policy over the suite and in each scenario.

| figure | over the suite | in a scenario |
|---|---|---|
| return, violation rate, replica-hours | mean of the scenarios' means | mean over windows |
| intervals | bootstrap over windows within scenarios, the same draws for every policy | the same |
| gap | the bound's mean return minus the policy's | the same |
| its share | sum of gaps over sum of distances | gap over the distance from floor to bound |
| difference to the rival | paired by window | the same |
| wins, losses, undecided | scenarios by their verdict | - |

A verdict is `statistics.Comparison`'s: the interval excludes 0, the interquartile mean has the
same sign, and there are enough windows. Over several training seeds a policy's figures are means;
the intervals then speak about these trainings. Figures are rounded, so that the last bit of a sum,
which a library's version may change, makes no other table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...agents.baselines.registry import UNIT_SUFFIX
from ...agents.contestant import Contestant
from ...agents.contestants import FixedCount, Learned, TunedController
from ...agents.statistics import Comparison, Interval, Values, Verdict, iqm
from ...agents.suite_statistics import SuiteBootstrap, suite_mean
from ..cells import Cell
from .spec import LeaderboardSpec

DECIMALS: Final = 6
"""Digits behind the point of every figure in a table."""
_COLUMNS: Final = (
    *("documented_return", "violation_rate", "replica_hours"),
    *("error_rate", "shed_rate", "changes"),
)
Steps: TypeAlias = Literal["native", "unit", "bound"]
"""How far a policy may move in a tick: as upstream does, or one replica. A bound is no rival: it
knows the windows that it is judged on."""


@dataclass(frozen=True)
class Standing:
    """One policy over the suite or in one scenario."""

    policy: str
    steps: Steps
    return_mean: float
    return_ci95: Interval
    violation_rate: float
    violation_rate_ci95: Interval
    replica_hours: float
    replica_hours_ci95: Interval
    error_rate: float
    shed_rate: float
    changes: float
    """Ticks of a window at which something was changed."""
    gap: float
    """How much more the bound returns."""
    gap_ci95: Interval
    gap_share: float | None
    """The gap by the distance from the floor to the bound; `None`: the floor is no lower."""
    difference: float
    """Return minus the rival's."""
    difference_ci95: Interval
    verdict: Verdict
    """Against the rival."""
    wins: int
    """Scenarios in which it beats the rival."""
    losses: int
    undecided: int
    """The other scenarios, those with too few windows included."""


@dataclass(frozen=True)
class Standings:
    """The tables of a leaderboard, in the order of the specification."""

    suite: tuple[Standing, ...]
    scenarios: dict[str, tuple[Standing, ...]]
    """Scenarios without a window that can be kept are left out."""


def steps_of(contestant: Contestant) -> Steps:
    """How far a contestant may move in a tick."""
    if isinstance(contestant, Learned) or contestant.label.endswith(UNIT_SUFFIX):
        return "unit"
    return "native" if isinstance(contestant, (TunedController, FixedCount)) else "bound"


def standings_of(
    spec: LeaderboardSpec, steps: Mapping[str, Steps], cells: Sequence[Cell]
) -> Standings:
    """Works out every table.

    Args:
        spec: The specification; its policies are those of the cells.
        steps: Of each policy.
        cells: One a scenario and policy, scenario by scenario.
    """
    by_scenario: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        if cell.episodes:
            by_scenario.setdefault(cell.scenario, {})[cell.policy] = cell
    figures = {
        name: _Figures.of([found[policy] for policy in spec.policies])
        for name, found in by_scenario.items()
    }
    scenarios = {name: _table(spec, steps, [found]) for name, found in figures.items()}
    verdicts = {
        policy: Counter(rows[i].verdict for rows in scenarios.values())
        for i, policy in enumerate(spec.policies)
    }
    suite = _table(spec, steps, list(figures.values()), verdicts) if figures else ()
    return Standings(suite, scenarios)


@dataclass(frozen=True)
class _Figures:
    """All policies in one scenario: `(policies, windows)` by column."""

    columns: Mapping[str, Values]

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> _Figures:
        return cls({name: np.stack([_row(cell, name) for cell in cells]) for name in _COLUMNS})


def _row(cell: Cell, column: str) -> Values:
    """A column of a cell, one value a window: the mean over training seeds."""
    seeds = len({episode.train_seed for episode in cell.episodes})
    values = np.array([getattr(episode, column) for episode in cell.episodes], np.float64)
    mean: Values = values.reshape(seeds, -1).mean(axis=0)
    return mean


def _table(
    spec: LeaderboardSpec,
    steps: Mapping[str, Steps],
    scenarios: Sequence[_Figures],
    verdicts: Mapping[str, Counter[Verdict]] | None = None,
) -> tuple[Standing, ...]:
    places = {policy: i for i, policy in enumerate(spec.policies)}
    rival, bound, floor = (places[name] for name in (spec.against, spec.bound, spec.floor))
    columns = {name: [found.columns[name] for found in scenarios] for name in _COLUMNS}
    returns = columns["documented_return"]
    differences = [part - part[rival] for part in returns]
    gaps = [part[bound] - part for part in returns]
    bootstrap = SuiteBootstrap([part.shape[1] for part in returns], seed=spec.seed)
    means = {name: suite_mean(parts) for name, parts in columns.items()}
    intervals = {
        name: bootstrap.intervals(parts)
        for name, parts in (
            *((name, columns[name]) for name in _COLUMNS[:3]),
            ("gap", gaps),
            ("difference", differences),
        )
    }
    gap, difference = suite_mean(gaps), suite_mean(differences)
    distance = float(gap[floor])
    rows = []
    for policy, i in places.items():
        compared = Comparison(
            mean_difference=float(difference[i]),
            ci95=intervals["difference"][i],
            iqm_difference=iqm(np.concatenate([part[i] for part in differences])),
            iqm_ci95=None,
            probability_of_improvement=_improvement([part[i] for part in differences]),
            windows=sum(part.shape[1] for part in differences),
        )
        counted = verdicts[policy] if verdicts is not None else Counter([compared.verdict])
        wins, losses = counted["win"], counted["loss"]
        rows.append(
            Standing(
                policy=policy,
                steps=steps[policy],
                return_mean=_rounded(means["documented_return"][i]),
                return_ci95=_rounded_ends(intervals["documented_return"][i]),
                violation_rate=_rounded(means["violation_rate"][i]),
                violation_rate_ci95=_rounded_ends(intervals["violation_rate"][i]),
                replica_hours=_rounded(means["replica_hours"][i]),
                replica_hours_ci95=_rounded_ends(intervals["replica_hours"][i]),
                error_rate=_rounded(means["error_rate"][i]),
                shed_rate=_rounded(means["shed_rate"][i]),
                changes=_rounded(means["changes"][i]),
                gap=_rounded(gap[i]),
                gap_ci95=_rounded_ends(intervals["gap"][i]),
                gap_share=_rounded(gap[i] / distance) if distance > 0 else None,
                difference=_rounded(difference[i]),
                difference_ci95=_rounded_ends(intervals["difference"][i]),
                verdict=compared.verdict,
                wins=wins,
                losses=losses,
                undecided=counted.total() - wins - losses,
            )
        )
    return tuple(rows)


def _improvement(differences: Sequence[NDArray[np.float64]]) -> float:
    signs = np.sign(np.concatenate(differences))
    return float(((signs + 1) / 2).mean())


def _rounded(value: float) -> float:
    return round(float(value), DECIMALS) + 0.0  # without the sign of a zero


def _rounded_ends(interval: Interval) -> Interval:
    return None if interval is None else (_rounded(interval[0]), _rounded(interval[1]))
