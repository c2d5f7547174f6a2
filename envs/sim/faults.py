"""Faults of the plant on a clock: of one replica, of all of them, of starts and of the load.

| kind | while it lasts |
|---|---|
| replica errors | one ready replica fails a share of its requests at once |
| brown-out | all replicas fail a share: ejecting is wrong |
| slow replica | one ready replica takes a factor longer for every iteration |
| sick replica | one ready replica is slow and fails a share |
| flapping | as replica errors, on for the first half of each period |
| hang | one ready replica begins no iteration; its requests wait until they time out |
| crash | at its onset one ready replica dies with its requests and starts anew |
| failed start | replicas ordered meanwhile begin their cold start when it ends |
| surge | time-shifted copies of the workload are laid over it |

A replica fault picks one ready replica when it starts and dies with it: a replacement is healthy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .gateway import find_next_arrival, next_row
from .kernel import inlined_kernel, kernel
from .lifecycle import crash_replica
from .records import FAULT, NONE, READY
from .replica import interrupt
from .rng import below, uniform
from .router import bring_up

KINDS: Final = (
    "replica_errors",
    "brown_out",
    "slow_replica",
    "sick_replica",
    "flapping",
    "hang",
    "crash",
    "failed_start",
    "surge",
)
"""Names of the kinds; their place is the engine's code."""
(
    REPLICA_ERRORS,
    BROWN_OUT,
    SLOW_REPLICA,
    SICK_REPLICA,
    FLAPPING,
    HANG,
    CRASH,
    FAILED_START,
    SURGE,
) = range(9)


_ROUNDING: Final = 1e-9
"""A toggle of a flapping replica is not missed for the rounding of its time."""


@kernel
def fault_event(plant, workload):
    """Starts and ends what is due, and sets anew what faults do to each replica."""
    env, replicas, faults = plant.env, plant.replicas, plant.faults
    t = env.next_fault
    earliest = np.inf
    env.outage_share = 0.0
    env.starts_blocked_until = 0.0
    for r in range(replicas.shape[0]):
        replicas[r].error_share = 0.0
        replicas[r].fault_slow = 1.0
    for k in range(faults.shape[0]):
        fault = faults[k]
        if fault.end <= t and (fault.kind != CRASH or fault.on == 1):
            if fault.on == 1 and fault.kind == SURGE:
                end_surge(plant, k)
            fault.on = 0
            fault.start = np.inf
            fault.end = np.inf
            continue
        if fault.start > t:
            earliest = min(earliest, fault.start)
            continue
        if fault.on == 0:
            fault.on = 1
            start_fault(plant, workload, fault, k, t)
        earliest = min(earliest, fault.end)
        if fault.kind == BROWN_OUT:
            env.outage_share = 1.0 - (1.0 - env.outage_share) * (1.0 - fault.share)
        elif fault.kind == FAILED_START:
            env.starts_blocked_until = max(env.starts_blocked_until, fault.end)
        if fault.target == NONE:
            continue
        rep = replicas[fault.target]
        if rep.incarnation != fault.incarnation:
            continue
        share = fault.share
        if fault.kind == FLAPPING:
            halves = int(np.floor((t - fault.start) / (0.5 * fault.period) + _ROUNDING))
            if halves % 2 == 1:
                share = 0.0
            earliest = min(earliest, fault.start + (halves + 1) * 0.5 * fault.period)
        if fault.kind != SLOW_REPLICA:
            rep.error_share = 1.0 - (1.0 - rep.error_share) * (1.0 - share)
        if fault.kind == SLOW_REPLICA or fault.kind == SICK_REPLICA:
            rep.fault_slow *= fault.factor
    for r in range(replicas.shape[0]):
        rep = replicas[r]
        if rep.fault_slow != rep.slow:
            bring_up(plant, r, t)
            interrupt(rep, r, plant.next_event, t)
            rep.slow = rep.fault_slow
    env.next_fault = earliest


