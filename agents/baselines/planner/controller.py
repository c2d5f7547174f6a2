"""The analytical planner as a controller of one gateway.

Formula: `replicas = Planner.see(row).replicas` (`planner`), at once and however far; the breaker's
threshold is left alone. Its regimes are the planner's. Version: ours, no upstream; `baselines.md`,
15. Its defaults were chosen on training hours of fifteen shipped scenarios together.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ....envs.schema.settings import GatewaySettings
from ....envs.schema.snapshot import MetricsSnapshot
from ..site import Site, Suggest
from .forecast import ForecastParams
from .planner import Planner, PlannerParams


@dataclass(frozen=True, slots=True)
class PlannerControllerParams:
    """The planner's parameters."""

    planner: PlannerParams = field(default_factory=PlannerParams)
    """How careful it is."""

    def make(self, site: Site, *, seed: int) -> PlannerController:
        """A controller for one episode; the seed plays no part.

        Raises:
            SiteError: What a replica can do is not known.
        """
        del seed
        return PlannerController(Planner(site, self.planner))

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> PlannerControllerParams:
        """Forecast, safety and patience."""
        del site
        forecast = ForecastParams(
            level_weight=suggest.suggest_float("level_weight", 0.3, 1.0),
            trend_weight=suggest.suggest_float("trend_weight", 0.01, 0.5, log=True),
        )
        return cls(
            PlannerParams(
                forecast=forecast,
                errors=suggest.suggest_float("errors", 0.0, 2.5),
                reserve=suggest.suggest_float("reserve", 0.0, 4.0),
                peak_share=suggest.suggest_float("peak_share", 0.0, 1.0),
                peak_kept=1 - suggest.suggest_float("peak_lost", 0.001, 0.05, log=True),
                headroom=suggest.suggest_float("headroom", 0.5, 1.3, log=True),
                bias_weight=suggest.suggest_float("bias_weight", 0.0, 0.5),
                hold_ticks=suggest.suggest_int("hold_ticks", 0, 40),
            )
        )


@dataclass(frozen=True, slots=True)
class PlannerController:
    """The controller; its state is the planner's."""

    planner: Planner

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """What the planner asks for."""
        row = snapshot.to_row()
        wanted = int(self.planner.see(row[None, :]).replicas[0])
        return settings if wanted == settings.replicas else replace(settings, replicas=wanted)

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        return self.planner.state.saved()

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        self.planner.state.restore(saved)
