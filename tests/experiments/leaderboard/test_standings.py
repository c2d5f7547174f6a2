"""Tables against figures worked out by hand; the sweep over start-up times."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from gatepilot.agents.contestants import Learned
from gatepilot.agents.episodes import Episode
from gatepilot.agents.statistics import compare
from gatepilot.agents.trial import plan_trial
from gatepilot.envs.scenario import load_scenario
from gatepilot.experiments.cells import Cell
from gatepilot.experiments.leaderboard.frozen import compared
from gatepilot.experiments.leaderboard.spec import LeaderboardSpec
from gatepilot.experiments.leaderboard.standings import (
    Standing,
    Steps,
    standings_of,
    steps_of,
)
from gatepilot.experiments.leaderboard.sweep import sweeps_of
from gatepilot.experiments.named_contestants import named_contestant

Returns: TypeAlias = Sequence[float] | NDArray[Any]
POLICIES = ("rival", "x", "x@unit", "bound", "floor")
STEPS: dict[str, Steps] = {
    "rival": "native", "x": "native", "x@unit": "unit", "bound": "bound", "floor": "native",
}  # fmt: skip
SPEC = LeaderboardSpec("made up", "", POLICIES, "rival", "bound", "floor", 8, suite="quick")


def cell(
    policy: str, scenario: str, returns: Returns, seeds: Sequence[int | None] = (None,)
) -> Cell:
    """A cell whose other figures follow from the returns, so that they can be told apart."""
    windows = len(returns) // len(seeds)
    episodes = tuple(
        Episode(policy, seed, scenario, i, 7, value, -value / 100, 2.0 - value, 0.0, 0.0, None, 3)
        for seed, part in zip(seeds, np.reshape(returns, (len(seeds), windows)), strict=True)
        for i, value in enumerate(part.tolist())
    )
    return Cell(policy, scenario, (0.0,) * windows, {}, None, episodes, "0")


def cells(scenario: str, returns: Mapping[str, Returns]) -> list[Cell]:
    return [cell(policy, scenario, returns[policy]) for policy in POLICIES]


@pytest.fixture(scope="module")
def made_up() -> list[Cell]:
    """In `a` x beats its rival by 1 in every window; in `b`, of 4 windows, it loses by 3."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(-20, 5, 8), rng.normal(-40, 5, 4)
    return [
        *cells("a", {"rival": a, "x": a + 1, "x@unit": a + 1 + (-1) ** np.arange(8) * 9.0,
                     "bound": a + 4, "floor": a - 6}),
        *cells("b", {"rival": b, "x": b - 3, "x@unit": b - 3, "bound": b + 2, "floor": b - 8}),
    ]  # fmt: skip


def by_name(rows: Sequence[Standing]) -> dict[str, Standing]:
    return {row.policy: row for row in rows}


def test_figures_over_the_suite_are_means_of_means(made_up: list[Cell]) -> None:
    found = standings_of(SPEC, STEPS, made_up)
    assert [row.policy for row in found.suite] == list(POLICIES)
    mean = {
        (one.policy, one.scenario): float(np.mean([e.documented_return for e in one.episodes]))
        for one in made_up
    }
    rows = by_name(found.suite)
    for policy, row in rows.items():
        expected = (mean[policy, "a"] + mean[policy, "b"]) / 2
        assert row.return_mean == pytest.approx(expected, abs=1e-6)
        assert row.violation_rate == pytest.approx(-expected / 100, abs=1e-6)
        assert row.replica_hours == pytest.approx(2 - expected, abs=1e-6)
        assert row.changes == 3
        assert row.return_ci95 is not None
        assert row.return_ci95[0] < row.return_mean < row.return_ci95[1]
    # x: 1 above its rival in a, 3 below in b; the bound 4 and 2 above; the floor 6 and 8 below.
    assert rows["x"].difference == pytest.approx((1 - 3) / 2)
    assert rows["x"].difference_ci95 == pytest.approx((-1.0, -1.0))
    assert rows["x"].gap == pytest.approx((3 + 5) / 2)
    assert rows["x"].gap_share == pytest.approx((3 + 5) / (10 + 10))
    assert (rows["bound"].gap, rows["bound"].gap_share) == (0, 0)
    assert rows["floor"].gap_share == 1
    assert rows["rival"].difference == 0
    assert [row.steps for row in found.suite] == list(STEPS.values())


def test_scenarios_are_won_lost_or_open(made_up: list[Cell]) -> None:
    found = standings_of(SPEC, STEPS, made_up)
    a, b, suite = (by_name(rows) for rows in (*found.scenarios.values(), found.suite))
    assert a["x"].verdict == "win"
    assert a["x"].difference_ci95 == pytest.approx((1.0, 1.0))
    assert a["x@unit"].verdict == "undecided"
    assert b["x"].verdict == "too few windows"
    assert (suite["x"].wins, suite["x"].losses, suite["x"].undecided) == (1, 0, 1)
    assert (suite["bound"].wins, suite["floor"].losses) == (1, 1)
    assert (suite["rival"].wins, suite["rival"].losses) == (0, 0)
    assert suite["x"].verdict == "undecided"  # the mean is below 0, the middle half above
    assert (a["x"].wins, a["x"].losses, a["x"].undecided) == (1, 0, 0)


