"""The bridge's observation equals the environment's, row by row and bit by bit."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gatepilot.agents.baselines.planner.advisor import site_advisor
from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.deploy_bridge.sight import Sight, adopted
from gatepilot.envs.schema.observation import ObservationSpec
from gatepilot.envs.schema.snapshot import MetricsSnapshot

pytest.importorskip("numba")
from gatepilot.agents.scenario_site import scenario_site
from gatepilot.envs.batch import GatewayBatch
from gatepilot.envs.scenario import ControlSpec, load_scenario
from gatepilot.reward.documented import default_reward


@pytest.mark.parametrize(
    "spec",
    [
        ObservationSpec("extended", 2),
        ObservationSpec("documented"),
        ObservationSpec("advised"),
        ObservationSpec("advised", 3),
    ],
)
def test_the_bridge_shows_what_the_environment_shows(spec: ObservationSpec) -> None:
    scenario = replace(load_scenario("demo"), control=ControlSpec(episode_ticks=25))
    params = PlannerParams() if spec.is_advised else None
    batch, sight = (
        GatewayBatch(
            scenario,
            1,
            reward_fn=default_reward,
            observation=spec,
            advisor=site_advisor([scenario_site(scenario)], 1, params),
            split="validation",
            seed=3,
        ),
        Sight(spec, scenario.control.tick_s, site_advisor([scenario_site(scenario)], 1, params)),
    )
    rng = np.random.default_rng(0)
    shown = batch.reset()[0]
    for tick in range(25):
        snapshot = MetricsSnapshot.from_row(batch.seen[0])
        assert sight.pass_time(1e9 + tick * batch.tick_s, tick * batch.tick_s) == ()
        settings, notes = adopted(snapshot)
        assert notes == ()
        assert (settings.replicas, settings.threshold_steps) == (
            batch.replicas[0],
            batch.threshold_steps[0],
        )
        np.testing.assert_array_equal(sight.see(snapshot, settings), shown)
        shown = batch.step(rng.integers(0, 3, (1, 2))).observation[0]
    assert math.isfinite(shown.sum())
