"""What goes wrong between the gateway and the bridge's eyes; the gateway knows nothing of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from ...deploy_bridge.metrics.source import Problem, Reading
from .errors import RehearsalError


class TelemetryFault(Protocol):
    """Changes what a source says."""

    def applied(self, tick: int, reading: Reading) -> Reading:
        """What is read at a tick instead of `reading`."""
        ...

    def __str__(self) -> str:
        """What and when, in words."""
        ...


@dataclass(frozen=True, slots=True)
class Blackout:
    """Ticks at which the source cannot be reached."""

    first: int
    """The first blind tick, counted from 0."""
    end: int
    """The first tick that sees again."""

    def __post_init__(self) -> None:
        """Refuses what blinds nobody.

        Raises:
            RehearsalError: No tick lies between the two.
        """
        if not 0 <= self.first < self.end:
            msg = f"blind {self.first}:{self.end}: expected FROM:TO with 0 <= FROM < TO, in ticks"
            raise RehearsalError(msg)

    def __str__(self) -> str:
        """What and when, in words."""
        return f"source unreachable at ticks {self.first} to {self.end - 1}"

    def applied(self, tick: int, reading: Reading) -> Reading:
        """Nothing, and a reason for it; else the reading as it is."""
        if not self.first <= tick < self.end:
            return reading
        return Reading({}, (Problem("unreachable", "source", f"rehearsed: {self}"),))


def parse_blackout(text: str) -> Blackout:
    """Reads `FROM:TO`.

    Args:
        text: Two tick numbers; TO is the first tick that sees again.

    Raises:
        RehearsalError: It is something else.
    """
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if match is None:
        msg = f"blind {text!r}: expected FROM:TO in ticks, e.g. 40:52"
        raise RehearsalError(msg)
    return Blackout(int(match[1]), int(match[2]))


def check_within(faults: tuple[Blackout, ...], ticks: int) -> None:
    """Refuses a fault that would never show.

    Raises:
        RehearsalError: It begins after the last tick.
    """
    for fault in faults:
        if fault.first >= ticks:
            msg = f"blind {fault.first}:{fault.end}: the rehearsal has ticks 0 to {ticks - 1}"
            raise RehearsalError(msg)
