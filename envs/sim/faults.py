"""Faults on a clock: one replica that errs, or all of them at once, where ejecting is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernel import kernel
from .rng import below
from .state import FAULT, NONE, READY


@kernel
def fault_event(plant):
    """Starts and ends what is due, and sets the error shares anew.

    A replica fault picks one ready replica when it starts and dies with it: a replacement is
    healthy.
    """
    env, replicas, faults = plant.env, plant.replicas, plant.faults
    t = env.next_fault
    earliest = np.inf
    env.outage_share = 0.0
    for r in range(replicas.shape[0]):
        replicas[r].error_share = 0.0
    for k in range(faults.shape[0]):
        fault = faults[k]
        if fault.end <= t:
            fault.on = 0
            continue
        if fault.start > t:
            earliest = min(earliest, fault.start)
            continue
        earliest = min(earliest, fault.end)
        if fault.everywhere == 1:
            env.outage_share = 1.0 - (1.0 - env.outage_share) * (1.0 - fault.share)
            continue
        if fault.on == 0:
            fault.on = 1
            fault.target = NONE
            ready = 0
            for r in range(replicas.shape[0]):
                if replicas[r].state == READY:
                    ready += 1
            if ready > 0:
                place = below(env, ready)
                for r in range(replicas.shape[0]):
                    if replicas[r].state == READY:
                        if place == 0:
                            fault.target = r
                            fault.incarnation = replicas[r].incarnation
                            break
                        place -= 1
        if fault.target != NONE:
            rep = replicas[fault.target]
            if rep.incarnation == fault.incarnation:
                rep.error_share = 1.0 - (1.0 - rep.error_share) * (1.0 - fault.share)
    env.next_fault = earliest


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of an episode."""

    start_s: float
    """Onset, from the episode's beginning."""
    end_s: float
    """Its end."""
    error_share: float
    """Share of the requests that fail, 0-1."""
    everywhere: bool
    """All replicas fail alike (a provider's brown-out); else one that is drawn at the onset."""


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
    for record, fault in zip(records, faults, strict=False):
        record["start"] = fault.start_s + offset_s
        record["end"] = fault.end_s + offset_s
        record["share"] = fault.error_share
        record["everywhere"] = fault.everywhere
    return records
