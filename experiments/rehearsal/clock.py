"""Virtual time: two clocks that go on when they are told to, and a wait that takes no time."""

from __future__ import annotations

import threading
from typing import Final

START_S: Final = 946_684_800.0
"""Where it begins: 2000-01-01T00:00:00Z, which nobody takes for a real tick."""


class VirtualClock:
    """A clock for the bridge's loop (`deploy_bridge.loop.Clock`).

    Attributes:
        elapsed_s: Virtual seconds since the start.
    """

    def __init__(self) -> None:
        """Starts."""
        self.elapsed_s = 0.0

    def now(self) -> tuple[float, float]:
        """Wall time (seconds since the epoch) and monotonic time."""
        return START_S + self.elapsed_s, self.elapsed_s

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Moves on by so many seconds."""
        del stop
        self.elapsed_s += max(seconds, 0.0)
