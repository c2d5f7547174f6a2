"""The two kinds of decision makers, as protocols. No torch here: the bridge imports this."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..envs.schema.settings import GatewaySettings
from ..envs.schema.snapshot import MetricsSnapshot


class Controller(Protocol):
    """A rule that looks at the snapshot and names settings; it may jump.

    It holds its state openly and belongs to one episode of one gateway. It is asked once a tick.
    """

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Says what to set from this tick to the next.

        Args:
            snapshot: What a scrape shows; `None` is "not known" and never 0.
            settings: What is in force.

        Returns:
            The settings to apply; `settings` itself if nothing is to change.
        """
        ...


@runtime_checkable
class Remembering(Protocol):
    """A controller with state: what it remembers can be written down and put back.

    After `restore(saved())` it decides exactly as the one that was saved. A controller without this
    has no state.
    """

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        ...

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one of the same parameters remembered."""
        ...


def memory_of(controller: Controller) -> dict[str, Any]:
    """What a controller remembers, as JSON content; nothing, if it has no state."""
    return controller.saved() if isinstance(controller, Remembering) else {}


def restore_memory(controller: Controller, saved: dict[str, Any]) -> None:
    """Gives a controller what another one of the same parameters remembered, if it has state."""
    if isinstance(controller, Remembering):
        controller.restore(saved)


class Policy(Protocol):
    """A learned decision maker: sees observations, says actions of the schema's table."""

    def act(self, observation: NDArray[np.float32]) -> NDArray[np.int64]:
        """Chooses for n gateways.

        Args:
            observation: Shape `(n, D)`, as `envs.schema.observation.encode` makes it.

        Returns:
            Shape `(n, 2)`: indices of the scaling head and of the threshold head; 1 is "no change".
        """
        ...
