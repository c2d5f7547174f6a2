"""Hindsight is as good as its best plan, and a schedule as good as its best constant."""

from dataclasses import replace

import numpy as np
import pytest

from gatepilot.agents.baselines.fixed import FixedParams
from gatepilot.agents.evaluation import MakeController, play_controllers
from gatepilot.agents.oracles.foresight import COURSES, plan_count, play_hindsight
from gatepilot.agents.oracles.schedules import STEPS, ThresholdStudy, halves
from gatepilot.agents.trial import Trial, prepare_trial
from gatepilot.envs.scenario import FaultSpec, Scenario, Splits, WorkloadSpec

TICKS = 24
SICK = FaultSpec("sick_replica", 150.0, start_s=30.0, error_share=(0.1, 0.1), factor=(4.0, 4.0))
BROWN_OUT = FaultSpec("brown_out", 150.0, start_s=210.0, error_share=(0.1, 0.1))


@pytest.fixture(scope="module")
def busy(small: Scenario) -> Scenario:
    """An even load that needs five replicas of six, taken in turns."""
    return replace(
        small,
        workload=WorkloadSpec(model="azure-conv-2023", rate_scale=3.0, to_s=30_000.0),
        splits=Splits(),
        cluster=replace(small.cluster, min_replicas=6, max_replicas=6, cold_start_s=30.0),
        gateway=replace(small.gateway, router="round_robin"),
    )


def fixed(trial: Trial, replicas: int, steps: int) -> MakeController:
    return lambda window: FixedParams(replicas, steps).make(trial.site, seed=0)


def test_hindsight_is_cheaper_than_all_replicas_and_breaks_no_more(small: Scenario) -> None:
    trial = prepare_trial(small, split="test", ticks=TICKS, windows=3, seed=1)
    most = trial.limits.max_replicas
    everything = play_controllers(trial, [fixed(trial, most, 10)])[0]
    played: list[int] = []
    found = play_hindsight(trial, played.append)
    assert (found.outcomes.violations.sum(1) <= everything.violations.sum(1)).all()
    assert found.outcomes.replica_hours.mean() < everything.replica_hours.mean()
    assert len(found.choices) == 3
    assert sum(played) == plan_count(trial) * 3 * TICKS


def test_hindsight_knows_which_cure_helps(busy: Scenario) -> None:
    trial = prepare_trial(
        replace(busy, faults=(SICK, BROWN_OUT)), split="test", ticks=TICKS, windows=1, seed=1
    )
    found = play_hindsight(trial)
    for steps in (1, 10, 19):
        constant = play_controllers(trial, [fixed(trial, 6, steps)])[0]
        assert found.outcomes.violations.sum() <= constant.violations.sum()
    assert all(choice.split("threshold ")[1] in COURSES for choice in found.choices)


def test_one_half_chooses_and_the_other_is_scored(busy: Scenario) -> None:
    trial = prepare_trial(busy, split="test", ticks=TICKS, windows=5, seed=1)
    choosing, scoring = ({w.index for w in half.windows} for half in halves(trial))
    assert (choosing, scoring) == ({0, 2, 4}, {1, 3})


def test_opposite_cures_want_a_schedule(busy: Scenario) -> None:
    trial = prepare_trial(
        replace(busy, faults=(SICK, BROWN_OUT)), split="test", ticks=TICKS, windows=2, seed=1
    )
    found = ThresholdStudy(trial).headroom()
    assert set(found.phases) == {"calm", "sick_replica", "brown_out"}
    assert sum(found.phases.values()) == pytest.approx(1.0)
    low, high = (found.schedule.threshold_steps[phase] for phase in ("sick_replica", "brown_out"))
    assert low < high
    assert found.schedule_outcomes.returns.mean() > found.constant_outcomes.returns.mean()
    assert set(found.by_threshold) == set(STEPS)
    steps = set(found.constant.threshold_steps.values())
    assert len(steps) == 1
    again = play_controllers(halves(trial)[1], [fixed(trial, 6, steps.pop())])[0]
    assert np.array_equal(again.returns, found.constant_outcomes.returns)
