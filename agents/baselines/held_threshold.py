"""An autoscaler with a constant breaker threshold beside it.

Formula: `replicas` as the inner controller says, `threshold_steps = H`. One regime. No upstream:
autoscalers leave the breaker alone, whose threshold an operator sets once; tuning may choose it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot
from ..policy import Controller, memory_of, restore_memory


@dataclass(frozen=True, slots=True)
class HeldThreshold:
    """The autoscaler and the threshold; all state is the inner one's."""

    inner: Controller
    threshold_steps: int
    """Breaker threshold in steps of 0.05."""

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """What the inner controller says, at this threshold."""
        wanted = self.inner.decide(snapshot, settings)
        return replace(wanted, threshold_steps=self.threshold_steps)

    def saved(self) -> dict[str, Any]:
        """What the inner controller remembers; nothing, if it has no state."""
        return memory_of(self.inner)

    def restore(self, saved: dict[str, Any]) -> None:
        """Hands it to the inner controller."""
        restore_memory(self.inner, saved)
