"""Which replica a request goes to, among those that are ready and not ejected."""

from __future__ import annotations

from typing import Final

from .kernel import inlined_kernel, kernel
from .records import NONE, READY
from .replica import advance
from .rng import below, uniform

ROUTERS: Final = (
    "round_robin",
    "random",
    "least_outstanding",
    "fewest_waiting",
    "dynamic_weight",
)
"""`least_outstanding` is Envoy's LEAST_REQUEST with equal weights: the less loaded of two random
hosts, drawn with replacement. `fewest_waiting` (fewest requests not yet admitted, lowest index on a
tie) exists to compare with the reference runs. `dynamic_weight` draws in proportion to the weights
of `weights.py`."""
ROUND_ROBIN, RANDOM, LEAST_OUTSTANDING, FEWEST_WAITING, DYNAMIC_WEIGHT = range(5)

_OVERPROVISIONING_PERCENT: Final = 140
"""Envoy's default: with 5 of 7 hosts left it sees no shortage, and so no panic."""


@kernel
def refresh_active(plant):
    """Rebuilds the list of replicas that may be routed to, in the order of their places.

    Those that are ready and not ejected; if they are too few (after a scale-in of healthy ones,
    say), all of these: Envoy's panic threshold, 50 % by default (`load_balancer_impl.cc`).
    """
    n = 0
    ready = 0
    for r in range(plant.replicas.shape[0]):
        if plant.replicas[r].state == READY:
            ready += 1
            if plant.replicas[r].ejected == 0:
                plant.active[n] = r
                n += 1
    short = _OVERPROVISIONING_PERCENT * n < 100 * ready
    if short and 100 * n < plant.params.panic_percent * ready:
        n = 0
        for r in range(plant.replicas.shape[0]):
            if plant.replicas[r].state == READY:
                plant.active[n] = r
                n += 1
    plant.env.active = n


@inlined_kernel
def _draw(env, active, skip):
    """A random active replica; `skip` is a place in `active` to leave out, or `NONE`."""
    if skip == NONE:
        return active[below(env, env.active)]
    place = below(env, env.active - 1)
    return active[place + 1 if place >= skip else place]


@kernel
def _draw_by_weight(env, active, replicas, skip):
    """A random active replica, in proportion to the weights; all alike where they are all 0."""
    total = 0.0
    for place in range(env.active):
        if place != skip:
            total += replicas[active[place]].weight
    if total <= 0.0:
        return _draw(env, active, skip)
    left = uniform(env) * total
    last = NONE
    for place in range(env.active):
        weight = replicas[active[place]].weight
        if place == skip or weight <= 0.0:
            continue
        last = active[place]
        left -= weight
        if left < 0.0:
            break
    return last


@inlined_kernel
def pick(plant, avoid, t):
    """The replica for a request at time t, brought up to t. There is at least one active.

    `avoid` is the replica of the failed try before, left out where there is another.
    """
    p, env, active = plant.params, plant.env, plant.active
    skip = NONE
    if avoid != NONE and env.active > 1:
        for place in range(env.active):
            if active[place] == avoid:
                skip = place
    if p.router == LEAST_OUTSTANDING:
        r = _draw(env, active, skip)
        other = _draw(env, active, skip)
        bring_up(plant, r, t)
        if other != r:
            bring_up(plant, other, t)
            if plant.replicas[other].outstanding < plant.replicas[r].outstanding:
                r = other
        return r
    if p.router == FEWEST_WAITING:
        r = NONE
        fewest = 0
        for place in range(env.active):
            if place == skip:
                continue
            candidate = active[place]
            bring_up(plant, candidate, t)
            waiting = plant.replicas[candidate].waiting
            if r == NONE or waiting < fewest:
                r = candidate
                fewest = waiting
        return r
    if p.router == DYNAMIC_WEIGHT:
        r = _draw_by_weight(env, active, plant.replicas, skip)
        bring_up(plant, r, t)
        return r
    if p.router == ROUND_ROBIN:
        place = env.turn % env.active
        if place == skip:
            place = (place + 1) % env.active
        env.turn = place + 1
        r = active[place]
    else:
        r = _draw(env, active, skip)
    bring_up(plant, r, t)
    return r


@inlined_kernel
def bring_up(plant, r, t):
    """Brings one replica up to time t."""
    if plant.next_event[r] <= t:
        advance(
            plant.params,
            plant.env,
            plant.replicas[r],
            r,
            plant.next_event,
            plant.keys,
            plant.pool,
            plant.samples,
            plant.out,
            t,
        )


@kernel
def bring_all_up(plant, t):
    """Brings every replica up to time t: before anything looks at all of them."""
    for r in range(plant.next_event.shape[0]):
        bring_up(plant, r, t)
