"""The planner's threshold: opposite cures for faults that fail at the same rate."""

from dataclasses import replace

import numpy as np
import pytest

from gatepilot.agents.baselines.planner.breaker import BreakerParams, threshold_steps
from gatepilot.agents.baselines.planner.controller import PlannerController
from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.agents.baselines.planner.planner import Planner
from gatepilot.agents.baselines.planner.table import table_of
from gatepilot.envs.schema.settings import GatewaySettings

from .test_plain_planner import SITE, rows_of, snapshot

PARAMS = BreakerParams(failing_steps=3, sound_steps=12, spread=0.1)


def test_one_that_fails_alone_is_told_from_all_that_fail_alike() -> None:
    rows = rows_of(
        *(
            snapshot(error_rate=0.1, replica_error_spread=spread)
            for spread in (0.0, 0.05, 0.1, 0.9, None)
        )
    )
    found = threshold_steps(rows, table_of([PARAMS] * 5))
    np.testing.assert_array_equal(found, [12, 12, 3, 3, np.nan])


def test_a_threshold_that_nothing_is_known_about_stays() -> None:
    params = replace(PlannerParams(), breaker=PARAMS)
    controller = PlannerController(Planner([SITE], params))
    looks = [snapshot(replica_error_spread=spread) for spread in (0.5, None, 0.0)]
    set_to = [controller.decide(look, GatewaySettings(4, 7)) for look in looks]
    assert [settings.threshold_steps for settings in set_to] == [3, 7, 12]


@pytest.mark.parametrize(
    ("name", "value"), [("failing_steps", 0), ("sound_steps", 20), ("spread", 0.0), ("spread", 1.1)]
)
def test_what_no_gateway_can_be_set_to_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value}, expected"):
        replace(BreakerParams(), **{name: value})  # type: ignore[arg-type]
