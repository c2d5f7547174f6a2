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

STARTS_PER_EPISODE: Final = 2
"""Windows begun in the time of one episode: neighbours overlap by half."""
MAX_ENVS: Final = 256
"""Windows played side by side; more would only take memory."""


def keepable_starts(
    scenario: Scenario,
    workloads: Sequence[Requests],
    episode_ticks: int,
    *,
    at_most: int | None = None,
) -> NDArray[np.float64]:
    """Plays every window at the maximum of replicas, without faults; lists those never violated.

    Args:
        scenario: Whose gateways.
        workloads: Layouts of the training range.
        episode_ticks: Length of a window.
        at_most: Look at so many windows only, spread evenly.

    Returns:
        Shape `(k, 2)`: index of the workload, start in it in seconds. All windows if none is kept.
    """
    episode_s = episode_ticks * scenario.control.tick_s
    places = []
    for i, requests in enumerate(workloads):
        count = max(round((requests.span_s / episode_s - 1) * STARTS_PER_EPISODE) + 1, 1)
        for start_s in np.linspace(0.0, requests.span_s - episode_s, count):
            places.append((i, float(start_s)))
    windows = np.array(places)
    if at_most is not None and at_most < len(windows):
        windows = windows[np.linspace(0, len(windows) - 1, at_most).astype(np.int64)]
    chunks = np.array_split(windows, -(-len(windows) // MAX_ENVS))
    kept = np.concatenate([_kept(scenario, workloads, episode_ticks, part) for part in chunks])
    return windows[kept] if kept.any() else windows


def _kept(
    scenario: Scenario,
    workloads: Sequence[Requests],
    episode_ticks: int,
    windows: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Which windows stay without violation at the maximum of replicas."""
    most = scenario.cluster.max_replicas
    cluster = replace(scenario.cluster, initial_replicas=most)
    batch = GatewayBatch(
        replace(scenario, cluster=cluster, faults=()),
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
        step = batch.step_settings(np.full(len(windows), most), threshold_steps)
        kept &= ~step.info["violation"]
    return kept
