"""The analytical planner as a controller of one gateway.

Formula: replicas and threshold of `Planner.see(row)` (`planner`), at once and however far; where it
asks for no threshold, that in force stays. Its regimes are the planner's. Version: ours, no
upstream; `baselines.md`, 15. Its defaults were chosen on training hours of the suite together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from ....envs.schema.settings import GatewaySettings
from ....envs.schema.snapshot import MetricsSnapshot
from ..site import Site, Suggest
from .breaker import BreakerParams
from .forecast import ForecastParams
from .params import PlannerParams
from .planner import Planner


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
        return PlannerController(Planner([site], self.planner))

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> PlannerControllerParams:
        """Forecast, safety and patience."""
        forecast = ForecastParams(
            level_weight=suggest.suggest_float("level_weight", 0.3, 1.0),
            error_prior=suggest.suggest_float("error_prior", 0.0, 0.6),
        )
        breaker = BreakerParams(
            failing_steps=suggest.suggest_int("failing_steps", 1, 4),
            sound_steps=suggest.suggest_int("sound_steps", 3, 10),
            spread=suggest.suggest_float("spread", 0.03, 0.12),
        )
        return cls(
            PlannerParams(
                forecast=forecast,
                breaker=breaker,
                violation_weight=suggest.suggest_float("violation_weight", 0.1, 1.0, log=True),
                errors=suggest.suggest_float("errors", 0.3, 1.5),
                capacity_error=suggest.suggest_float("capacity_error", 0.05, 0.3, log=True),
                reserve=suggest.suggest_int("reserve", 0, 3),
                floor_replicas=suggest.suggest_int(
                    "floor_replicas", site.limits.min_replicas, site.limits.max_replicas, log=True
                ),
                peak_share=suggest.suggest_float("peak_share", 0.0, 1.0),
                headroom=suggest.suggest_float("headroom", 0.8, 1.5, log=True),
                bias_weight=suggest.suggest_float("bias_weight", 0.0, 0.5),
                hold_ticks=suggest.suggest_int("hold_ticks", 2, 40),
            )
        )


@dataclass(frozen=True, slots=True)
class PlannerController:
    """The controller; its state is the planner's."""

    planner: Planner

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """What the planner asks for."""
        plan = self.planner.see(snapshot.to_row()[None, :])
        steps = float(plan.threshold_steps[0])
        return replace(
            settings,
            replicas=int(plan.replicas[0]),
            threshold_steps=settings.threshold_steps if math.isnan(steps) else int(steps),
        )

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        return self.planner.saved()

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        self.planner.restore(saved)
