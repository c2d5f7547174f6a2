"""What an evaluation found: episodes, a line a policy, a line a pair; as JSON and as parquet."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ..agents.episodes import Episode
from ..agents.statistics import Comparison, Interval, Values, compare, intervals, iqm
from .tables import write_table

MOST_PAIRS: Final = 6
"""Pairs (of four policies) that are all shown; of more, those of the best policy come first."""


@dataclass(frozen=True, slots=True)
class Summary:
    """One policy over all its episodes; means over windows unless the name says otherwise."""

    policy: str
    episodes: int
    train_seeds: tuple[int, ...]
    """Training seeds of a learned policy; none for a rule."""
    return_mean: float
    return_ci95: Interval
    return_median: float
    return_iqm: float
    violation_rate: float
    violation_rate_ci95: Interval
    replica_hours: float
    replica_hours_ci95: Interval
    error_rate: float
    shed_rate: float
    ttft_p95_s: float | None
    """Mean over episodes with at least one first token."""
    changes: float
    settings: dict[str, Any]
    """Chosen parameters by scenario; empty where there is nothing to choose."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One policy against another."""

    policy: str
    against: str
    comparison: Comparison

    def reversed(self) -> Pair:
        """The same pair seen from the other side."""
        return Pair(self.against, self.policy, self.comparison.reversed())


@dataclass(frozen=True, slots=True)
class GatedOut:
    """A window that no number of replicas keeps: it was not played."""

    scenario: str
    window: int
    start_s: float
    """Seconds from the start of the evaluated range."""
    violation_rate: float
    """Share of violating ticks at maximum replicas with faults off."""


@dataclass(frozen=True)
class Results:
    """Everything an evaluation found."""

    episodes: tuple[Episode, ...]
    summary: tuple[Summary, ...]
    """Over all scenarios, in the order in which the policies were named."""
    by_scenario: dict[str, tuple[Summary, ...]]
    pairs: tuple[Pair, ...]
    """Every policy against every one that was named after it."""
    gated_out: tuple[GatedOut, ...]
    provenance: dict[str, Any] = field(default_factory=dict)

    def pairs_of_the_best(self) -> tuple[Pair, ...]:
        """The policy with the highest mean return against each of the others."""
        if not self.summary:
            return ()
        best = max(self.summary, key=lambda row: row.return_mean).policy
        turned = (pair.reversed() if pair.against == best else pair for pair in self.pairs)
        return tuple(pair for pair in turned if pair.policy == best)

    def headline_pairs(self) -> tuple[Pair, ...]:
        """All pairs if they are few, else those of the best policy."""
        return self.pairs if len(self.pairs) <= MOST_PAIRS else self.pairs_of_the_best()

    def as_dict(self) -> dict[str, Any]:
        """The object that `--json` prints; each pair stands there from both sides."""
        return {
            "episodes": [episode_dict(episode) for episode in self.episodes],
            "summary": [_plain(asdict(row)) for row in self.summary],
            "by_scenario": {
                name: [_plain(asdict(row)) for row in rows]
                for name, rows in self.by_scenario.items()
            },
            "pairs": [_pair_dict(side) for pair in self.pairs for side in (pair, pair.reversed())],
            "gated_out": [asdict(window) for window in self.gated_out],
            "provenance": self.provenance,
        }

    def write(self, path: Path) -> None:
        """Writes one row an episode; the provenance goes into the metadata of a parquet file.

        Raises:
            OutputError: Another ending than csv, csv.gz or parquet, or it cannot be written.
        """
        columns = list(EPISODE_TYPES)
        rows = [episode_dict(episode) for episode in self.episodes]
        schema = pa.schema(
            [pa.field(name, EPISODE_TYPES[name]) for name in columns],
            metadata={"gatepilot": json.dumps(self.provenance)},
        )
        table = pa.table({name: [row[name] for row in rows] for name in columns}, schema=schema)
        write_table(table, path)


EPISODE_TYPES = {
    "policy": pa.string(),
    "train_seed": pa.int64(),
    "scenario": pa.string(),
    "window": pa.int64(),
    "seed": pa.int64(),
    "return": pa.float64(),
    "violation_rate": pa.float64(),
    "replica_hours": pa.float64(),
    "error_rate": pa.float64(),
    "shed_rate": pa.float64(),
    "ttft_p95_s": pa.float64(),
    "changes": pa.int64(),
}
"""Columns of the written table and keys of an episode in JSON."""


