"""What every policy is put through: windows of one scenario, and their traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self

from ..envs.scenario import Scenario
from ..envs.schema.settings import Limits
from ..envs.workload.request import Requests
from .baselines.site import Site
from .scenario_site import scenario_site
from .windows import Window, WindowError, WindowPlan, plan_windows


@dataclass(frozen=True)
class TrialPlan:
    """Which windows of a scenario are played; their traffic is not loaded yet."""

    scenario: Scenario
    split: str | None
    """Range of the workload's own time; `None`: all of it."""
    ticks: int
    """Length of an episode."""
    plan: WindowPlan

    @cached_property
    def site(self) -> Site:
        """What a controller may know."""
        return scenario_site(self.scenario)

    @property
    def limits(self) -> Limits:
        """Replica limits of the cluster."""
        return self.site.limits

    @property
    def tick_s(self) -> float:
        """Seconds between two decisions."""
        return self.scenario.control.tick_s

    @property
    def windows(self) -> tuple[Window, ...]:
        """The windows, in the order of every result."""
        return self.plan.windows

    def keeping(self, kept: Sequence[bool]) -> Self:
        """The same without the windows that are marked `False`."""
        windows = tuple(w for w, keep in zip(self.windows, kept, strict=True) if keep)
        return replace(self, plan=replace(self.plan, windows=windows))


@dataclass(frozen=True)
class Trial(TrialPlan):
    """What every policy is put through: windows of one scenario and their traffic."""

    requests: tuple[Requests, ...]
    """Offered load of the range, one a round; windows name theirs by number."""
    threads: int | None = None
    """Threads over the gateways of a batch; `None`: one a core. No result depends on it."""


def plan_trial(
    scenario: Scenario,
    *,
    split: str | None,
    ticks: int | None = None,
    windows: int | None = None,
    seed: int = 0,
    traces_dir: Path | None = None,
) -> TrialPlan:
    """Plans the windows of a scenario.

    Args:
        scenario: What is run.
        split: Range to take windows from; `None`: all of the workload.
        ticks: Length of an episode; `None`: the scenario's.
        windows: How many windows; `None`: all disjoint ones that fit, at most 64.
        seed: Of windows, traffic and faults.
        traces_dir: Where trace files lie.

    Raises:
        WindowError: The range does not hold one episode; the message says what would fit.
    """
    ticks = scenario.control.episode_ticks if ticks is None else ticks
    tick_s = scenario.control.tick_s
    from_s, to_s = scenario.split_range(split)
    part = "the whole range" if split is None else f"split {split}"
    where = f"{scenario.workload.trace or scenario.workload.model}, {part} ({from_s:g}-{to_s:g} s)"
    try:
        plan = plan_windows(
            to_s - from_s,
            ticks * tick_s,
            seed=seed,
            asked=windows,
            can_redraw=can_redraw(scenario, traces_dir),
            where=where,
        )
    except WindowError as error:
        fitting = int((to_s - from_s) // tick_s)
        wider = "" if split is None else ", or evaluate the whole range"
        msg = f"{error} ({ticks} ticks of {tick_s:g} s): at most {fitting} ticks fit{wider}"
        raise WindowError(msg) from error
    return TrialPlan(scenario, split, ticks, plan)


def load_trial(planned: TrialPlan, traces_dir: Path | None, threads: int | None = None) -> Trial:
    """Draws the traffic of planned windows.

    Args:
        planned: From `plan_trial`.
        traces_dir: Where trace files lie.
        threads: As in `Trial`.

    Raises:
        ScenarioError: The traffic cannot be loaded.
    """
    requests = tuple(
        planned.scenario.requests(planned.split, seed=number, traces_dir=traces_dir)
        for number in planned.plan.request_seeds
    )
    return Trial(
        planned.scenario, planned.split, planned.ticks, planned.plan, requests, threads=threads
    )


def prepare_trial(
    scenario: Scenario,
    *,
    split: str | None,
    ticks: int | None = None,
    windows: int | None = None,
    seed: int = 0,
    traces_dir: Path | None = None,
) -> Trial:
    """Plans the windows of a scenario and draws their traffic; arguments as in `plan_trial`.

    Raises:
        WindowError: The range does not hold one episode; the message says what would fit.
        ScenarioError: The traffic cannot be loaded.
    """
    planned = plan_trial(
        scenario, split=split, ticks=ticks, windows=windows, seed=seed, traces_dir=traces_dir
    )
    return load_trial(planned, traces_dir)


def can_redraw(scenario: Scenario, traces_dir: Path | None) -> bool:
    """Whether another seed gives other traffic: shifted copies, or a sample of a model."""
    return scenario.workload.rate_scale > 1 or trace_path(scenario, traces_dir) is None


def trace_path(scenario: Scenario, traces_dir: Path | None) -> Path | None:
    """The file that the traffic comes from; `None`: it is sampled from a model."""
    return scenario.trace_path(traces_dir)
