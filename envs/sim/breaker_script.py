"""The engine's breaker on given counts: what every replica answered, interval by interval.

A run of the whole engine draws who fails; a comparison with a real gateway needs both sides to see
the same failures. So nothing arrives here: the counts are written where the gateway's kernels would
have left them, and the engine's clock then ends the interval with the very kernel that every
episode runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..workload.request import Requests
from .engine import Engine
from .params import EngineParams

_NEVER_S: Final = 1e12
"""When the one request of the workload is due: an engine needs one."""


def play_script(
    params: EngineParams,
    threshold_percent: int,
    answers: NDArray[np.int64],
    failures: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Plays one script.

    Args:
        params: The breaker's parameters; all replicas are ready from the start.
        threshold_percent: Failure percentage at or above which a replica is taken out.
        answers: `(K, R)`: answers of R replicas in each of K intervals. Under the cap the replica
            of the lower place is looked at first.
        failures: `(K, R)`: how many of them were errors.

    Returns:
        `(K, R)`: which replicas are out after each interval.

    Raises:
        ValueError: The breaker is off, or the counts do not fit together.
    """
    if not params.breaker_interval_s > 0:
        msg = f"breaker_interval_s is {params.breaker_interval_s}, expected more than 0"
        raise ValueError(msg)
    if answers.shape != failures.shape or answers.ndim != 2:
        msg = f"answers are {answers.shape}, failures {failures.shape}, expected the same (K, R)"
        raise ValueError(msg)
    if np.any(failures > answers) or np.any(failures < 0):
        msg = "failures are not between 0 and the answers"
        raise ValueError(msg)
    intervals, hosts = answers.shape
    interval_s = params.breaker_interval_s
    nothing = Requests(np.array([_NEVER_S]), np.ones(1, np.int32), np.ones(1, np.int32), _NEVER_S)
    engine = Engine(
        [replace(params, scrape_interval_s=interval_s, window_s=interval_s)],
        [nothing],
        1,
        max_replicas=hosts,
        sampled_s=1.0,
        periodic=False,
    )
    one = np.ones(1, np.int64)
    engine.reset(
        one - 1,
        seeds=np.ones(1, np.uint64),
        workloads=one - 1,
        start_s=np.zeros(1),
        warmup_s=0.0,
        replicas=hosts * one,
        threshold_percent=threshold_percent * one,
        faults=[[]],
    )
    replicas = engine._state.replicas[0, :hosts]  # the kernels' own records
    ejected = np.zeros((intervals, hosts), np.bool_)
    for k in range(intervals):
        replicas["interval_answers"] = answers[k]
        replicas["interval_failures"] = failures[k]
        engine.tick(interval_s, hosts * one, threshold_percent * one)
        ejected[k] = replicas["ejected"] == 1
    return ejected
