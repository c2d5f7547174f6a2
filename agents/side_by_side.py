"""Windows of several scenarios played in one batch, again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..envs.batch import GatewayBatch
from ..envs.mixture import distinct
from ..envs.reward_fn import RewardFn
from ..envs.schema.observation import ObservationSpec
from ..reward.documented import default_reward
from .baselines.planner.advisor import site_advisor
from .baselines.planner.params import PlannerParams
from .episodes import Outcomes, Tally
from .evaluation import PolicyDecider, play_windows
from .policy import Policy
from .scenario_site import scenario_site
from .trial import Trial


class SideBySide:
    """Windows of several scenarios in one batch, which is kept: checkpoints are judged often."""

    def __init__(
        self,
        trials: Sequence[Trial],
        observation: ObservationSpec,
        advisors: Sequence[PlannerParams] | None,
        reward_fn: RewardFn = default_reward,
    ) -> None:
        """Makes room for all windows.

        Args:
            trials: Windows of one length; the scenarios can stand side by side (`envs.mixture`).
            observation: What a policy sees.
            advisors: Of the planner whose advice it sees, one a trial; `None`: it sees none.
            reward_fn: What `returns` sums up.
        """
        self.trials = tuple(trials)
        scenarios = [trial.scenario for trial in trials for _ in trial.requests]
        begins = np.cumsum([0, *(len(trial.requests) for trial in trials)]).tolist()
        self._windows = [
            replace(window, round=begin + window.round)  # of the joint batch's workloads
            for begin, trial in zip(begins, trials, strict=False)
            for window in trial.windows
        ]
        sites = [scenario_site(scenario) for scenario in distinct(scenarios)]
        if advisors is not None:
            played = [trial.scenario for trial in trials]
            advisors = [advisors[played.index(scenario)] for scenario in distinct(scenarios)]
        self._batch = GatewayBatch(
            scenarios,
            len(self._windows),
            reward_fn=reward_fn,
            observation=observation,
            advisor=site_advisor(sites, len(self._windows), advisors),
            episode_ticks=trials[0].ticks,
            requests=[requests for trial in trials for requests in trial.requests],
        )

    def play(self, policy: Policy) -> list[Outcomes]:
        """Runs a policy through every window.

        Returns:
            Of each trial what `evaluation.play_policy` gives, to the bit, but for latencies.
        """
        tally = Tally(self._batch.n_envs, self._batch.episode_ticks, with_ttft=False)
        outcomes = play_windows(self._batch, self._windows, PolicyDecider(policy), tally)
        ends = np.cumsum([len(trial.windows) for trial in self.trials])
        return [
            outcomes.taken(slice(end - len(trial.windows), end))
            for trial, end in zip(self.trials, ends.tolist(), strict=True)
        ]
