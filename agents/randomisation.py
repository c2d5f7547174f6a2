"""Scenarios made harder and other at random, so that what is learned holds beyond one day.

A training range shows few incidents, and always the same: a policy learns how lean it may be in
just these hours. Variants of a scenario have another cold start, begin with other replicas, see the
load surge now and then, and meet what goes wrong in the other scenarios of the training (domain
randomisation, Tobin et al., IROS 2017). Validation and test are never varied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ..envs.episodes import engine_params
from ..envs.fault_spec import FaultSpec
from ..envs.scenario import Scenario
from .config import RandomisationConfig

_SURGE_S: Final = (120.0, 600.0)
"""Bounds of how long a variant's surges last."""


def varied(
    scenario: Scenario,
    others: Sequence[Scenario],
    config: RandomisationConfig,
    rng: np.random.Generator,
) -> Scenario:
    """A variant of a scenario.

    Args:
        scenario: What is varied; its workload stays.
        others: Whose faults it may meet besides its own, where they are of other kinds.
        config: How far it may differ.
        rng: Draws the variant.
    """
    cluster, faults = scenario.cluster, scenario.faults
    if cluster.start is None and config.cold_start != (1.0, 1.0):
        factor = float(np.exp(rng.uniform(*np.log(config.cold_start))))
        cold_start_s = engine_params(scenario).cold_start_s * factor
        cluster = replace(cluster, cold_start_s=cold_start_s)
    if config.start_replicas:
        least = max(cluster.min_replicas, 1)
        start = int(rng.integers(least, cluster.max_replicas + 1))
        cluster = replace(cluster, initial_replicas=start)
    kinds = {spec.kind for spec in faults}
    if config.surge is not None and "surge" not in kinds:
        faults += (_surge(config.surge, config.surge_interval_s, rng),)
    if rng.random() < config.more_faults:
        gifts = [gift for other in others if (gift := _gift(scenario, faults, other))]
        faults += gifts[int(rng.integers(len(gifts)))] if gifts else ()
    return replace(scenario, cluster=cluster, faults=faults)


def _gift(
    scenario: Scenario, faults: tuple[FaultSpec, ...], donor: Scenario
) -> tuple[FaultSpec, ...]:
    """Faults of a donor that a scenario with these does not have, within its episodes."""
    episode_s = scenario.control.episode_ticks * scenario.control.tick_s
    kinds = {spec.kind for spec in faults}
    return tuple(
        spec
        for spec in donor.faults
        if spec.kind not in kinds and (spec.start_s or 0.0) < episode_s
    )


def _surge(factor: tuple[float, float], interval_s: float, rng: np.random.Generator) -> FaultSpec:
    return FaultSpec(
        "surge",
        duration_s=float(rng.uniform(*_SURGE_S)),
        mean_interval_s=interval_s,
        factor=(factor[0], float(rng.uniform(*factor))),
    )
