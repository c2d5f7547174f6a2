"""How one range of traffic becomes several days: other shifts, other rates, wandering rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..envs.mixture import distinct
from ..envs.scenario import Scenario
from ..envs.workload.load_curve import wandering
from ..envs.workload.request import Requests, superpose
from .baselines.planner.params import PlannerParams
from .baselines.site import Site
from .config import TrainingConfig
from .randomisation import varied
from .scenario_site import scenario_site
from .trial import can_redraw

_WORKLOAD_STREAM: Final = 1
"""Keeps the seeds of workloads apart from those of episodes."""
_VARIANT_STREAM: Final = 2
"""And those of variants."""
_STRETCH_STREAM: Final = 3
"""And those of stretches."""
_USERS_SHIFT_S: Final = 30.0
"""Largest shift of the copies that bring a load to another rate: as if each of its tenants had more
users, whose bursts still come together. Copies shifted by more would smooth them away, and a policy
that is trained on a smooth load at three times the rate keeps too little in reserve."""


@dataclass(frozen=True)
class Layouts:
    """The workloads of a training, scenario by scenario."""

    scenarios: tuple[Scenario, ...]
    """Of each workload."""
    requests: tuple[Requests, ...]
    """Each workload's offered load."""
    places: tuple[int, ...]
    """Of each workload: which of the training's scenarios it is, or varies."""

    @property
    def sites(self) -> list[Site]:
        """What an advisor may know of each distinct scenario, in the order of a batch's places."""
        return [scenario_site(scenario) for scenario in distinct(self.scenarios)]

    def advisors(self, config: TrainingConfig) -> list[PlannerParams] | None:
        """How careful an advisor is at each of the sites; `None`: no advice is asked for."""
        return config.advisors_of([scenario.name for scenario in distinct(self.scenarios)])


def training_layouts(
    config: TrainingConfig, scenarios: Sequence[Scenario], traces_dir: Path | None
) -> Layouts:
    """Every scenario's training range at every scale, and wandering between the scales.

    One layout of a scenario is its own, that at the rate nearest to its own; the others are varied
    where the configuration says so. Scenarios of the same load share its layouts, unless these are
    stretches of it.

    Args:
        config: How many of which. Where it gives other traffic, each scale has several.
        scenarios: Whose load.
        traces_dir: Folder of the traces; `None`: workload models stand in.

    Raises:
        ScenarioError: The traffic cannot be loaded.
    """
    laid_out: dict[Any, list[Requests]] = {}
    of_workloads: list[Scenario] = []
    requests: list[Requests] = []
    places: list[int] = []
    rng = np.random.default_rng(np.random.SeedSequence((config.seed, _VARIANT_STREAM)))
    nearest = int(np.abs(np.log(config.load_scales)).argmin())
    for place, scenario in enumerate(scenarios):
        load = (
            scenario.workload,
            scenario.split_range("train"),
            scenario.kv_capacity_tokens,  # no prompt may be longer
            0 if config.stretch_ticks is None else place,
        )
        if load not in laid_out:
            words = np.random.SeedSequence((config.seed, _WORKLOAD_STREAM, load[-1]))
            laid_out[load] = _layouts(config, scenario, words, traces_dir)
        requests += laid_out[load]
        own = nearest * (len(laid_out[load]) - config.load_curves) // len(config.load_scales)
        places += [place] * len(laid_out[load])
        others = [other for other in scenarios if other is not scenario]
        of_workloads += [
            scenario
            if config.randomised is None or i == own
            else varied(scenario, others, config.randomised, rng)
            for i in range(len(laid_out[load]))
        ]
    return Layouts(tuple(of_workloads), tuple(requests), tuple(places))


def _layouts(
    config: TrainingConfig,
    scenario: Scenario,
    words: np.random.SeedSequence,
    traces_dir: Path | None,
) -> list[Requests]:
    """One scenario's."""
    count = config.workloads
    if config.stretch_ticks is None and not can_redraw(scenario, traces_dir):
        count = 1
    factors = np.repeat(config.load_scales, count)
    seeds = words.generate_state(len(factors) + config.load_curves).tolist()
    parts = [scenario] * len(seeds)
    if config.stretch_ticks is not None:
        parts = [_stretch(scenario, config.stretch_ticks, seed) for seed in seeds]
    layouts = [
        _scaled(part, "train", factor, seed=seed, traces_dir=traces_dir)
        for part, factor, seed in zip(parts, factors, seeds, strict=False)
    ]
    layouts += [
        wandering_layout(part, "train", config.load_scales, seed=seed, traces_dir=traces_dir)
        for part, seed in zip(parts[len(factors) :], seeds[len(factors) :], strict=True)
    ]
    return layouts


def _stretch(scenario: Scenario, ticks: int, seed: int) -> Scenario:
    """The scenario with a training range that is a stretch of its own, drawn anywhere in it."""
    from_s, to_s = scenario.split_range("train")
    length_s = min(ticks * scenario.control.tick_s, to_s - from_s)
    rng = np.random.default_rng(np.random.SeedSequence((seed, _STRETCH_STREAM)))
    start_s = from_s + float(rng.uniform(0.0, to_s - from_s - length_s))
    splits = replace(scenario.splits, train=(start_s, start_s + length_s))
    return replace(scenario, splits=splits)


def wandering_layout(
    scenario: Scenario,
    split: str,
    load_scales: tuple[float, ...],
    *,
    seed: int,
    traces_dir: Path | None,
) -> Requests:
    """A split's load with a rate that wanders between the smallest and the largest scale.

    The scenario's copies are shifted over the whole split, not only near each other: else the mix
    of prompts tells the hour, and a policy learns by heart which hours of this one day have an
    incident.

    Args:
        scenario: Whose load.
        split: Which range.
        load_scales: Factors on its rate.
        seed: Of copies and curve.
        traces_dir: Folder of the traces.

    Raises:
        ScenarioError: The traffic cannot be loaded.
    """
    layout_seed, curve_seed = np.random.SeedSequence(seed).generate_state(2).tolist()
    from_s, to_s = scenario.split_range(split)
    anywhere = replace(scenario, workload=replace(scenario.workload, max_shift_s=to_s - from_s))
    requests = _scaled(anywhere, split, max(load_scales), seed=layout_seed, traces_dir=traces_dir)
    return wandering(requests, min(load_scales) / max(load_scales), seed=curve_seed)


def _scaled(
    scenario: Scenario, split: str, factor: float, *, seed: int, traces_dir: Path | None
) -> Requests:
    """A split's load at another rate, as bursty as it is."""
    requests = scenario.requests(split, seed=seed, traces_dir=traces_dir)
    if factor == 1:
        return requests
    return superpose(requests, factor, seed=seed, max_shift_s=_USERS_SHIFT_S)
