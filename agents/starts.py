"""Where training episodes may begin: windows that some number of replicas keeps.

A window that the maximum of replicas cannot keep teaches nothing about the choice of replicas, but
its violations drown everything else. The same rule gates the windows of every evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..envs.batch import GatewayBatch
from ..envs.scenario import Scenario
from ..envs.workload.request import Requests
from ..reward.documented import default_reward
from .layouts import Layouts

STARTS_PER_EPISODE: Final = 2
"""Windows begun in the time of one episode: neighbours overlap by half."""
MAX_ENVS: Final = 256
"""Windows played side by side; more would only take memory."""


def keepable_starts(
    layouts: Layouts, episode_ticks: int, *, at_most: int | None = None
) -> list[NDArray[np.float64]]:
    """Plays every window at the maximum of replicas, without faults; lists those never violated.

    Args:
        layouts: Of the training range.
        episode_ticks: Length of a window.
        at_most: Look at so many windows of a scenario only, spread evenly.

    Returns:
        One a scenario, of shape `(k, 2)`: index of the workload, start in it in seconds. All
        windows of a scenario if none is kept.
    """
    workloads = layouts.requests
    episode_s = episode_ticks * layouts.scenarios[0].control.tick_s
    found = []
    for place in dict.fromkeys(layouts.places):
        own = [i for i, other in enumerate(layouts.places) if other == place]
        found.append(_windows(own, workloads, episode_s, at_most))
    every = np.concatenate(found)
    easiest = [_easiest(scenario) for scenario in layouts.scenarios]
    chunks = np.array_split(every, -(-len(every) // MAX_ENVS))
    kept = np.concatenate([_kept(easiest, workloads, episode_ticks, part) for part in chunks])
    parts = np.split(kept, np.cumsum([len(windows) for windows in found])[:-1])
    return [w[keep] if keep.any() else w for w, keep in zip(found, parts, strict=True)]


def _windows(
    own: Sequence[int], workloads: Sequence[Requests], episode_s: float, at_most: int | None
) -> NDArray[np.float64]:
    """Windows of a scenario, `(k, 2)`: one of its own workloads, start in it in seconds."""
    places = []
    for i in own:
        requests = workloads[i]
        count = max(round((requests.span_s / episode_s - 1) * STARTS_PER_EPISODE) + 1, 1)
        for start_s in np.linspace(0.0, requests.span_s - episode_s, count):
            places.append((i, float(start_s)))
    windows = np.array(places)
    if at_most is not None and at_most < len(windows):
        windows = windows[np.linspace(0, len(windows) - 1, at_most).astype(np.int64)]
    return windows


def _easiest(scenario: Scenario) -> Scenario:
    """The same without faults, with the maximum of replicas from the first request on."""
    cluster = replace(scenario.cluster, initial_replicas=scenario.cluster.max_replicas)
    return replace(scenario, cluster=cluster, faults=())


def _kept(
    scenarios: Sequence[Scenario],
    workloads: Sequence[Requests],
    episode_ticks: int,
    windows: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Which windows stay without violation at the maximum of replicas."""
    batch = GatewayBatch(
        scenarios,
        len(windows),
        reward_fn=default_reward,
        episode_ticks=episode_ticks,
        requests=workloads,
    )
    batch.reset(
        starts_s=windows[:, 1],
        seeds=np.arange(len(windows)),
        workloads=windows[:, 0].astype(np.int64),
    )
    kept = np.ones(len(windows), np.bool_)
    threshold_steps = batch.threshold_steps.copy()
    for _ in range(episode_ticks):
        step = batch.step_settings(batch.max_replicas, threshold_steps)
        kept &= ~step.info["violation"]
    return kept
