"""A leaderboard: its tables, and the hashes by which it can be told from another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final

from ...agents.digests import json_digest, scenario_digest, sources_digest, traffic_of
from ...agents.trial import TrialPlan
from ..cell_grid import sources_of
from ..places import Places
from ..results import Results, episode_dict
from ..scenario_choice import Overrides, named_scenarios
from ..study import Grid, StudyPlan
from ..wording import ticks_in_words
from .spec import LeaderboardSpec
from .standings import Standing, Standings, standings_of, steps_of
from .sweep import Sweep, sweeps_of

FORMAT: Final = 1


@dataclass(frozen=True)
class Board:
    """What a leaderboard found."""

    spec: LeaderboardSpec
    plan: StudyPlan
    """The evaluation behind it."""
    grid: Grid

    @cached_property
    def standings(self) -> Standings:
        """The tables."""
        steps = {contestant.label: steps_of(contestant) for contestant in self.plan.contestants}
        return standings_of(self.spec, steps, self.grid.cells)

    @cached_property
    def trials(self) -> tuple[TrialPlan, ...]:
        """The scenarios with a window that can be kept, and these windows."""
        return tuple(trial for trial in self.grid.kept if trial.windows)

    @cached_property
    def sweeps(self) -> tuple[Sweep, ...]:
        """Figures by start-up time."""
        return sweeps_of(self.trials, self.standings)

    @property
    def ticks(self) -> str:
        """How long a tick is, in words: it stands over every table."""
        return ticks_in_words(self.trials)

    @cached_property
    def digests(self) -> dict[str, Any]:
        """Hashes of what went in and of what came out."""
        settings: dict[str, dict[str, Any]] = {}
        for one in self.grid.entries:
            settings.setdefault(one.key.scenario, {})[one.key.policy] = [
                one.key.ingredients["settings"],
                one.key.ingredients["weights"],
            ]
        scenarios = {}
        for trial in self.grid.planned:
            scenario = trial.scenario
            name, traffic = scenario.name, traffic_of(scenario, self.plan.places.traces)
            scenarios[name] = {
                "scenario": scenario_digest(scenario),
                "traffic": None if traffic is None else traffic.sha256,
                "settings": json_digest(settings[name]),
                "table": json_digest(_rows(self.standings.scenarios.get(name, ()))),
            }
        return {
            "spec": self.spec.digest,
            "sources": sources_digest(sources_of(self.plan.contestants)),
            "suite_table": json_digest(_rows(self.standings.suite)),
            "episodes": json_digest([episode_dict(episode) for episode in self.grid.episodes]),
            "scenarios": scenarios,
        }

    def as_dict(self) -> dict[str, Any]:
        """Everything, as plain content that depends on nothing but what was played."""
        return {
            **self.frozen(),
            "scenarios": {
                trial.scenario.name: {
                    "tick_s": trial.tick_s,
                    "ticks": trial.ticks,
                    "windows": len(trial.windows),
                    "table": _rows(self.standings.scenarios[trial.scenario.name]),
                    "settings": {
                        cell.policy: {"from": cell.settings_from, **cell.settings}
                        for cell in self.grid.cells
                        if cell.scenario == trial.scenario.name and cell.settings
                    },
                }
                for trial in self.trials
            },
            "sweep": [_plain(asdict(sweep)) for sweep in self.sweeps],
            "gated_out": [asdict(window) for window in self.grid.gated_out],
        }

    def frozen(self) -> dict[str, Any]:
        """What another run is held against: the table over the suite, and all hashes."""
        return {
            "format": FORMAT,
            "spec": _plain(asdict(self.spec)),
            "ticks": self.ticks,
            "digests": self.digests,
            "suite": _rows(self.standings.suite),
        }

    @property
    def results(self) -> Results:
        """The episodes, as an evaluation has them."""
        return Results(self.grid.episodes, (), {}, (), self.grid.gated_out, self.digests)


def study_plan(spec: LeaderboardSpec, places: Places, workers: int | None) -> StudyPlan:
    """The evaluation behind a leaderboard.

    Raises:
        ValueError: A scenario is unknown or malformed.
    """
    return StudyPlan(
        scenarios=named_scenarios(spec.suite, spec.scenarios, Overrides()),
        policies=spec.policies,
        split=spec.split,
        places=places,
        windows=spec.windows,
        ticks=spec.ticks,
        seed=spec.seed,
        workers=workers,
    )


def _rows(table: Sequence[Standing]) -> list[dict[str, Any]]:
    return [_plain(asdict(row)) for row in table]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Tuples as lists, as JSON has them."""
    return {name: list(v) if isinstance(v, tuple) else v for name, v in row.items()}
