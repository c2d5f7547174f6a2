"""What an actuator is. Which one there is, if any that can write, is decided in the wiring."""

from __future__ import annotations

from typing import Protocol

from ..decision import Decision, Proposal


class Actuator(Protocol):
    """Carries decisions to one gateway, and finds out whether they are in force."""

    def read(self) -> Proposal | None:
        """The settings in force as it can see them; `None`: it cannot."""
        ...

    def apply(self, decision: Decision) -> None:
        """Carries out a recorded decision that has not expired."""
        ...

    def confirm(self, decision: Decision) -> bool:
        """Whether the gateway shows the decision's settings to be in force."""
        ...