def test_a_scenario_s_interval_is_that_of_a_plain_comparison() -> None:
    rng = np.random.default_rng(4)
    ours, theirs = rng.normal(-10, 3, 12), rng.normal(-12, 3, 12)
    rows = by_name(
        standings_of(
            SPEC,
            STEPS,
            cells("a", {"rival": theirs, "x": ours, "x@unit": ours, "bound": ours, "floor": ours}),
        ).scenarios["a"]
    )
    plain = compare(ours, theirs, ["a"] * 12, seed=0)
    assert plain.ci95 is not None
    length = plain.ci95[1] - plain.ci95[0]
    assert rows["x"].difference == pytest.approx(plain.mean_difference, abs=1e-6)
    assert rows["x"].difference_ci95 == pytest.approx(plain.ci95, abs=0.06 * length)
    assert rows["x"].verdict == plain.verdict
    assert rows["x"].gap_share is None  # the floor is no lower than the bound


def test_who_may_step_how_far() -> None:
    expected: dict[str, Steps] = {
        "hpa": "native",
        "fixed:2": "native",
        "hpa@unit": "unit",
        "best_fixed": "bound",
        "hindsight": "bound",
    }
    for name, steps in expected.items():
        assert steps_of(named_contestant(name, Path())) == steps
    assert steps_of(Learned("run:a", ())) == "unit"


def test_training_seeds_are_averaged_by_window() -> None:
    returns = {name: [0.0, 0.0] for name in POLICIES}
    several = [one for one in cells("a", returns) if one.policy != "x"]
    several.insert(1, cell("x", "a", [1.0, 5.0, 3.0, 9.0], seeds=(4, 8)))
    row = by_name(standings_of(SPEC, STEPS, several).suite)["x"]
    assert row.return_mean == 4.5
    assert row.gap == -4.5


def test_a_scenario_that_nothing_keeps_is_left_out(made_up: list[Cell]) -> None:
    nothing = [Cell(name, "c", (0.5,), {}, None, (), None) for name in POLICIES]
    assert standings_of(SPEC, STEPS, [*made_up, *nothing]) == standings_of(SPEC, STEPS, made_up)
    assert standings_of(SPEC, STEPS, nothing).suite == ()


def test_scenarios_that_differ_in_start_up_time_alone_make_a_sweep() -> None:
    """The shipped scenarios are found by their content, whatever they are called."""
    names = ("cold_start_300s", "steady", "cold_start_0s", "cold_start_150s", "failed_start")
    planned = [plan_trial(load_scenario(name), split="test", windows=2) for name in names]
    found = standings_of(
        SPEC,
        STEPS,
        [
            one
            for k, name in enumerate(names)
            for one in cells(name, {policy: [-k - 1.0, -k - 3.0] for policy in POLICIES})
        ],
    )
    sweeps = sweeps_of(planned, found)
    assert [sweep.policy for sweep in sweeps] == list(POLICIES)
    assert sweeps[0].cold_start_s == (0.0, 150.0, 300.0)
    assert sweeps[0].return_mean == (-4.0, -5.0, -2.0)
    assert sweeps[0].violation_rate == pytest.approx((0.04, 0.05, 0.02))
    assert sweeps_of(planned[:2], found) == ()


def hashes(**changes: str) -> dict[str, object]:
    parts = {"scenario": "s", "traffic": "t", "settings": "p", "table": "r"} | {
        key: value for key, value in changes.items() if key in ("traffic", "table", "settings")
    }
    digests = {"spec": "1", "sources": "2", "suite_table": "3", "episodes": "4"} | {
        key: value for key, value in changes.items() if key not in parts
    }
    return {"digests": digests | {"scenarios": {"steady": parts}}}


@pytest.mark.parametrize(
    ("changes", "same_inputs", "failed", "words"),
    [
        ({}, True, False, ()),
        ({"suite_table": "x", "table": "x"}, True, True, ("the suite table", "steady: the table")),
        ({"sources": "x"}, False, False, ("the sources",)),
        ({"traffic": "x", "episodes": "x"}, False, False, ("steady: the traffic", "the episodes")),
    ],
)
def test_llm_d_autoscaling_681_a_run_is_held_against_the_frozen_table(
    changes: dict[str, str], same_inputs: bool, failed: bool, words: tuple[str, ...]
) -> None:
    """No agreed baseline: the same inputs must give the same hashes, and what differs is named."""
    found = compared(hashes(**changes), hashes())
    assert (found.same_inputs, found.failed) == (same_inputs, failed)
    assert found.differences == tuple(f"{what} differs from the frozen one" for what in words)


def test_other_scenarios_are_other_inputs() -> None:
    ours, theirs = hashes(), hashes()
    theirs["digests"] = {**theirs["digests"], "scenarios": {}}  # type: ignore[dict-item]
    assert not compared(ours, theirs).same_inputs
