"""Another controller, restricted to the steps that the learned policy has.

Formula: `step = sign(wanted - current)` for replicas and for the threshold, both within their
bounds; the admission limit passes through, the policy has no head for it. One regime. No upstream;
the fairness rule of `baselines.md`: every controller is reported at its native step size and at
this one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...envs.schema.settings import GatewaySettings, Limits
from ...envs.schema.snapshot import MetricsSnapshot
from ..policy import Controller, memory_of, restore_memory


@dataclass(frozen=True, slots=True)
class Unit:
    """The restricted controller; all state is the inner one's."""

    inner: Controller
    limits: Limits

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """One step towards what the inner controller wants, from what is in force."""
        wanted = self.inner.decide(snapshot, settings)
        stepped = settings.stepped(
            _sign(wanted.replicas - settings.replicas),
            _sign(wanted.threshold_steps - settings.threshold_steps),
            self.limits,
        )
        return replace(stepped, max_outstanding=wanted.max_outstanding)

    def saved(self) -> dict[str, Any]:
        """What the inner controller remembers; nothing, if it has no state."""
        return memory_of(self.inner)

    def restore(self, saved: dict[str, Any]) -> None:
        """Hands it to the inner controller."""
        restore_memory(self.inner, saved)


def _sign(difference: int) -> int:
    return (difference > 0) - (difference < 0)
