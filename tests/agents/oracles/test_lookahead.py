"""The look-ahead controller: what it plans it reaches, and nobody reaches more."""

from dataclasses import replace

import numpy as np
import pytest

from gatepilot.agents.baselines.fixed import FixedParams
from gatepilot.agents.baselines.registry import make_controller
from gatepilot.agents.episodes import Outcomes
from gatepilot.agents.evaluation import MakeController, play_controllers
from gatepilot.agents.oracles.foresight import play_hindsight
from gatepilot.agents.oracles.known_plans import (
    best_plans,
    constants,
    known_count,
    known_plans,
    replicas_that_kept,
)
from gatepilot.agents.oracles.lookahead import (
    Lookahead,
    lookahead_ticks,
    play_lookahead,
)
from gatepilot.agents.oracles.plan import Plan
from gatepilot.agents.oracles.search import LookaheadParams
from gatepilot.agents.trial import Trial, prepare_trial
from gatepilot.envs.scenario import FaultSpec, Scenario
from gatepilot.envs.schema.fields import FIELD_INDEX, FIELDS
from gatepilot.envs.sim.engine import compile_engine

pytestmark = pytest.mark.timeout(60, func_only=True)
TICKS = 24
NARROW = LookaheadParams(branches=64)
FAULTS = {
    "none": (),
    "a bad replica and brown-outs": (
        FaultSpec("replica_errors", 120.0, error_share=(0.2, 1.0), mean_interval_s=150.0),
        FaultSpec("brown_out", 60.0, error_share=(0.05, 0.15), mean_interval_s=200.0),
    ),
    "surges and failed starts": (
        FaultSpec("surge", 90.0, factor=(1.5, 2.5), mean_interval_s=150.0),
        FaultSpec("failed_start", 60.0, mean_interval_s=150.0),
    ),
    "everything that is measured": (
        FaultSpec("metrics_gap", 60.0, mean_interval_s=60.0),
        FaultSpec("hang", 40.0, mean_interval_s=150.0),
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    compile_engine()


def trial_of(small: Scenario, faults: str = "none", windows: int = 3) -> Trial:
    """A load that needs two to four replicas of six."""
    busy = replace(
        small,
        workload=replace(small.workload, rate_scale=2.0),
        cluster=replace(small.cluster, cold_start_s=45.0),
        faults=FAULTS[faults],
    )
    return prepare_trial(busy, split="test", ticks=TICKS, windows=windows, seed=4)


def makers_of(trial: Trial) -> list[MakeController]:
    """All plans that need no search."""
    return [
        lambda window, i=i: known_plans(trial, window)[i].make()  # type: ignore[misc]
        for i in range(known_count(trial))
    ]


@pytest.fixture(scope="module")
def searched(small: Scenario) -> tuple[Trial, Lookahead]:
    trial = trial_of(small)
    return trial, play_lookahead(trial, params=NARROW)


@pytest.mark.parametrize("faults", FAULTS)
def test_what_is_planned_is_what_is_played_and_no_one_gets_more(
    small: Scenario, faults: str
) -> None:
    trial = trial_of(small, faults)
    found = play_lookahead(trial, params=NARROW)
    np.testing.assert_array_equal(found.outcomes.returns, found.planned_returns)
    best = found.outcomes.returns + 1e-9
    assert (play_hindsight(trial).outcomes.returns <= best).all()

    def fixed(replicas: int, steps: int) -> MakeController:
        return lambda window: FixedParams(replicas, steps).make(trial.site, seed=window.seed)

    def controller(name: str) -> MakeController:
        return lambda window: make_controller(name, trial.site, seed=window.seed)

    rivals = [controller(name) for name in ("hpa", "hpa@unit", "always_max", "random")]
    rivals += [fixed(n, steps) for n in range(1, 7) for steps in (2, 10, 12, 19)]
    for outcomes in play_controllers(trial, rivals):
        assert (outcomes.returns <= best).all()


def test_it_does_not_only_pick_a_plan_that_is_known_anyway(
    searched: tuple[Trial, Lookahead],
) -> None:
    trial, found = searched
    known = np.stack([o.returns for o in play_controllers(trial, makers_of(trial))])
    assert (found.outcomes.returns >= known.max(axis=0)).all()
    assert found.outcomes.returns.mean() > known.max(axis=0).mean() + 0.1
    assert not found.is_known.all()


@pytest.mark.parametrize("faults", ["none", "a bad replica and brown-outs"])
def test_the_narrowest_search_is_not_below_what_guides_it(small: Scenario, faults: str) -> None:
    trial = trial_of(small, faults, windows=2)
    found = play_lookahead(trial, params=LookaheadParams(branches=2, guides=1, horizon=1))
    known = np.stack([o.returns for o in play_controllers(trial, makers_of(trial))])
    assert (found.outcomes.returns >= known.max(axis=0) - 1e-9).all()
    np.testing.assert_array_equal(found.outcomes.returns, found.planned_returns)


def test_what_one_round_finds_guides_the_next(small: Scenario) -> None:
    trial = trial_of(small, "surges and failed starts", windows=2)
    once, twice = (
        play_lookahead(trial, params=replace(NARROW, rounds=rounds)) for rounds in (1, 2)
    )
    assert (twice.outcomes.returns >= once.outcomes.returns - 1e-9).all()
    assert (twice.is_known <= once.is_known).all()


def test_constants_have_thresholds_only_where_faults_are(small: Scenario) -> None:
    quiet, faulty = trial_of(small), trial_of(small, "a bad replica and brown-outs")
    assert constants(quiet) == [(replicas, 10) for replicas in range(1, 7)]
    thresholds = (1, 2, 3, 4, 6, 8, 10, 14, 19)
    assert constants(faulty) == [(n, steps) for n in range(1, 7) for steps in thresholds]
    for trial in (quiet, faulty):
        assert len(known_plans(trial, trial.windows[0])) == known_count(trial)


def test_the_best_plans_are_unlike_and_come_again_where_there_are_few() -> None:
    plans = [Plan(np.array([n]), np.array([10])) for n in range(5)]
    returns = np.array([-3.0, 1.0, -2.0, 1.0, -9.0])
    ask = [int(plan.replicas[0]) for plan in best_plans(plans, returns, 3)]
    assert ask == [1, 2, 0]
    again = [int(plan.replicas[0]) for plan in best_plans(plans[:2], returns[:2], 5)]
    assert again == [1, 0, 1, 0, 1]


def test_windows_are_searched_alone_whatever_is_beside_them(
    searched: tuple[Trial, Lookahead],
) -> None:
    trial, found = searched
    alone = play_lookahead(trial.keeping([False, True, False]), params=NARROW)
    assert alone.outcomes.returns[0] == found.outcomes.returns[1]
    np.testing.assert_array_equal(alone.plans[0].replicas, found.plans[1].replicas)


@pytest.mark.slow
def test_windows_that_do_not_fit_together_are_searched_in_turns(small: Scenario) -> None:
    trial = trial_of(small).keeping([True, True, False])
    wide = LookaheadParams(branches=500)
    together = play_lookahead(trial, params=wide)
    for i in range(2):
        alone = play_lookahead(trial.keeping([i == k for k in range(2)]), params=wide)
        assert alone.outcomes.returns[0] == together.outcomes.returns[i]


def test_a_short_horizon_sees_a_ramp_too_late(small: Scenario) -> None:
    """What is settled before an order could have been ready cannot be mended any more."""
    slow = replace(trial_of(small).scenario, cluster=replace(small.cluster, cold_start_s=120.0))
    trial = prepare_trial(slow, split="test", ticks=40, windows=4, seed=4)
    returns = {
        horizon: play_lookahead(
            trial, params=LookaheadParams(horizon=horizon, branches=48)
        ).planned_returns.mean()
        for horizon in (1, 16)
    }
    assert returns[1] <= returns[16] + 1e-9


def test_with_a_longer_step_it_moves_at_every_so_manieth_tick_alone(small: Scenario) -> None:
    """From where it leaves the plan that guides it, that is."""
    trial = trial_of(small)
    found = play_lookahead(trial, params=replace(NARROW, step=4))
    for window, plan in zip(trial.windows, found.plans, strict=True):
        known = np.stack([known.replicas for known in known_plans(trial, window)])
        differs = np.pad(known != plan.replicas, ((0, 0), (0, 1)), constant_values=True)
        left = differs.argmax(axis=1).max()
        moved = 1 + np.flatnonzero(np.diff(plan.replicas))
        assert (moved[moved > left] % 4 == 0).all()
    np.testing.assert_array_equal(found.outcomes.returns, found.planned_returns)


def test_thresholds_move_only_where_a_fault_is_on(small: Scenario) -> None:
    quiet = play_lookahead(trial_of(small), params=NARROW)
    assert all((plan.threshold_steps == 10).all() for plan in quiet.plans)


def test_every_tick_is_told(small: Scenario) -> None:
    trial, told = trial_of(small, windows=2), list[int]()
    play_lookahead(trial, told.append, NARROW)
    assert sum(told) == lookahead_ticks(trial, NARROW)


def test_a_search_of_nothing_is_refused() -> None:
    for name in ("horizon", "step", "branches", "guides", "rounds"):
        with pytest.raises(ValueError, match=f"{name} is 0, expected 1 or more"):
            replace(LookaheadParams(), **{name: 0})  # type: ignore[arg-type]


def outcomes_of(ready: list[int], violations: list[bool]) -> Outcomes:
    rows = np.zeros((1, len(ready), len(FIELDS)), np.float32)
    rows[0, :, FIELD_INDEX["replicas_ready"]] = ready
    one = np.zeros(1)
    return Outcomes(
        *(one,) * 6, np.zeros(1, np.int64), rows=rows, violations=np.array([violations])
    )


def test_the_fewest_that_kept_a_tick_are_the_most_of_the_window_behind_it() -> None:
    many = outcomes_of([4, 4, 4, 4, 4, 4], [False] * 5 + [True])
    few = outcomes_of([5, 2, 2, 2, 2, 2], [False, False, False, False, True, True])
    assert replicas_that_kept([many, few], 1).tolist() == [[4, 2, 2, 2, 4, 0]]
    assert replicas_that_kept([many, few], 3).tolist() == [[4, 4, 4, 2, 4, 0]]
