"""The circuit breaker: Envoy's outlier detection by failure percentage, a replica at a time.

Read in `source/common/upstream/outlier_detection_impl.cc`: at every interval first the hosts whose
time is over come back (base time x multiplier, capped); then, if enough hosts had enough requests,
each of those whose failure percentage is at or above the threshold is ejected while
`100 (ejected + 1) / hosts` stays within the cap, and its multiplier grows by one (not without end:
until the time is above its cap); at last the multiplier falls by one for those that were back
before this interval and are not out again.
"""

from __future__ import annotations

from typing import Final

from .kernel import kernel
from .lifecycle import refresh_active
from .router import bring_all_up
from .state import READY

_ROUNDING_S: Final = 1e-6
"""Far above the rounding of a sum of intervals, far below Envoy's millisecond."""


@kernel
def breaker_interval(plant):
    """The end of one interval: who comes back, who is taken out."""
    p, env, replicas = plant.params, plant.env, plant.replicas
    t = env.next_breaker
    env.next_breaker = t + p.breaker_interval_s
    bring_all_up(plant, t)
    hosts = 0
    enough = 0
    for r in range(replicas.shape[0]):
        rep = replicas[r]
        if rep.state != READY:
            continue
        hosts += 1
        if rep.ejected == 1:
            ejection_s = min(p.base_ejection_s * rep.ejections, p.max_ejection_s)
            if ejection_s <= t - rep.changed_at + _ROUNDING_S:
                rep.ejected = 0
                rep.changed_at = t
                env.ejected -= 1
        if rep.ejected == 0 and rep.interval_answers >= p.request_volume:
            enough += 1
    if enough >= max(p.minimum_hosts, 1):
        for r in range(replicas.shape[0]):
            rep = replicas[r]
            if rep.state != READY or rep.ejected == 1 or rep.interval_answers < p.request_volume:
                continue
            failing = 100.0 * rep.interval_failures >= env.threshold_percent * rep.interval_answers
            if failing and 100.0 * (env.ejected + 1) <= p.max_ejection_percent * hosts:
                rep.ejected = 1
                rep.changed_at = t
                if p.base_ejection_s * rep.ejections < p.max_ejection_s + p.base_ejection_s:
                    rep.ejections += 1
                env.ejected += 1
    for r in range(replicas.shape[0]):
        rep = replicas[r]
        rep.interval_answers = 0
        rep.interval_failures = 0
        if rep.ejected == 0 and rep.ejections > 0 and rep.changed_at < t:
            rep.ejections -= 1
    refresh_active(plant)
