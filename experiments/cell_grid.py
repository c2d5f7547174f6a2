"""The cells of an evaluation: those that are kept are taken, the others are played."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..agents import tuning
from ..agents.choice import Choice
from ..agents.contestant import Contestant
from ..agents.contestants import TunedController
from ..agents.digests import scenario_digest, sources_digest, traffic_of
from ..agents.trial import TrialPlan
from ..agents.tuning import is_tunable
from .cell_checks import CellError
from .cell_job import CellJob
from .cells import FORMAT, Cell, CellKey, CellStore
from .job_watcher import Watcher
from .jobs import run_jobs
from .named_contestants import weights_of
from .places import Places
from .provenance import usable_cpus

RULE_SOURCES: Final = (
    *tuning.SOURCES,
    "agents/bounds.py",
    "agents/contestant.py",
    "agents/contestants.py",
    "agents/oracles/*.py",
    "agents/policy.py",
    "agents/pretrained/*.py",
)
"""Code that a cell without a network depends on: no change of the training voids it."""
LEARNED_SOURCES: Final = (*RULE_SOURCES, "agents/*.py", "agents/artifact/*.py")
"""Code that any cell depends on."""
_TICKS_WORTH_A_WORKER: Final = 20_000
"""Ticks below which another process does not pay: it takes some 3 s of a core to begin."""


@dataclass(frozen=True)
class Entry:
    """A cell of an evaluation."""

    key: CellKey
    planned: TrialPlan
    shipped: Choice | None
    """Settings that ship for this policy and scenario."""
    ticks: int
    """About how many it takes to play."""


def entry(
    contestant: Contestant, planned: TrialPlan, shipped: Mapping[str, Choice], places: Places
) -> Entry:
    """A cell and what decides its content.

    Args:
        contestant: Who plays.
        planned: Which windows.
        shipped: Settings that ship for this scenario, by label.
        places: Where things lie.
    """
    scenario, ticks = planned.scenario, len(planned.windows) * planned.ticks
    chosen = shipped.get(contestant.label)
    settings: dict[str, Any] | None = None
    if chosen is not None:
        settings = {"shipped": chosen.settings}
    elif isinstance(contestant, TunedController) and is_tunable(contestant.label, planned.site):
        settings = {"tuned": {"trials": tuning.TRIALS, "windows": tuning.TUNING_WINDOWS}}
        ticks += (tuning.TRIALS + 3) * tuning.TUNING_WINDOWS * planned.ticks
    traffic = traffic_of(scenario, places.traces)
    ingredients = {
        "format": FORMAT,
        "sources": sources_digest(sources_of([contestant])),
        "scenario": scenario_digest(scenario),
        "traffic": None if traffic is None else [str(traffic), traffic.sha256],
        "split": planned.split,
        "ticks": planned.ticks,
        "request_seeds": list(planned.plan.request_seeds),
        "windows": [
            [window.index, window.round, window.position, window.start_s, window.seed]
            for window in planned.windows
        ],
        "policy": contestant.label,
        "weights": weights_of(contestant),
        "settings": settings,
    }
    plain: dict[str, Any] = json.loads(json.dumps(ingredients, allow_nan=False))
    return Entry(CellKey(contestant.label, scenario.name, plain), planned, chosen, ticks)


def sources_of(contestants: Iterable[Contestant]) -> tuple[str, ...]:
    """Globs of the code that the cells of contestants depend on."""
    has_network = any(weights_of(contestant) for contestant in contestants)
    return LEARNED_SOURCES if has_network else RULE_SOURCES


def filled(
    entries: Sequence[Entry], places: Places, *, workers: int | None, watcher: Watcher
) -> tuple[Cell, ...]:
    """The cells of an evaluation, in its order.

    Args:
        entries: Which, scenario by scenario.
        places: Where things lie.
        workers: Processes to play on; `None`: as many as there are cores, if there is so much to
            do.
        watcher: Shows progress.

    Raises:
        JobRefusedError: What the user can change, as in `run_jobs`.
        OutputError: The folder of cells cannot be written.
    """
    store = CellStore(places.cells)
    found: dict[str, Cell] = {}
    missing: list[Entry] = []
    for one in entries:
        try:
            cell = store.read(one.key, one.planned)
        except CellError as error:
            watcher.note(f"{one.key}: a stored cell is not taken and played again. {error}")
            cell = None
        if cell is None:
            missing.append(one)
        else:
            found[one.key.digest] = cell
    jobs = [CellJob(one.key, one.planned, one.shipped, places) for one in missing]
    run_jobs(jobs, workers=workers or sensible_workers(missing), watcher=watcher)
    for one in missing:
        cell = store.read(one.key, one.planned)
        if cell is None:
            raise CellError(f"{store.path(one.key)}: has been removed since it was played")
        found[one.key.digest] = cell
    return tuple(found[one.key.digest] for one in entries)


def sensible_workers(missing: Iterable[Entry]) -> int:
    """How many processes it takes to play cells: one a core, fewer where there is little to do."""
    worth = sum(one.ticks for one in missing) // _TICKS_WORTH_A_WORKER
    return max(1, min(usable_cpus(), worth))
