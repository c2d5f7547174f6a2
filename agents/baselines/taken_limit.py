"""The admission limit while a rule that is not always on has it in hand.

A breaker or a load guard takes the limit when it acts and gives it back when it is done, as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...envs.schema.settings import GatewaySettings


@dataclass(slots=True)
class TakenLimit:
    """Whether the limit is in hand, and what it was before."""

    is_taken: bool = False
    """Whether the rule has it in hand."""
    before: int | None = None
    """What it was; `None` is no limit. Means nothing while it is not in hand."""

    def take(self, settings: GatewaySettings, limit: int) -> GatewaySettings:
        """Sets it, and remembers what it was when it is taken first."""
        if not self.is_taken:
            self.is_taken, self.before = True, settings.max_outstanding
        return replace(settings, max_outstanding=limit)

    def give_back(self, settings: GatewaySettings) -> GatewaySettings:
        """Sets what it was; `settings` itself if it was not in hand."""
        if not self.is_taken:
            return settings
        self.is_taken = False
        return replace(settings, max_outstanding=self.before)

    def saved(self) -> dict[str, Any]:
        """As JSON content."""
        return {"is_taken": self.is_taken, "before": self.before}
