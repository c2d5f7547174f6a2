"""Controllers are tuned with one budget, on training windows, and never below their defaults."""

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from gatepilot.agents import tuning
from gatepilot.agents.baselines.fixed import FixedParams
from gatepilot.agents.baselines.hpa import HpaParams
from gatepilot.agents.baselines.registry import REPLICA_KEEPERS, controller_names
from gatepilot.agents.baselines.site import Suggest
from gatepilot.agents.choice import Choice, default_choice
from gatepilot.agents.evaluation import Progress, play_controllers
from gatepilot.agents.policy import Controller
from gatepilot.agents.trial import Trial
from gatepilot.agents.tuning import (
    StudyError,
    Tuned,
    TuningTrials,
    is_tunable,
    tunable_names,
    tune,
    tuning_trials,
)
from gatepilot.agents.windows import Window
from gatepilot.envs.fault_spec import FaultSpec
from gatepilot.envs.scenario import Scenario

TICKS = 8


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


@pytest.fixture(autouse=True)
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "TRIALS", 12)
    monkeypatch.setattr(tuning, "BATCH", 4)


@pytest.fixture(scope="module")
def trials(small: Scenario) -> TuningTrials:
    return tuning_trials(small, TICKS, None)


def tuned(name: str, trials: TuningTrials, studies_dir: Path | None = None) -> Tuned:
    return tune(name, trials, studies_dir=studies_dir, reporter=Journal())


def made(choice: Choice, trial: Trial, window: Window) -> Controller:
    return choice.make(trial.site, window.seed)


def mean_return(choice: Choice, trial: Trial) -> float:
    return float(play_controllers(trial, [partial(made, choice, trial)])[0].returns.mean())


def test_windows_lie_in_their_own_ranges(small: Scenario, trials: TuningTrials) -> None:
    for trial, split in ((trials.train, "train"), (trials.validation, "validation")):
        assert trial.split == split
        assert 0 < len(trial.windows) <= tuning.TUNING_WINDOWS
        from_s, to_s = small.split_range(split)
        assert all(w.start_s + TICKS * 15 <= to_s - from_s for w in trial.windows)
        assert all(requests.span_s == to_s - from_s for requests in trial.requests)


def test_an_episode_longer_than_a_range_is_shortened(small: Scenario) -> None:
    trials = tuning_trials(small, 10_000, None)
    assert (trials.train.ticks, trials.validation.ticks) == (400, 160)


@pytest.mark.parametrize("name", ["fixed", "hpa@unit"])
def test_what_is_reported_is_what_the_choice_achieves(name: str, trials: TuningTrials) -> None:
    found, default = tuned(name, trials), default_choice(name)
    assert found.trials == 12
    assert found.train == mean_return(found.choice, trials.train)
    assert found.train_default == mean_return(default, trials.train)
    assert found.validation == mean_return(found.choice, trials.validation)
    assert found.validation_default == mean_return(default, trials.validation)
    assert found.train >= found.train_default
    assert found.validation >= found.validation_default


def test_the_best_of_all_tries_is_found_again_by_hand(trials: TuningTrials, tmp_path: Path) -> None:
    """Every try of the study, played anew: the scores are theirs and the choice is the highest."""
    found = tuned("fixed", trials, tmp_path)
    (study,) = studies(tmp_path, "fixed")
    by_hand = {
        trial.number: mean_return(Choice("fixed", FixedParams(**trial.params)), trials.train)
        for trial in study.trials
    }
    assert [trial.value for trial in study.trials] == list(by_hand.values())
    best = study.trials[int(np.argmax(list(by_hand.values())))]
    if found.choice != default_choice("fixed"):
        assert found.choice.params == FixedParams(**best.params)
        assert found.train == max(by_hand.values())


def test_defaults_stay_where_nothing_better_is_found(
    trials: TuningTrials, monkeypatch: pytest.MonkeyPatch
) -> None:
    worst = FixedParams(replicas=1, threshold_steps=1)
    monkeypatch.setattr(FixedParams, "suggested", classmethod(partial(suggest_only, worst)))
    found = tuned("fixed", trials)
    assert found.choice == default_choice("fixed")
    assert found.train == found.train_default
    assert found.validation == found.validation_default


def suggest_only(
    params: FixedParams, cls: type[FixedParams], suggest: Suggest, site: object
) -> FixedParams:
    del cls, site
    suggest.suggest_int("something", 0, 9)
    return params


def test_a_threshold_is_tuned_beside_an_autoscaler_where_faults_are_on(
    small: Scenario, tmp_path: Path
) -> None:
    fault = FaultSpec("replica_errors", start_s=10.0, duration_s=60.0, error_share=(0.5, 0.5))
    faulty = tuning_trials(replace(small, faults=(fault,)), TICKS, None)
    clean = tuning_trials(small, TICKS, None)
    for name, trials, has_threshold in (
        ("hpa", faulty, True),
        ("hpa", clean, False),
        ("fixed", faulty, False),
    ):
        folder = tmp_path / f"{name} {has_threshold}"
        tuned(name, trials, folder)
        (study,) = studies(folder, name)
        asked = {key for trial in study.trials for key in trial.params}
        assert ("breaker_threshold_steps" in asked) == has_threshold
        assert ("threshold_steps" in asked) == (name == "fixed")