def episode_dict(episode: Episode) -> dict[str, Any]:
    """An episode under the names of the JSON contract (`return` is a keyword of Python)."""
    row = asdict(episode)
    row["return"] = row.pop("documented_return")
    return {name: row[name] for name in EPISODE_TYPES}


def summarise(
    episodes: Sequence[Episode], policies: Sequence[str], settings: dict[str, Any], *, seed: int
) -> tuple[Summary, ...]:
    """One row a policy, in the order of `policies`.

    Args:
        episodes: Episodes of these policies, perhaps of others.
        policies: Which policies.
        settings: Chosen parameters by policy.
        seed: Of the intervals.
    """
    return tuple(
        _summary([e for e in episodes if e.policy == name], name, settings.get(name, {}), seed=seed)
        for name in policies
    )


def pair_up(episodes: Sequence[Episode], policies: Sequence[str], *, seed: int) -> tuple[Pair, ...]:
    """Compares every policy with every one after it."""
    returns = {name: matrix([e for e in episodes if e.policy == name]) for name in policies}
    scenarios = _window_scenarios([e for e in episodes if e.policy == policies[0]])
    return tuple(
        Pair(first, second, compare(returns[first], returns[second], scenarios, seed=seed))
        for i, first in enumerate(policies)
        for second in policies[i + 1 :]
    )


def matrix(episodes: Sequence[Episode], column: str = "documented_return") -> Values:
    """Values of one policy's episodes as `(training seeds, windows)`."""
    seeds = list(dict.fromkeys(episode.train_seed for episode in episodes))
    places = list(dict.fromkeys((episode.scenario, episode.window) for episode in episodes))
    values = np.full((len(seeds), len(places)), np.nan)
    for episode in episodes:
        value = getattr(episode, column)
        place = places.index((episode.scenario, episode.window))
        values[seeds.index(episode.train_seed), place] = math.nan if value is None else value
    return values


def _window_scenarios(episodes: Sequence[Episode]) -> list[str]:
    places = dict.fromkeys((episode.scenario, episode.window) for episode in episodes)
    return [scenario for scenario, _ in places]


def _summary(
    episodes: Sequence[Episode], policy: str, settings: dict[str, Any], *, seed: int
) -> Summary:
    returns = matrix(episodes)
    spread = [returns, matrix(episodes, "violation_rate"), matrix(episodes, "replica_hours")]

    def means(*columns: Values) -> Values:
        return np.array([column.mean() for column in columns])

    return_ci95, violation_ci95, hours_ci95 = intervals(spread, means, seed=seed)
    ttft_p95_s = matrix(episodes, "ttft_p95_s")
    known = ttft_p95_s[~np.isnan(ttft_p95_s)]
    return_mean, violation_rate, replica_hours = means(*spread)
    return Summary(
        policy=policy,
        episodes=len(episodes),
        train_seeds=tuple(
            dict.fromkeys(e.train_seed for e in episodes if e.train_seed is not None)
        ),
        return_mean=float(return_mean),
        return_ci95=return_ci95,
        return_median=float(np.median(returns)),
        return_iqm=iqm(returns),
        violation_rate=float(violation_rate),
        violation_rate_ci95=violation_ci95,
        replica_hours=float(replica_hours),
        replica_hours_ci95=hours_ci95,
        error_rate=float(matrix(episodes, "error_rate").mean()),
        shed_rate=float(matrix(episodes, "shed_rate").mean()),
        ttft_p95_s=float(known.mean()) if known.size else None,
        changes=float(matrix(episodes, "changes").mean()),
        settings=settings,
    )


def _pair_dict(pair: Pair) -> dict[str, Any]:
    row = _plain(asdict(pair.comparison))
    names = {"policy": pair.policy, "against": pair.against}
    return names | row | {"verdict": pair.comparison.verdict}


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Tuples as lists, as JSON has them."""
    return {name: list(v) if isinstance(v, tuple) else v for name, v in row.items()}
