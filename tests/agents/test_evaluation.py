"""Every policy meets the same windows, and what is reported is what happened on the plant."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from gatepilot.agents.baselines.registry import make_controller
from gatepilot.agents.contestant import PolicyError
from gatepilot.agents.contestants import parse_contestant
from gatepilot.agents.episodes import Outcomes, episodes_of
from gatepilot.agents.evaluation import (
    MakeController,
    play_controllers,
    play_policy,
    unkeepable,
)
from gatepilot.agents.trial import Trial, load_trial, plan_trial, prepare_trial
from gatepilot.agents.windows import Window, WindowError
from gatepilot.envs.scenario import FaultSpec, Scenario, load_scenario
from gatepilot.envs.schema.fields import FIELD_INDEX
from gatepilot.envs.schema.observation import ObservationSpec
from gatepilot.envs.schema.settings import GatewaySettings
from gatepilot.envs.schema.snapshot import MetricsSnapshot

TICKS = 30


@pytest.fixture(scope="module")
def trial(small: Scenario) -> Trial:
    return prepare_trial(small, split="test", ticks=TICKS, windows=4, seed=1)


def maker(trial: Trial, name: str) -> MakeController:
    return lambda window: make_controller(name, trial.site, seed=window.seed)


def equal(first: Outcomes, second: Outcomes) -> bool:
    return all(
        np.array_equal(getattr(first, name), getattr(second, name), equal_nan=True)
        for name in ("returns", "rows", "violations", "replica_hours", "ttft_p95_s", "changes")
    )


@dataclass
class NoChange:
    """A learned policy that has learned to do nothing."""

    def act(self, observation: np.ndarray) -> np.ndarray:
        return np.ones((len(observation), 2), np.int64)


def test_equal_seeds_give_equal_outcomes_and_others_do_not(small: Scenario, trial: Trial) -> None:
    again = prepare_trial(small, split="test", ticks=TICKS, windows=4, seed=1)
    other = prepare_trial(small, split="test", ticks=TICKS, windows=4, seed=2)
    played = [play_controllers(t, [maker(t, "random")])[0] for t in (trial, again, other)]
    assert equal(played[0], played[1])
    assert not equal(played[0], played[2])


def test_a_policy_is_the_same_alone_and_beside_others(trial: Trial) -> None:
    alone = play_controllers(trial, [maker(trial, "hpa")])[0]
    beside = play_controllers(trial, [maker(trial, name) for name in ("random", "hpa")])[1]
    assert equal(alone, beside)


def test_a_learned_policy_and_a_rule_that_do_the_same_get_the_same(trial: Trial) -> None:
    rule = play_controllers(trial, [maker(trial, "do_nothing")])[0]
    learned = play_policy(trial, NoChange(), ObservationSpec("documented", 2))
    assert equal(rule, learned)


def test_every_policy_meets_the_same_arrivals(trial: Trial) -> None:
    column = FIELD_INDEX["request_rate_rps"]
    low, high = play_controllers(trial, [maker(trial, n) for n in ("always_shed", "always_max")])
    np.testing.assert_array_equal(low.rows[..., column], high.rows[..., column])


def test_the_return_is_the_documented_reward_worked_out_from_the_rows(trial: Trial) -> None:
    outcomes = play_controllers(trial, [maker(trial, "random")])[0]
    rows = outcomes.rows.astype(float)
    requested = rows[..., FIELD_INDEX["replicas_requested"]]
    billed = requested + rows[..., FIELD_INDEX["replicas_draining"]]
    start = trial.scenario.cluster.start_replicas
    before = np.concatenate([np.full((len(requested), 1), start), requested[:, :-1]], axis=1)
    # A step beyond a bound is chosen, too, but changes nothing: a margin for that.
    smooth = np.where(requested == before, 0.1, -0.05)
    expected = (-0.03 * billed - 5.0 * outcomes.violations + smooth).sum(axis=1)
    at_bound = (requested == 1) | (requested == trial.limits.max_replicas)
    slack = 0.15 * at_bound.sum(axis=1)
    assert (outcomes.returns <= expected + 1e-3).all()
    assert (outcomes.returns >= expected - slack - 1e-3).all()


def test_figures_of_turning_everything_away(trial: Trial) -> None:
    outcomes = play_controllers(trial, [maker(trial, "always_shed")])[0]
    assert (outcomes.shed_rate == 1).all()
    assert (outcomes.error_rate > 0.9).all()  # what the warm-up left behind is still answered
    assert (outcomes.violation_rate == 1).all()
    assert (outcomes.returns < -4.9 * TICKS).all()


def test_replica_hours_of_a_constant_are_its_number_times_the_time(trial: Trial) -> None:
    outcomes = play_controllers(trial, [maker(trial, "do_nothing")])[0]
    hours = trial.scenario.cluster.start_replicas * TICKS * 15 / 3600
    np.testing.assert_allclose(outcomes.replica_hours, hours)
    assert (outcomes.changes == 0).all()


def test_changes_count_ticks_at_which_something_was_set(trial: Trial) -> None:
    class Toggle:
        def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
            return replace(settings, threshold_steps=21 - settings.threshold_steps)

    outcomes = play_controllers(trial, [lambda window: Toggle()])[0]
    assert (outcomes.changes == TICKS).all()


def test_the_p95_of_an_episode_lies_among_the_p95s_of_its_windows(trial: Trial) -> None:
    outcomes = play_controllers(trial, [maker(trial, "do_nothing")])[0]
    p95_s = outcomes.rows[..., FIELD_INDEX["ttft_p95_s"]]
    assert (outcomes.ttft_p95_s <= p95_s.max(axis=1) * 1.01).all()
    assert (outcomes.ttft_p95_s >= p95_s.min(axis=1) * 0.99).all()


def test_without_first_tokens_all_else_is_the_same(trial: Trial) -> None:
    whole = play_controllers(trial, [maker(trial, "random")])[0]
    quick = play_controllers(trial, [maker(trial, "random")], with_ttft=False)[0]
    assert np.isnan(quick.ttft_p95_s).all()
    assert equal(replace(quick, ttft_p95_s=whole.ttft_p95_s), whole)


def test_threads_change_nothing(small: Scenario, trial: Trial) -> None:
    planned = plan_trial(small, split="test", ticks=TICKS, windows=4, seed=1)
    alone = load_trial(planned, None, threads=1)
    assert equal(*(play_controllers(t, [maker(t, "random")])[0] for t in (trial, alone)))


def test_windows_that_the_most_replicas_cannot_keep_are_found(small: Scenario) -> None:
    cluster = replace(small.cluster, max_replicas=1, initial_replicas=1)
    faults = (FaultSpec("brown_out", error_share=(0.9, 0.9), duration_s=450.0, start_s=0.0),)
    for scenario, kept in (
        (replace(small, faults=faults), True),  # faults are no reason
        (replace(small, cluster=cluster), False),
    ):
        trial = prepare_trial(scenario, split="test", ticks=TICKS, windows=3, seed=1)
        share = unkeepable(trial)
        assert ((share == 0) == kept).all()


def test_a_trial_keeps_the_windows_it_is_told_to(trial: Trial) -> None:
    half = trial.keeping([True, False, False, True])
    assert [window.index for window in half.windows] == [0, 3]
    whole = play_controllers(trial, [maker(trial, "hpa")])[0]
    part = play_controllers(half, [maker(half, "hpa")])[0]
    np.testing.assert_array_equal(part.returns, whole.returns[[0, 3]])


def test_rounds_draw_other_traffic_for_the_same_place(small: Scenario) -> None:
    trial = prepare_trial(small, split="test", ticks=600, windows=2, seed=1)
    assert (trial.plan.fitting, trial.plan.rounds) == (1, 2)
    first, second = (trial.requests[window.round] for window in trial.windows)
    assert len(first) != len(second)
    returns = play_controllers(trial, [maker(trial, "random")])[0].returns
    assert returns[0] != returns[1]


def test_a_range_that_is_too_short_is_named_with_what_would_fit(small: Scenario) -> None:
    message = (
        r"servegen-tenants, split validation \(36000-38400 s\) holds 2400 s, an episode takes "
        r"3000 s \(200 ticks of 15 s\): at most 160 ticks fit, or evaluate the whole range"
    )
    with pytest.raises(WindowError, match=message):
        prepare_trial(small, split="validation", ticks=200)


def test_episodes_carry_the_window_and_no_nan(trial: Trial) -> None:
    outcomes = play_controllers(trial, [maker(trial, "always_max")])[0]
    silent = replace(outcomes, ttft_p95_s=np.full(4, np.nan))
    episodes = episodes_of(silent, trial, policy="always_max", train_seed=None)
    assert [e.window for e in episodes] == [0, 1, 2, 3]
    assert [e.seed for e in episodes] == [w.seed for w in trial.windows]
    assert all(e.ttft_p95_s is None and e.scenario == "small" for e in episodes)


def no_run(run_id: str) -> None:
    raise AssertionError(run_id)


@pytest.mark.parametrize(
    "text", ["hpaa", "", "hpa@", "fixed:", "fixed:x", "best_fixed@unit", "./folder", "@unit"]
)
def test_an_unknown_policy_is_refused_with_what_is_known(text: str) -> None:
    with pytest.raises(PolicyError, match="expected a controller's name") as caught:
        parse_contestant(text, no_run)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["run:", "run:a,", "run:a,a"])
def test_a_malformed_list_of_runs_is_refused(text: str) -> None:
    with pytest.raises(PolicyError, match="expected run:ID"):
        parse_contestant(text, no_run)  # type: ignore[arg-type]


def test_a_constant_outside_the_limits_is_refused(trial: Trial) -> None:
    with pytest.raises(PolicyError, match="fixed:40: small allows 1 to 6 replicas"):
        parse_contestant("fixed:40", no_run).check(trial)  # type: ignore[arg-type]


def test_the_traffic_of_a_trace_comes_from_its_own_split(traces_dir: Path) -> None:
    trial = prepare_trial(
        load_scenario("azure70b"), split="test", windows=3, seed=0, traces_dir=traces_dir
    )
    assert trial.plan.rounds == 3
    span_s = trial.scenario.split_range("test")[1] - trial.scenario.split_range("test")[0]
    assert all(requests.span_s == span_s for requests in trial.requests)
    assert isinstance(trial.windows[0], Window)
