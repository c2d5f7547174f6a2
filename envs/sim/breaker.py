"""The circuit breaker: Envoy's outlier detection, a replica at a time.

Read in `source/common/upstream/outlier_detection_impl.cc`: at every interval first the hosts whose
time is over come back (base time x multiplier, capped, and a jitter); then, if enough hosts had
enough requests, each of those whose failure percentage is at or above the threshold is ejected
while `100 (ejected + 1) / hosts` stays within the cap, and its multiplier grows by one (not without
end: until the time is above its cap); at last the multiplier falls by one for those that were back
before this interval and are not out again. Failures in a row eject at once, under the same cap.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .kernel import kernel
from .records import READY
from .rng import next_u64
from .router import bring_all_up, refresh_active

_ROUNDING_S: Final = 1e-6
"""Far above the rounding of a sum of intervals, far below Envoy's millisecond."""
_JITTER_STEP_S: Final = 1e-3
"""Envoy draws whole milliseconds."""


@kernel
def breaker_interval(plant):
    """The end of one interval: who comes back, who is taken out."""
    p, env, replicas = plant.params, plant.env, plant.replicas
    t = env.next_breaker
    env.next_breaker = t + p.breaker_interval_s
    bring_all_up(plant, t)
    enough = 0
    for r in range(replicas.shape[0]):
        rep = replicas[r]
        if rep.state != READY:
            continue
        if rep.ejected == 1:
            ejection_s = min(p.base_ejection_s * rep.ejections, p.max_ejection_s)
            ejection_s += rep.ejection_jitter_s
            if ejection_s <= t - rep.changed_at + _ROUNDING_S:
                rep.ejected = 0
                rep.changed_at = t
                rep.consecutive_failures = 0
                env.ejected -= 1
        if rep.ejected == 0 and rep.interval_answers >= p.request_volume:
            enough += 1
    if enough >= max(p.minimum_hosts, 1):
        for r in range(replicas.shape[0]):
            rep = replicas[r]
            if rep.state != READY or rep.ejected == 1 or rep.interval_answers < p.request_volume:
                continue
            if 100.0 * rep.interval_failures >= env.threshold_percent * rep.interval_answers:
                eject(plant, rep, t)
    for r in range(replicas.shape[0]):
        rep = replicas[r]
        rep.interval_answers = 0
        rep.interval_failures = 0
        if rep.ejected == 0 and rep.ejections > 0 and rep.changed_at < t:
            rep.ejections -= 1
    refresh_active(plant)


@kernel
def eject(plant, rep, t):
    """Takes one replica out, as far as the cap and chance let it.

    Envoy's one door for all its detectors: the cap, `always_eject_one_host`, then the draw whether
    it is enforced, then the jitter. What the cap stops draws nothing.
    """
    p, env = plant.params, plant.env
    hosts = 0
    for r in range(plant.replicas.shape[0]):
        if plant.replicas[r].state == READY:
            hosts += 1
    within_cap = 100.0 * (env.ejected + 1) <= p.max_ejection_percent * hosts
    if not within_cap and not (p.always_eject_one_host == 1 and env.ejected == 0):
        return
    if p.enforcing_percent < 100 and next_u64(env) % np.uint64(100) >= np.uint64(
        p.enforcing_percent
    ):
        return
    rep.ejected = 1
    rep.changed_at = t
    rep.ejection_jitter_s = 0.0
    if p.max_ejection_jitter_s > 0.0:
        steps = np.uint64(p.max_ejection_jitter_s / _JITTER_STEP_S) + np.uint64(1)
        rep.ejection_jitter_s = (next_u64(env) % steps) * _JITTER_STEP_S
    if p.base_ejection_s * rep.ejections < p.max_ejection_s + p.base_ejection_s:
        rep.ejections += 1
    env.ejected += 1


@kernel
def eject_suspects(plant, t):
    """Takes out who has failed too often in a row; an attempt that is stopped counts anew."""
    p, env, replicas = plant.params, plant.env, plant.replicas
    env.suspect = 0
    for r in range(replicas.shape[0]):
        rep = replicas[r]
        if (
            rep.state == READY
            and rep.ejected == 0
            and rep.consecutive_failures >= p.consecutive_5xx
        ):
            eject(plant, rep, t)
            rep.consecutive_failures = 0
    refresh_active(plant)
