"""The exact programme finds what trying everything from the start finds, and the look-ahead too."""

from itertools import product

import numpy as np
import pytest

from gatepilot.agents.episodes import Outcomes
from gatepilot.agents.evaluation import play_controllers
from gatepilot.agents.oracles.exact import Exact, solve_exactly
from gatepilot.agents.oracles.lookahead import play_lookahead
from gatepilot.agents.oracles.plan import Plan
from gatepilot.agents.oracles.search import LookaheadParams
from gatepilot.agents.oracles.small_setups import SMALL_SETUPS
from gatepilot.agents.trial import Trial, prepare_trial
from gatepilot.envs.scenario import Scenario
from gatepilot.envs.sim.engine import compile_engine

pytestmark = pytest.mark.timeout(10, func_only=True)


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    compile_engine()


def played(trial: Trial, plans: list[Plan]) -> list[Outcomes]:
    makers = [lambda _, plan=plan: plan.make() for plan in plans]
    return play_controllers(trial, makers)


def brute_force(trial: Trial, thresholds: tuple[int, ...]) -> np.ndarray:
    """The return of every course of settings, each played from the reset on, nothing branched."""
    limits = trial.limits
    choices = list(product(range(limits.min_replicas, limits.max_replicas + 1), thresholds))
    plans = [Plan(*np.array(course, np.int64).T) for course in product(choices, repeat=trial.ticks)]
    return np.array([outcomes.returns[0] for outcomes in played(trial, plans)])


@pytest.mark.parametrize(
    ("name", "ticks", "seed"),
    [("ramp", 6, 1), ("ramp", 5, 2), ("burst", 6, 1), ("lull", 5, 3), ("six to eight", 5, 1)],
)
def test_the_exact_programme_agrees_with_every_course_played_from_the_start(
    name: str, ticks: int, seed: int
) -> None:
    trial = SMALL_SETUPS[name].trial(ticks, seed)
    returns = brute_force(trial, (10,))
    assert len(returns) == 3**ticks
    exact = solve_exactly(trial)
    assert exact.best == pytest.approx(returns.max(), abs=1e-9)
    assert exact.worst == pytest.approx(returns.min(), abs=1e-9)
    assert exact.best > exact.worst


@pytest.mark.parametrize("name", ["a bad replica", "opposite cures"])
def test_it_agrees_where_thresholds_are_chosen_and_states_are_merged(name: str) -> None:
    setup, ticks = SMALL_SETUPS[name], 3
    trial = setup.trial(ticks)
    returns = brute_force(trial, setup.threshold_steps)
    assert len(returns) == 9**ticks
    exact = solve_exactly(trial, setup.threshold_steps)
    assert exact.best == pytest.approx(returns.max(), abs=1e-9)
    assert exact.worst == pytest.approx(returns.min(), abs=1e-9)
    assert exact.states < 1 + 9 + 81


@pytest.mark.parametrize("name", SMALL_SETUPS)
def test_its_plan_reaches_what_it_promises_and_the_look_ahead_comes_near(name: str) -> None:
    setup = SMALL_SETUPS[name]
    trial = setup.trial(5)
    exact = solve_exactly(trial, setup.threshold_steps)
    assert played(trial, [exact.plan])[0].returns[0] == pytest.approx(exact.best, abs=1e-9)
    params = LookaheadParams(branches=128, threshold_steps=setup.threshold_steps)
    found = play_lookahead(trial, params=params).outcomes.returns[0]
    assert exact.best - 0.03 * (exact.best - exact.worst) <= found <= exact.best + 1e-9


@pytest.mark.slow
@pytest.mark.timeout(180, func_only=True)
@pytest.mark.parametrize("name", SMALL_SETUPS)
def test_in_its_full_length_the_look_ahead_is_within_three_percent(name: str) -> None:
    setup = SMALL_SETUPS[name]
    exact = solve_exactly(setup.trial(), setup.threshold_steps)
    params = LookaheadParams(threshold_steps=setup.threshold_steps)
    found = play_lookahead(setup.trial(), params=params).outcomes.returns[0]
    allowed = 0.03 * min(abs(exact.best), exact.best - exact.worst)
    assert exact.best - allowed <= found <= exact.best + 1e-9


def test_a_choice_that_pays_later_is_found() -> None:
    """The ramp is met only if replicas are ordered before it; what comes first is a cost alone."""
    trial = SMALL_SETUPS["ramp"].trial(7)
    exact = solve_exactly(trial)
    rates = np.array(SMALL_SETUPS["ramp"].rates_rps)
    first_order = int(np.argmax(exact.plan.replicas > 1))
    assert rates[first_order] < 12  # one replica is still enough
    late = exact.plan.replicas.copy()
    late[first_order : first_order + 2] = 1
    outcomes = played(trial, [exact.plan, Plan(late, exact.plan.threshold_steps)])
    assert outcomes[0].violations.sum() == 0 < outcomes[1].violations.sum()


def test_one_window_is_solved_not_two(small: Scenario) -> None:
    two = prepare_trial(small, split="test", ticks=3, windows=2, seed=1)
    with pytest.raises(ValueError, match="2 windows, expected 1"):
        solve_exactly(two)


def test_what_is_told_of_progress_are_the_ticks_of_every_state() -> None:
    told: list[int] = []
    exact: Exact = solve_exactly(SMALL_SETUPS["burst"].trial(4), progress=told.append)
    assert sum(told) == 3 * exact.states
