"""The oracle's faults are those that the plant gets."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gatepilot.agents.evaluation import play_controllers
from gatepilot.agents.oracles.phases import EVERYWHERE, SINGLE, Phases, window_phases
from gatepilot.agents.oracles.plan import Plan
from gatepilot.agents.trial import Trial, prepare_trial
from gatepilot.envs.scenario import FaultSpec, Scenario
from gatepilot.envs.schema.fields import FIELD_INDEX
from gatepilot.envs.schema.settings import GatewaySettings
from gatepilot.envs.schema.snapshot import MetricsSnapshot
from gatepilot.envs.sim.faults import Fault

TICKS = 40


def trial_with(small: Scenario, *faults: FaultSpec) -> Trial:
    scenario = replace(
        small, faults=faults, gateway=replace(small.gateway, max_retries=0, threshold_steps=19)
    )
    return prepare_trial(scenario, split="test", ticks=TICKS, windows=4, seed=3)


def test_what_is_on_when() -> None:
    faults = (
        Fault("brown_out", 30.0, 45.0, 0.1),
        Fault("sick_replica", 40.0, 70.0, 0.1, 3.0),
        Fault("surge", 60.0, 75.0, factor=2.5),
    )
    edges = np.arange(6) * 15.0
    on = np.array([(f.start_s < edges + 15.0) & (f.end_s > edges) for f in faults])
    phases = Phases(faults, on)
    assert phases.names == (
        *("calm", "calm"),
        *("brown_out+sick_replica", "sick_replica"),
        *("sick_replica+surge", "calm"),
    )
    assert phases.count(SINGLE).tolist() == [0, 0, 1, 1, 1, 0]
    assert phases.count(EVERYWHERE).tolist() == [0, 0, 1, 0, 0, 0]
    assert phases.surge().tolist() == [1, 1, 1, 1, 2.5, 1]


def test_a_scenario_without_faults_is_calm(small: Scenario) -> None:
    trial = trial_with(small)
    assert set(window_phases(trial, trial.windows[0]).names) == {"calm"}


@pytest.mark.parametrize("random_onsets", [False, True])
def test_the_plant_fails_when_the_oracle_says(small: Scenario, *, random_onsets: bool) -> None:
    onset: dict[str, Any] = {"mean_interval_s": 200.0} if random_onsets else {"start_s": 150.0}
    trial = trial_with(small, FaultSpec("brown_out", 90.0, error_share=(0.9, 0.9), **onset))
    stay = Plan(np.full(TICKS, 6), np.full(TICKS, 19))
    outcomes = play_controllers(trial, [lambda _: stay.make()])[0]
    rates = outcomes.rows[..., FIELD_INDEX["error_rate"]]
    for window, rate in zip(trial.windows, rates, strict=True):
        on = window_phases(trial, window).count(EVERYWHERE) > 0
        failing = np.nan_to_num(rate) > 0
        # the error rate looks back over 60 s, four ticks
        recent = np.convolve(on, np.ones(5), "full")[:TICKS] > 0
        assert not failing[~recent].any()
        assert failing[on].mean() > 0.9


def test_a_plan_is_followed_and_then_kept() -> None:
    follower = Plan(np.array([2, 5]), np.array([3, 7])).make()
    now = GatewaySettings(1, 10, 99)
    seen = MetricsSnapshot(replicas_requested=1, breaker_threshold=0.5)
    asked = [follower.decide(seen, now) for _ in range(3)]
    assert asked == [
        GatewaySettings(2, 3, 99),
        GatewaySettings(5, 7, 99),
        GatewaySettings(5, 7, 99),
    ]
