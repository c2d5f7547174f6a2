"""One evaluation: policies over scenarios, from the windows to the figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..agents.choice import Choice
from ..agents.contestant import Contestant
from ..agents.episodes import Episode, Outcomes
from ..agents.trial import TrialPlan, load_trial, plan_trial
from ..envs.scenario import Scenario, is_shipped
from .cell_checks import CellError
from .cell_grid import Entry, entry, filled
from .cells import Cell, CellKey, CellStore
from .job_watcher import Watcher
from .named_contestants import named_contestant
from .places import Places
from .results import GatedOut, Results, pair_up, summarise
from .shipped_settings import shipped_settings


@dataclass(frozen=True)
class StudyPlan:
    """What is asked of an evaluation."""

    scenarios: tuple[Scenario, ...]
    policies: tuple[str, ...]
    """Who takes part, by name."""
    split: str | None
    """Range of each workload; `None`: all of it."""
    places: Places
    """Where things lie."""
    windows: int | None = None
    """Windows a scenario; `None`: all disjoint ones that fit, at most 64."""
    ticks: int | None = None
    """Length of an episode; `None`: each scenario's."""
    seed: int = 0
    """Of windows, traffic, faults and intervals."""
    workers: int | None = None
    """Processes to play on; `None`: as many as there are cores, if there is so much to do."""

    @cached_property
    def contestants(self) -> tuple[Contestant, ...]:
        """Those who take part.

        Raises:
            PolicyError: Somebody is unknown.
        """
        return tuple(named_contestant(name, self.places.runs) for name in self.policies)


@dataclass(frozen=True)
class Study:
    """What an evaluation found, and what it went through."""

    results: Results
    trials: tuple[TrialPlan, ...]
    """One a scenario, without the windows that were gated out."""
    outcomes: Mapping[tuple[str, str], Outcomes] = field(default_factory=dict)
    """By scenario and policy, tick by tick, for plots; of several training seeds the first."""


def prepare_study(plan: StudyPlan) -> tuple[TrialPlan, ...]:
    """Plans the windows and checks that everything fits together.

    The traffic of scenarios that do not ship is loaded once, so that what is wrong with it is said
    before the work.

    Raises:
        ValueError: It does not: one line.
    """
    planned = tuple(
        plan_trial(
            scenario,
            split=plan.split,
            ticks=plan.ticks,
            windows=plan.windows,
            seed=plan.seed,
            traces_dir=plan.places.traces,
        )
        for scenario in plan.scenarios
    )
    for trial in planned:
        for contestant in plan.contestants:
            contestant.check(trial)
        if not is_shipped(trial.scenario):
            load_trial(trial, plan.places.traces)
    return planned


@dataclass(frozen=True)
class Grid:
    """Everything that was played: one cell a scenario and policy, in the order of the plan."""

    planned: tuple[TrialPlan, ...]
    """One a scenario, with the windows that were gated out."""
    entries: tuple[Entry, ...]
    cells: tuple[Cell, ...]

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """One after the other."""
        return tuple(episode for cell in self.cells for episode in cell.episodes)

    @property
    def kept(self) -> tuple[TrialPlan, ...]:
        """One a scenario, without the windows that were gated out."""
        return tuple(
            trial.keeping([share == 0 for share in self._gate(trial)]) for trial in self.planned
        )

    @property
    def gated_out(self) -> tuple[GatedOut, ...]:
        """The windows that no number of replicas keeps."""
        return tuple(
            GatedOut(trial.scenario.name, window.index, window.start_s, share)
            for trial in self.planned
            for window, share in zip(trial.windows, self._gate(trial), strict=True)
            if share > 0
        )

    def _gate(self, trial: TrialPlan) -> tuple[float, ...]:
        """Of each window of a scenario the violating share at maximum replicas.

        Raises:
            CellError: Two cells do not agree on it.
        """
        name = trial.scenario.name
        gates = {cell.gate for cell in self.cells if cell.scenario == name}
        if len(gates) != 1:
            raise CellError(f"{name}: stored cells do not agree on which windows can be kept")
        return gates.pop()


def play_grid(plan: StudyPlan, planned: Sequence[TrialPlan], watcher: Watcher) -> Grid:
    """Takes the cells that are kept and plays the others.

    Args:
        plan: What to evaluate.
        planned: From `prepare_study`.
        watcher: Shows progress.
    """
    entries = tuple(
        entry(contestant, trial, shipped, plan.places)
        for trial in planned
        for shipped in (_shipped_choices(trial.scenario),)
        for contestant in plan.contestants
    )
    cells = filled(entries, plan.places, workers=plan.workers, watcher=watcher)
    return Grid(tuple(planned), entries, cells)


def run_study(plan: StudyPlan, planned: Sequence[TrialPlan], watcher: Watcher) -> Study:
    """Gates the windows, plays every policy through the others, and sums up.

    Args:
        plan: What to evaluate.
        planned: From `prepare_study`.
        watcher: Shows progress.
    """
    grid = play_grid(plan, planned, watcher)
    return Study(_summed_up(plan, grid), grid.kept, _Courses(grid, plan.places))


def _shipped_choices(scenario: Scenario) -> Mapping[str, Choice]:
    """Settings that ship for a scenario, by label."""
    file = shipped_settings(scenario)
    return {} if file is None else file.choices


def _summed_up(plan: StudyPlan, grid: Grid) -> Results:
    labels = plan.policies
    episodes = grid.episodes
    played = [cell for cell in grid.cells if cell.episodes]
    names = tuple(dict.fromkeys(cell.scenario for cell in played))

    def settings(*scenarios: str) -> dict[str, dict[str, object]]:
        return {
            label: {
                cell.scenario: _told(cell)
                for cell in played
                if cell.policy == label and cell.scenario in scenarios and cell.settings
            }
            for label in labels
        }

    summary = summarise(episodes, labels, settings(*names), seed=plan.seed) if episodes else ()
    return Results(
        episodes=episodes,
        summary=summary,
        by_scenario={
            name: summary
            if len(names) == 1
            else summarise(
                [e for e in episodes if e.scenario == name], labels, settings(name), seed=plan.seed
            )
            for name in names
        },
        pairs=pair_up(episodes, labels, seed=plan.seed) if episodes else (),
        gated_out=grid.gated_out,
    )


def _told(cell: Cell) -> dict[str, object]:
    """Settings, and whether they shipped with the project or were looked for now."""
    origin = {} if cell.settings_from is None else {"from": cell.settings_from}
    return cell.settings | origin


class _Courses(Mapping[tuple[str, str], Outcomes]):
    """Courses by scenario and policy, read when they are asked for."""

    def __init__(self, grid: Grid, places: Places) -> None:
        self._store = CellStore(places.cells)
        self._found: dict[tuple[str, str], tuple[CellKey, Cell]] = {
            (cell.scenario, cell.policy): (one.key, cell)
            for one, cell in zip(grid.entries, grid.cells, strict=True)
            if cell.episodes
        }

    def __getitem__(self, place: tuple[str, str]) -> Outcomes:
        return self._store.course(*self._found[place])

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)
