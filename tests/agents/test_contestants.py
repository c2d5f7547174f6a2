"""Who takes part: the best constant, tuned controllers, and learned policies under one contract."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from gatepilot.agents.baselines.fixed import FixedParams
from gatepilot.agents.baselines.planner.advisor import advisor_identity
from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.agents.baselines.planner.planner import Planner
from gatepilot.agents.bounds import ORACLES, BestFixed, Oracle
from gatepilot.agents.choice import Choice
from gatepilot.agents.contestant import Performance, PolicyError, Preparation
from gatepilot.agents.contestants import (
    FixedCount,
    Learned,
    TrainedPolicy,
    TunedController,
    parse_contestant,
)
from gatepilot.agents.evaluation import Progress
from gatepilot.agents.trial import Trial, prepare_trial
from gatepilot.agents.tuning import TuningTrials, tuning_trials
from gatepilot.envs.scenario import Scenario
from gatepilot.envs.schema.fingerprint import Contract
from gatepilot.envs.schema.observation import ObservationSpec

TICKS = 10


@dataclass
class Journal:
    """Remembers what was started."""

    asked: list[str] = field(default_factory=list)
    announced: int = 0
    """Ticks of everything that was started."""
    told: int = 0
    """Ticks that were played, of what tells of them."""

    def start(self, what: str, ticks: int) -> Progress:
        assert ticks > 0
        self.asked.append(what)
        self.announced += ticks
        return self.tell

    def tell(self, ticks: int) -> None:
        self.told += ticks


@dataclass
class Always:
    """Chooses one action for ever."""

    action: tuple[int, int]

    def act(self, observation: NDArray[np.float32]) -> NDArray[np.int64]:
        return np.tile(np.array(self.action, np.int64), (len(observation), 1))


@pytest.fixture(scope="module")
def trial(small: Scenario) -> Trial:
    return prepare_trial(small, split="test", ticks=TICKS, windows=3, seed=1)


@pytest.fixture
def preparation(small: Scenario, tmp_path: Path) -> Preparation:
    return Preparation(lambda: tuning_trials(small, 4, None), tmp_path, Journal())


@pytest.fixture
def no_training(tmp_path: Path) -> Preparation:
    def forbidden() -> TuningTrials:
        raise AssertionError

    return Preparation(forbidden, tmp_path, Journal())


def trained(
    trial: Trial, seed: int, action: tuple[int, int] = (1, 1), frame_stack: int = 1
) -> TrainedPolicy:
    observation = ObservationSpec("documented", frame_stack)
    telemetry = trial.scenario.telemetry
    contract = Contract(observation, trial.tick_s, telemetry.window_s, telemetry.minimum_samples)
    return TrainedPolicy(Always(action), observation, contract.fingerprint, seed, f"weights {seed}")


def means(performance: Performance) -> list[float]:
    return [float(outcomes.returns.mean()) for _, outcomes in performance.runs]


def test_names_are_understood(trial: Trial) -> None:
    runs = {"a": trained(trial, 1), "b": trained(trial, 2)}
    for text, kind in {
        "best_fixed": BestFixed,
        "hindsight": Oracle,
        "lookahead": Oracle,
        "fixed:3": FixedCount,
        "hpa": TunedController,
        "hpa@unit": TunedController,
        "fixed": TunedController,
        "run:a": Learned,
        "run:a,b": Learned,
    }.items():
        found = parse_contestant(text, runs.__getitem__)
        assert isinstance(found, kind)
        assert found.label == text
    with pytest.raises(PolicyError, match="two runs have the same training seed"):
        parse_contestant("run:a,b", lambda _: trained(trial, 1))


def test_the_best_constant_is_chosen_on_the_very_windows(
    trial: Trial, no_training: Preparation
) -> None:
    every = [
        means(FixedCount(f"fixed:{count}", count).play(trial, no_training))[0]
        for count in range(1, trial.limits.max_replicas + 1)
    ]
    best = BestFixed("best_fixed").play(trial, no_training)
    assert means(best) == [max(every)]
    assert best.settings == {"replicas": 1 + int(np.argmax(every))}
    assert best.runs[0][0] is None


def test_oracles_announce_what_they_play_and_the_one_that_searches_is_the_bound(
    trial: Trial, no_training: Preparation
) -> None:
    reached = {}
    for label in ORACLES:
        journal = Journal()
        performance = Oracle(label).play(trial, replace(no_training, reporter=journal))
        assert (journal.asked, journal.told) == ([label], journal.announced)
        ((seed, reached[label]),) = performance.runs
        assert (seed, performance.settings) == (None, {})
    ((_, best_fixed),) = BestFixed("best_fixed").play(trial, no_training).runs
    for other in (reached["hindsight"], best_fixed):
        assert (other.returns <= reached["lookahead"].returns + 1e-9).all()
    assert reached["lookahead"].returns.mean() > best_fixed.returns.mean() + 0.1


def test_a_rule_with_parameters_is_tuned_and_one_without_is_not(
    trial: Trial, preparation: Preparation, no_training: Preparation
) -> None:
    tuned = TunedController("fixed@unit").play(trial, preparation)
    assert isinstance(preparation.reporter, Journal)
    assert preparation.reporter.asked == ["tuning fixed@unit", "fixed@unit"]
    assert tuned.settings["params"]["replicas"] in range(1, 7)
    assert tuned.settings_from == "tuned"
    plain = TunedController("do_nothing").play(trial, no_training)
    assert (plain.settings, plain.settings_from) == ({}, None)


def test_shipped_settings_are_not_looked_for_again(trial: Trial, no_training: Preparation) -> None:
    shipped = {"fixed": Choice("fixed", FixedParams(replicas=3))}
    played = TunedController("fixed").play(trial, replace(no_training, shipped=shipped))
    assert played.settings == shipped["fixed"].settings
    assert played.settings_from == "shipped"
    assert means(played) == means(FixedCount("fixed:3", 3).play(trial, no_training))


def test_a_constant_plays_its_number(trial: Trial, no_training: Preparation) -> None:
    ((_, outcomes),) = FixedCount("fixed:6", 6).play(trial, no_training).runs
    np.testing.assert_allclose(outcomes.replica_hours, 6 * TICKS * 15 / 3600)
    FixedCount("fixed:6", 6).check(trial)
    for outside in (0, 7):
        with pytest.raises(PolicyError, match=rf"fixed:{outside}: small allows 1 to 6 replicas"):
            FixedCount(f"fixed:{outside}", outside).check(trial)


def test_every_training_seed_plays_for_itself(trial: Trial, no_training: Preparation) -> None:
    members = (trained(trial, 4, (1, 1)), trained(trial, 9, (2, 1)))
    performance = Learned("run:a,b", members).play(trial, no_training)
    (first, still), (second, rising) = performance.runs
    assert (first, second) == (4, 9)
    assert (still.changes == 0).all()
    start = trial.scenario.cluster.start_replicas
    assert (rising.changes == trial.limits.max_replicas - start).all()
    assert (rising.replica_hours > still.replica_hours).all()


def test_a_learned_policy_is_bound_to_its_contract(small: Scenario, trial: Trial) -> None:
    learned = Learned("run:a", (trained(trial, 1), trained(trial, 2, frame_stack=2)))
    learned.check(trial)
    telemetry = small.telemetry
    for other in (
        replace(small, control=replace(small.control, tick_s=30.0)),
        replace(small, telemetry=replace(telemetry, window_s=90.0)),
        replace(small, telemetry=replace(telemetry, minimum_samples=5)),
    ):
        elsewhere = replace(trial, scenario=other)
        with pytest.raises(PolicyError, match=r"run:a: trained under contract \w{12}, but small"):
            learned.check(elsewhere)
    busier = replace(small, cluster=replace(small.cluster, max_replicas=9, cold_start_s=5.0))
    learned.check(replace(trial, scenario=busier))


@dataclass
class Follower:
    """Does what the advice says: a step towards what is wanted."""

    gaps: list[float] = field(default_factory=list)

    def act(self, observation: NDArray[np.float32]) -> NDArray[np.int64]:
        gap = observation[:, ObservationSpec("advised").entries.index("replicas_gap")]
        self.gaps += gap.tolist()
        return np.stack([1 + np.sign(gap).astype(np.int64), np.ones(len(gap), np.int64)], axis=1)


def advised(trial: Trial, params: PlannerParams, follower: Follower) -> TrainedPolicy:
    observation, telemetry = ObservationSpec("advised"), trial.scenario.telemetry
    contract = Contract(
        observation,
        trial.tick_s,
        telemetry.window_s,
        telemetry.minimum_samples,
        advisor_identity(params),
    )
    return TrainedPolicy(follower, observation, contract.fingerprint, 0, "weights", params)


def test_an_advised_policy_plays_with_its_own_advisor_at_the_trials_place(
    trial: Trial, no_training: Preparation
) -> None:
    bold, careful = Follower(), Follower()
    for follower, params in ((bold, PlannerParams()), (careful, PlannerParams(reserve=3))):
        learned = Learned("run:a", (advised(trial, params, follower),))
        learned.check(trial)
        learned.play(trial, no_training)
    assert len(bold.gaps) == len(careful.gaps) == TICKS * len(trial.windows)
    assert np.mean(careful.gaps[:3]) > np.mean(bold.gaps[:3])  # before they have acted
    fast = replace(trial.scenario, profile="llama-3.1-8b-fp8-l40s-tp1-vllm-kernel")
    faster = replace(trial, scenario=replace(fast, name="faster"))
    elsewhere = Follower()
    learned = Learned("run:a", (advised(trial, PlannerParams(), elsewhere),))
    learned.check(faster)
    learned.play(faster, no_training)
    assert elsewhere.gaps[:3] != bold.gaps[:3]
    known = Planner([faster.site], PlannerParams()).capacity.replicas
    assert known == (faster.site.replica,) != (trial.site.replica,)


def test_a_scenario_s_own_advisor_advises_there(trial: Trial, no_training: Preparation) -> None:
    gaps = []
    for advisor, own in (
        (PlannerParams(reserve=3), {}),
        (PlannerParams(), {"small": PlannerParams(reserve=3)}),
        (PlannerParams(), {"elsewhere": PlannerParams(reserve=3)}),
    ):
        follower = Follower()
        learned = Learned("run:a", (replace(advised(trial, advisor, follower), advisors=own),))
        learned.check(trial)
        learned.play(trial, no_training)
        gaps.append(follower.gaps)
    assert gaps[0] == gaps[1] != gaps[2]


def test_an_advised_policy_is_bound_to_its_advisor(trial: Trial) -> None:
    made = advised(trial, PlannerParams(), Follower())
    Learned("run:a", (made,)).check(trial)
    other = replace(made, advisor=PlannerParams(reserve=3))
    with pytest.raises(PolicyError, match=r"run:a: trained under contract \w{12}, but small"):
        Learned("run:a", (other,)).check(trial)