def test_who_has_something_to_tune(trials: TuningTrials) -> None:
    site = trials.train.site
    assert is_tunable("hpa@unit", site)
    assert is_tunable("fixed", site)
    assert not is_tunable("do_nothing", site)
    assert not is_tunable("random@unit", site)
    names = tunable_names(site)
    bare = [name for name in names if not name.endswith("@unit")]
    scaling = [name for name in bare if name not in REPLICA_KEEPERS]
    assert names == (*bare, *(f"{name}@unit" for name in scaling))
    assert 0 < len(scaling) < len(bare)
    assert {"hpa", "fixed"} <= set(bare) < set(controller_names())


def test_progress_adds_up(trials: TuningTrials) -> None:
    journal = Journal()
    tune("hpa", trials, studies_dir=None, reporter=journal)
    assert journal.asked == [("tuning hpa", journal.done)]


def test_a_finished_study_is_not_played_again(trials: TuningTrials, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "studies"
    first = tuned("fixed", trials, folder)
    journal = Journal()
    assert tune("fixed", trials, studies_dir=folder, reporter=journal) == first
    assert journal.done == 0


def test_an_interrupted_study_goes_on_as_one_that_was_not(
    trials: TuningTrials, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tuned("hpa", trials)
    scores, left = tuning._scores, iter([True, False])

    def dying(*args: object) -> list[float]:
        if not next(left):
            raise KeyboardInterrupt
        return scores(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(tuning, "_scores", dying)
    with pytest.raises(KeyboardInterrupt):
        tuned("hpa", trials, tmp_path)
    monkeypatch.setattr(tuning, "_scores", scores)
    journal = Journal()
    found = tune("hpa", trials, studies_dir=tmp_path, reporter=journal)
    assert found == whole
    assert journal.asked[0][1] == journal.done
    (study,) = studies(tmp_path, "hpa")
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE] * 12
    assert isinstance(found.choice.params, HpaParams)


@pytest.mark.parametrize("kept", [1, 4, 7, 11])
def test_a_study_that_was_killed_in_the_middle_of_a_batch_goes_on_the_same(
    trials: TuningTrials, tmp_path: Path, kept: int
) -> None:
    whole = tuned("hpa", trials, tmp_path / "whole")
    (path,) = (tmp_path / "whole").rglob("*.journal")
    lines = path.read_text().splitlines(keepends=True)
    cut = tmp_path / "cut" / path.relative_to(tmp_path / "whole")
    cut.parent.mkdir(parents=True)
    cut.write_text("".join(lines[: 1 + kept]))  # the first line makes the study
    assert tuned("hpa", trials, tmp_path / "cut") == whole
    first, again = (studies(tmp_path / name, "hpa")[0].trials for name in ("whole", "cut"))
    assert [t.params for t in again] == [t.params for t in first]
    assert [t.value for t in again] == [t.value for t in first]


def test_a_damaged_study_is_named(trials: TuningTrials, tmp_path: Path) -> None:
    tuned("fixed", trials, tmp_path)
    (path,) = tmp_path.rglob("*.journal")
    path.write_text("{\n" + path.read_text())
    with pytest.raises(StudyError, match=r"fixed\.journal: is damaged, remove it"):
        tuned("fixed", trials, tmp_path)


def test_results_are_kept_apart_by_all_that_they_depend_on(
    small: Scenario, trials: TuningTrials, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = trials.train
    faster = replace(small, cluster=replace(small.cluster, cold_start_s=1.0))
    shorter = train.requests[0].without_long_prompts(100)
    fewer = train.keeping([i > 0 for i in range(len(train.windows))])
    others = [
        replace(train, scenario=faster),
        replace(train, ticks=13),
        fewer,
        replace(train, requests=(shorter,)),
    ]
    keys = [tuning._key("fixed", trials), tuning._key("fixed@unit", trials)]
    keys += [tuning._key("fixed", replace(trials, train=other)) for other in others]
    keys.append(tuning._key("fixed", replace(trials, validation=train)))
    monkeypatch.setattr(tuning, "code_digest", lambda: "other code")
    keys.append(tuning._key("fixed", trials))
    assert len(set(keys)) == len(keys)


def studies(folder: Path, name: str) -> list[optuna.Study]:
    (path,) = folder.glob(f"*/{name}.journal")
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    return [optuna.load_study(study_name=n, storage=storage) for n in study_names(storage)]


def study_names(storage: optuna.storages.JournalStorage) -> list[str]:
    return [study.study_name for study in storage.get_all_studies()]
