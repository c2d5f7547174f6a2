"""Controllers are tuned on training windows only, by their own grid, once."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from gatepilot.agents import tuning
from gatepilot.agents.baselines.fixed import FixedParams
from gatepilot.agents.baselines.hpa import HpaParams
from gatepilot.agents.baselines.registry import make_controller
from gatepilot.agents.evaluation import Progress, play_controllers
from gatepilot.agents.trial import Trial
from gatepilot.agents.tuning import Tuned, tune, tuning_trial
from gatepilot.envs.scenario import Scenario

TICKS = 12


@dataclass
class Journal:
    """Remembers what was started, and how much of it was done."""

    asked: list[tuple[str, int]] = field(default_factory=list)
    done: int = 0

    def start(self, what: str, ticks: int) -> Progress:
        self.asked.append((what, ticks))

        def advance(ticks: int) -> None:
            self.done += ticks

        return advance


@pytest.fixture(scope="module")
def training(small: Scenario) -> Trial:
    return tuning_trial(small, TICKS, None)


def tuned(name: str, training: Trial, cache_dir: Path | None = None) -> Tuned:
    return tune(name, training, cache_dir=cache_dir, reporter=Journal())


def test_training_windows_lie_in_the_training_range(small: Scenario, training: Trial) -> None:
    assert training.split == "train"
    assert len(training.windows) == tuning.TUNING_WINDOWS
    from_s, to_s = small.split_range("train")
    assert all(w.start_s + TICKS * 15 <= to_s - from_s for w in training.windows)
    assert all(requests.span_s == to_s - from_s for requests in training.requests)


def test_an_episode_longer_than_the_training_range_is_shortened(small: Scenario) -> None:
    assert tuning_trial(small, 10_000, None).ticks == 400


def test_the_best_of_a_small_grid_is_taken(training: Trial) -> None:
    counts = range(1, 7)

    def constant(replicas: int) -> float:
        def make(window: object) -> object:
            return make_controller("fixed", training.limits, params=FixedParams(replicas))

        return float(play_controllers(training, [make])[0].returns.mean())  # type: ignore[list-item]

    returns = [constant(replicas) for replicas in counts]
    found = tuned("fixed", training)
    assert found.params == FixedParams(counts[int(np.argmax(returns))])
    assert found.return_mean == max(returns)
    assert found.settings == {"replicas": counts[int(np.argmax(returns))]}
    assert found.candidates == 6


def test_a_tuned_controller_beats_its_defaults_on_the_training_windows(training: Trial) -> None:
    found = tuned("hpa@unit", training)

    def make(window: object) -> object:
        return make_controller("hpa@unit", training.limits)

    untuned = play_controllers(training, [make])[0].returns.mean()  # type: ignore[list-item]
    assert isinstance(found.params, HpaParams)
    assert found.return_mean >= untuned
    assert list(found.settings) == ["metrics"]


def test_progress_adds_up(training: Trial) -> None:
    journal = Journal()
    tune("hpa", training, cache_dir=None, reporter=journal)
    assert journal.asked == [("tuning hpa", journal.done)]


def test_a_kept_result_is_used_again(training: Trial, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cache"
    first = tuned("fixed", training, folder)
    journal = Journal()
    assert tune("fixed", training, cache_dir=folder, reporter=journal) == first
    assert journal.asked == []
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("damage", ["", "{}", "[]", '{"choice": 99}', '{"choice": -1'])
def test_a_damaged_kept_result_is_searched_again(
    training: Trial, tmp_path: Path, damage: str
) -> None:
    first = tuned("fixed", training, tmp_path)
    (kept,) = tmp_path.iterdir()
    kept.write_text(damage)
    assert tuned("fixed", training, tmp_path) == first


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(
    training: Trial, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert tuned("fixed", training, blocked) == tuned("fixed", training)


def test_results_are_kept_apart_by_all_that_they_depend_on(
    small: Scenario, training: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = training.limits
    grid = FixedParams.grid(limits)
    faster = replace(small, cluster=replace(small.cluster, cold_start_s=1.0))
    shorter = training.requests[0].without_long_prompts(100)
    keys = [
        tuning._key("fixed", grid, training),
        tuning._key("fixed@unit", grid, training),
        tuning._key("fixed", grid[1:], training),
        tuning._key("fixed", grid, replace(training, scenario=faster)),
        tuning._key("fixed", grid, replace(training, ticks=13)),
        tuning._key("fixed", grid, training.keeping([i > 0 for i in range(16)])),
        tuning._key("fixed", grid, replace(training, requests=(shorter,))),
    ]
    monkeypatch.setattr(tuning, "code_digest", lambda: "other code")
    keys.append(tuning._key("fixed", grid, training))
    assert len(set(keys)) == len(keys)
