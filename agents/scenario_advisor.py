"""The advisor of simulated gateways: the analytical planner, told what an operator would know."""

from __future__ import annotations

from ..envs.scenario import Scenario
from .baselines.planner.advisor import PlannerAdvisor
from .baselines.planner.params import PlannerParams
from .scenario_site import scenario_site


def scenario_advisor(
    scenario: Scenario,
    n: int,
    params: PlannerParams = PlannerParams(),  # noqa: B008  # frozen
) -> PlannerAdvisor:
    """Advises the gateways of a scenario.

    Args:
        scenario: Whose gateways.
        n: How many.
        params: How careful the planner is.
    """
    return PlannerAdvisor([scenario_site(scenario)], params, n)
