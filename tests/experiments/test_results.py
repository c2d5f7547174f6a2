"""Figures from episodes: known means, pairs from both sides, and which pairs are shown first."""

from dataclasses import replace

import numpy as np
import pytest

from gatepilot.agents.episodes import Episode
from gatepilot.experiments.report import render
from gatepilot.experiments.results import Results, matrix, pair_up, summarise
from gatepilot.experiments.study import Study

NAMES = ("a", "b", "c", "d", "e")


def episode(policy: str, window: int, value: float, train_seed: int | None = None) -> Episode:
    return Episode(policy, train_seed, "demo", window, 7, value, 0.0, 1.0, 0.0, 0.0, None, 2)


@pytest.fixture(scope="module")
def results() -> Results:
    """Five policies over eight windows; `c` is the best, by one and a half a window."""
    level = {"a": 0.0, "b": 1.0, "c": 3.0, "d": 1.5, "e": -2.0}
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.1, (len(NAMES), 8))
    noise -= noise.mean(axis=1, keepdims=True)
    episodes = tuple(
        episode(name, window, level[name] + noise[i, window])
        for i, name in enumerate(NAMES)
        for window in range(8)
    )
    summary = summarise(episodes, NAMES, {}, seed=0)
    return Results(episodes, summary, {"demo": summary}, pair_up(episodes, NAMES, seed=0), ())


def test_known_means_and_differences(results: Results) -> None:
    assert [row.return_mean for row in results.summary] == pytest.approx([0, 1, 3, 1.5, -2])
    found = results.as_dict()
    sides = {(pair["policy"], pair["against"]): pair for pair in found["pairs"]}
    assert len(sides) == len(NAMES) * (len(NAMES) - 1)
    assert sides["c", "d"]["mean_difference"] == pytest.approx(1.5)
    assert sides["d", "c"]["mean_difference"] == pytest.approx(-1.5)
    assert sides["d", "c"]["ci95"] == [-end for end in reversed(sides["c", "d"]["ci95"])]
    assert (sides["c", "d"]["verdict"], sides["d", "c"]["verdict"]) == ("win", "loss")
    assert found["summary"][0]["ttft_p95_s"] is None


def test_of_many_pairs_those_of_the_best_come_first(results: Results) -> None:
    best = results.pairs_of_the_best()
    assert [(pair.policy, pair.against) for pair in best] == [("c", name) for name in "abde"]
    assert all(pair.comparison.mean_difference > 0 for pair in best)
    assert results.headline_pairs() == best
    few = replace(results, pairs=results.pairs[:6])
    assert few.headline_pairs() == few.pairs
    assert replace(results, summary=(), pairs=()).headline_pairs() == ()


def test_a_report_of_many_policies_folds_the_other_pairs_away(
    results: Results, study: Study
) -> None:
    played = next(iter(study.outcomes.values()))
    outcomes = {("demo", name): played for name in NAMES}
    html = render(replace(study, results=results, outcomes=outcomes))
    assert "<details><summary>All 10 pairs</summary>" in html
    assert "<details>" not in render(study)


def test_training_seeds_are_rows_and_windows_columns() -> None:
    episodes = [episode("a", w, 10 * s + w, s) for s in (4, 9) for w in (0, 1, 2)]
    np.testing.assert_array_equal(matrix(episodes), [[40, 41, 42], [90, 91, 92]])
    (row,) = summarise(episodes, ["a"], {}, seed=0)
    assert row.train_seeds == (4, 9)
    assert row.episodes == 6
    assert row.return_mean == 66
