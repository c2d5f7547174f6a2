"""Windows of several scenarios in one batch come out as each by itself."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.agents.evaluation import play_policy
from gatepilot.agents.side_by_side import SideBySide
from gatepilot.agents.trial import prepare_trial
from gatepilot.envs.scenario import load_scenario
from gatepilot.envs.schema.observation import ObservationSpec

TICKS = 6
ADVISED = ObservationSpec("advised")
FAULTS = Path(__file__).with_name("tiny_faults.yaml")


class Restless:
    """Moves by what it sees, so that one wrong bit shows."""

    def act(self, observation: np.ndarray) -> np.ndarray:
        words = (np.abs(observation).sum(axis=1) * 1e4).astype(np.int64)
        return np.stack([words % 3, words // 3 % 3], axis=1)


def test_each_window_is_what_it_is_alone_and_again() -> None:
    one = load_scenario(str(FAULTS))
    other = replace(one, name="other", cluster=replace(one.cluster, cold_start_s=7.0))
    trials = [
        prepare_trial(scenario, split="test", ticks=TICKS, windows=windows, seed=seed)
        for scenario, windows, seed in ((one, 3, 1), (other, 2, 2))
    ]
    advisors, policy = [PlannerParams(reserve=0), PlannerParams(reserve=4)], Restless()
    together = SideBySide(trials, ADVISED, advisors)
    for _ in range(2):
        played = together.play(policy)
        for trial, found, advisor in zip(trials, played, advisors, strict=True):
            alone = play_policy(trial, policy, ADVISED, advisor=advisor)
            assert len(found.returns) == len(trial.windows)
            assert found.changes.sum() > 0
            for field in fields(found):
                if field.name == "ttft_p95_s":
                    continue
                np.testing.assert_array_equal(
                    getattr(found, field.name), getattr(alone, field.name), err_msg=field.name
                )
