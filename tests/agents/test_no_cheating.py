"""Tricks must not pay: to shed everything, to hold the breaker most sensitive, to starve.

`python benchmarks/bars.py no_cheating` looks at the whole suite and at tuned rivals.
"""

from dataclasses import replace

import numpy as np
import pytest

from gatepilot.agents.baselines.fixed import FixedParams
from gatepilot.agents.baselines.registry import ControllerParams, make_controller
from gatepilot.agents.evaluation import MakeController, play_controllers
from gatepilot.agents.trial import Trial, prepare_trial
from gatepilot.envs.scenario import FaultSpec, Scenario, load_scenario

TRICKS = ("always_open", "always_shed")
HONEST = ("do_nothing", "always_max")
BAD_REPLICA = FaultSpec("replica_errors", 180.0, error_share=(0.2, 1.0), mean_interval_s=300.0)
BROWN_OUT = FaultSpec("brown_out", 120.0, error_share=(0.05, 0.15), mean_interval_s=400.0)
FAULTS = {
    "none": (),
    "a bad replica": (BAD_REPLICA,),
    "brown-outs": (BROWN_OUT,),
    "both": (BAD_REPLICA, BROWN_OUT),
}


@pytest.fixture(scope="module")
def busy(small: Scenario) -> Scenario:
    """Load that needs five replicas of eight."""
    return replace(
        small,
        workload=replace(small.workload, rate_scale=2.0),
        cluster=replace(small.cluster, max_replicas=8, cold_start_s=30.0),
    )


def maker(trial: Trial, name: str, params: ControllerParams | None = None) -> MakeController:
    return lambda window: make_controller(name, trial.site, params=params, seed=window.seed)


def returns(scenario: Scenario, faults: tuple[FaultSpec, ...]) -> dict[str, float]:
    """Mean documented return of tricks, honest rules and the best constant."""
    trial = prepare_trial(
        replace(scenario, faults=faults), split="test", ticks=40, windows=32, seed=1
    )
    counts = range(1, trial.limits.max_replicas + 1)
    makers = [maker(trial, name) for name in (*TRICKS, *HONEST)]
    makers += [maker(trial, "fixed", FixedParams(count)) for count in counts]
    means = [float(outcomes.returns.mean()) for outcomes in play_controllers(trial, makers)]
    rules = len(TRICKS) + len(HONEST)
    best = int(np.argmax(means[rules:]))
    assert counts[best] >= 5
    return dict(zip((*TRICKS, *HONEST), means, strict=False)) | {"best_fixed": means[rules + best]}


@pytest.mark.parametrize("faults", FAULTS)
def test_no_trick_beats_the_best_constant(busy: Scenario, faults: str) -> None:
    found = returns(busy, FAULTS[faults])
    # where nothing fails the threshold changes nothing, and the start may be the best constant
    most = found["best_fixed"] - (0.0 if faults == "none" else 0.5)
    assert all(found[trick] <= most for trick in TRICKS)
    assert min(found, key=lambda name: found[name]) == "always_shed"
    if BROWN_OUT in FAULTS[faults]:
        assert set(sorted(found, key=lambda name: found[name])[:2]) == set(TRICKS)


@pytest.mark.parametrize("name", ["bad_replica", "same_rate_opposite_cure"])
def test_no_trick_beats_a_decent_constant_in_a_shipped_scenario(name: str) -> None:
    trial = prepare_trial(load_scenario(name), split="test", ticks=40, windows=12, seed=1)
    fewest = FixedParams(trial.limits.min_replicas, trial.scenario.gateway.threshold_steps)
    tricks = [*(maker(trial, trick) for trick in TRICKS), maker(trial, "fixed", fewest)]
    decent = [
        maker(trial, "fixed", FixedParams(count, steps))
        for count in (5, 6, 7, 8)
        for steps in (2, 4)
    ]
    played = play_controllers(trial, tricks + decent)
    means = [float(outcomes.returns.mean()) for outcomes in played]
    assert max(means[: len(tricks)]) <= max(means[len(tricks) :])
