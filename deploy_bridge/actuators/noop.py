"""The actuator of shadow: it remembers what would have been done. It holds no way to write."""

from __future__ import annotations

from ..decision import Decision, Proposal


class NoopActuator:
    """Remembers the last decision that would have been carried out.

    Attributes:
        would_have: How many there were.
        last: The newest one; `None`: none so far.
    """

    def __init__(self) -> None:
        """Starts with none."""
        self.would_have = 0
        self.last: Decision | None = None

    def read(self) -> Proposal | None:
        """It sees no gateway."""
        return None

    def apply(self, decision: Decision) -> None:
        """Remembers; nothing else."""
        self.would_have += 1
        self.last = decision

    def confirm(self, decision: Decision) -> bool:
        """Nothing was done, so nothing is ever in force because of it."""
        del decision
        return False