@inlined_kernel
def start_fault(plant, workload, fault, k, t):
    """The onset: who is hit, and what happens at once."""
    replicas = plant.replicas
    fault.target = NONE
    if fault.kind == SURGE:
        start_surge(plant, workload, fault, k, t)
        return
    if fault.kind == BROWN_OUT or fault.kind == FAILED_START:
        return
    ready = 0
    for r in range(replicas.shape[0]):
        if replicas[r].state == READY:
            ready += 1
    if ready == 0:
        return
    place = below(plant.env, ready)
    for r in range(replicas.shape[0]):
        if replicas[r].state == READY:
            if place == 0:
                fault.target = r
                fault.incarnation = replicas[r].incarnation
                break
            place -= 1
    r = fault.target
    if fault.kind == CRASH:
        crash_replica(plant, r, t)
        fault.target = NONE
    elif fault.kind == HANG:
        bring_up(plant, r, t)
        interrupt(replicas[r], r, plant.next_event, t)
        replicas[r].paused_until = max(replicas[r].paused_until, fault.end)


@kernel
def start_surge(plant, workload, fault, k, t):
    """Lays copies of the workload over it: whole ones, and one whose rows are thinned.

    `fault.period` is the largest shift of a copy. Each copy reads the workload as it is a random
    time earlier or later, so that no burst is merely made higher.
    """
    env, cursors = plant.env, plant.cursors
    left = fault.factor - 1.0
    for c in range(1, cursors.shape[0]):
        if left <= 0.0:
            break
        cursor = cursors[c]
        if cursor.fault != NONE:
            continue
        cursor.fault = k
        cursor.share = min(left, 1.0)
        left -= 1.0
        shift = fault.period * (2.0 * uniform(env) - 1.0)
        place_cursor(env, cursor, workload, cursors[0].time_shift + shift, t)
        if cursor.share < 1.0 and cursor.next < np.inf and uniform(env) >= cursor.share:
            env.cursor = c
            next_row(plant, workload)
    find_next_arrival(env, cursors)


@inlined_kernel
def end_surge(plant, k):
    """Takes the copies of fault k away."""
    env, cursors = plant.env, plant.cursors
    for c in range(1, cursors.shape[0]):
        if cursors[c].fault == k:
            cursors[c].fault = NONE
            cursors[c].next = np.inf
    find_next_arrival(env, cursors)


@kernel
def place_cursor(env, cursor, workload, time_shift, t):
    """Puts a reader to the first row that arrives at or after t, under a shift of time."""
    if env.row_low == env.row_high:
        cursor.next = np.inf
        return
    if env.span > 0.0:  # whole spans that lie behind t
        time_shift += env.span * np.floor((t - time_shift) / env.span)
    row, above = env.row_low, env.row_high
    while row < above:
        middle = (row + above) >> 1
        if workload.arrival_s[middle] + time_shift < t:
            row = middle + 1
        else:
            above = middle
    if row == env.row_high:
        if env.span == 0.0:
            cursor.next = np.inf
            return
        row = env.row_low
        time_shift += env.span
    cursor.row = row
    cursor.time_shift = time_shift
    cursor.next = workload.arrival_s[row] + time_shift


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of an episode."""

    kind: str
    """One of `KINDS`."""
    start_s: float
    """Onset, from the episode's beginning."""
    end_s: float
    """Its end; a crash has none."""
    error_share: float = 0.0
    """Share of the requests that fail, 0-1."""
    factor: float = 1.0
    """How many times longer an iteration takes, or how many times more requests come."""
    period_s: float = 0.0
    """Of flapping."""
    max_shift_s: float = 0.0
    """Largest shift of a surge's copies."""


def packed_faults(faults: Sequence[Fault], room: int, offset_s: float) -> NDArray[Any]:
    """The faults as `(room,)` records whose times count from `offset_s` before the episode.

    Raises:
        ValueError: More faults than room.
    """
    if len(faults) > room:
        msg = f"{len(faults)} faults in one episode, room for {room}"
        raise ValueError(msg)
    records = np.zeros(room, FAULT)
    records["start"] = np.inf
    records["end"] = np.inf
    records["target"] = NONE
    for record, fault in zip(records, faults, strict=False):
        record["kind"] = KINDS.index(fault.kind)
        record["start"] = fault.start_s + offset_s
        record["end"] = fault.end_s + offset_s
        record["share"] = fault.error_share
        record["factor"] = fault.factor
        record["period"] = fault.max_shift_s if fault.kind == "surge" else fault.period_s
    return records


def surge_copies(faults: Sequence[Fault]) -> int:
    """Readers that the surges of an episode need at most, were they all at once."""
    return sum(math.ceil(fault.factor - 1.0) for fault in faults if fault.kind == "surge")
