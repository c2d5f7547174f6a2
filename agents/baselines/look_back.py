"""Samples of one metric over the last seconds, one a tick.

Upstreams sample every second or faster; here a sample stands for the tick that ends with it. A
window of W seconds therefore holds the samples that are less than W old: `ceil(W / tick)` of them,
never fewer than the current one.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

_DECIMALS: Final = 9
"""Takes the binary noise off a quotient of two durations."""


def whole_ticks(duration_s: float, tick_s: float) -> int:
    """How many ticks cover a duration: rounded up, at least 1."""
    return max(1, math.ceil(round(duration_s / tick_s, _DECIMALS)))


@dataclass(slots=True)
class LookBack:
    """The samples that are still looked at, oldest first."""

    ticks: int
    """How many ticks it reaches back, the current one included."""
    samples: deque[tuple[int, float]] = field(default_factory=deque)
    """Tick and value; a tick without a sample is left out."""

    def record(self, tick: int, value: float) -> None:
        """Adds the sample of a tick and drops those that are too old."""
        self.samples.append((tick, value))
        while tick - self.samples[0][0] >= self.ticks:
            self.samples.popleft()

    def values(self, tick: int) -> list[float]:
        """What is in reach at a tick, oldest first."""
        return [value for at, value in self.samples if tick - at < self.ticks]

    def saved(self) -> list[list[float]]:
        """The samples, as JSON content."""
        return [[at, value] for at, value in self.samples]

    def restore(self, saved: list[Any]) -> None:
        """Takes over the samples of another one of the same length."""
        self.samples = deque((at, value) for at, value in saved)
