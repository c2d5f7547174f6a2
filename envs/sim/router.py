"""Which replica a request goes to, among those that are ready and not ejected."""

from __future__ import annotations

from typing import Final

from .kernel import inlined_kernel, kernel
from .replica import advance
from .rng import below
from .state import NONE

ROUTERS: Final = ("round_robin", "random", "least_outstanding", "fewest_waiting")
"""`least_outstanding` is Envoy's LEAST_REQUEST with equal weights: the less loaded of two random
hosts, drawn with replacement. `fewest_waiting` (fewest requests not yet admitted, lowest index on a
tie) exists to compare with the reference runs."""
ROUND_ROBIN, RANDOM, LEAST_OUTSTANDING, FEWEST_WAITING = range(4)


@inlined_kernel
def _draw(env, active, skip):
    """A random active replica; `skip` is a place in `active` to leave out, or `NONE`."""
    if skip == NONE:
        return active[below(env, env.active)]
    place = below(env, env.active - 1)
    return active[place + 1 if place >= skip else place]


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
            plant.eviction_order,
            plant.histograms,
            plant.samples,
            plant.out,
            t,
        )


@kernel
def bring_all_up(plant, t):
    """Brings every replica up to time t: before anything looks at all of them."""
    for r in range(plant.next_event.shape[0]):
        bring_up(plant, r, t)
