"""Plays policies through the same windows: same traffic, same faults, same seeds for every one.

All windows run side by side in one `GatewayBatch`. Controllers look at what a scrape shows and set
settings; learned policies look at observations and choose actions. What is reported comes from the
plant itself, under the documented reward, whatever a policy was trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..envs.batch import BatchStep, GatewayBatch
from ..envs.reward_fn import RewardFn
from ..envs.schema.observation import ObservationSpec
from ..envs.schema.settings import GatewaySettings
from ..envs.schema.snapshot import MetricsSnapshot
from ..reward.documented import default_reward
from .baselines.fixed import FixedParams
from .baselines.planner.advisor import site_advisor
from .baselines.planner.params import PlannerParams
from .episodes import Outcomes, Tally
from .policy import Controller, Policy
from .trial import Trial
from .windows import Window

MAX_ENVS: Final = 128
"""Gateways stepped side by side; more would only take memory."""

Item = TypeVar("Item")
MakeController: TypeAlias = Callable[[Window], Controller]
"""Makes a fresh controller for one window."""
Progress: TypeAlias = Callable[[int], None]
"""Told how many ticks, over all gateways, have just been simulated."""


def no_progress(ticks: int) -> None:
    """For callers that show nothing."""
    del ticks


class Decider(Protocol):
    """Steps a batch once by asking its policy or its controllers."""

    def step(self, batch: GatewayBatch, observation: NDArray[np.float32]) -> BatchStep:
        """Decides for all gateways of the batch and runs one tick."""
        ...


@dataclass(frozen=True)
class PolicyDecider:
    """A learned policy: observations in, actions out, all gateways at once."""

    policy: Policy

    def step(self, batch: GatewayBatch, observation: NDArray[np.float32]) -> BatchStep:
        """One tick under the policy's actions."""
        return batch.step(self.policy.act(observation))


@dataclass(frozen=True)
class ControllerDecider:
    """One controller a gateway; each sees its scraped snapshot and the settings in force."""

    controllers: Sequence[Controller]
    limits: list[int | None]
    """Admission limit in force at each gateway."""

    def step(self, batch: GatewayBatch, observation: NDArray[np.float32]) -> BatchStep:
        """One tick under the controllers' settings."""
        del observation
        wanted = [
            controller.decide(
                MetricsSnapshot.from_row(batch.seen[i]),
                GatewaySettings(
                    int(batch.replicas[i]), int(batch.threshold_steps[i]), self.limits[i]
                ),
            )
            for i, controller in enumerate(self.controllers)
        ]
        self.limits[:] = [settings.max_outstanding for settings in wanted]
        return batch.step_settings(
            np.array([settings.replicas for settings in wanted]),
            np.array([settings.threshold_steps for settings in wanted]),
            self.limits,
        )


def play_policy(
    trial: Trial,
    policy: Policy,
    observation: ObservationSpec,
    progress: Progress = no_progress,
    *,
    advisor: PlannerParams | None = None,
    reward_fn: RewardFn = default_reward,
) -> Outcomes:
    """Plays a learned policy through every window.

    Args:
        trial: Windows and traffic.
        policy: Decides; it must be deterministic for results to be repeatable.
        observation: What it was trained to see.
        progress: Told of every tick.
        advisor: Of the planner whose advice it sees, at the trial's site; `None`: it sees none.
        reward_fn: What `returns` sums up; whatever is reported uses the documented one.
    """
    decider = PolicyDecider(policy)
    return Outcomes.joined(
        [
            play_windows(
                gateway_batch(trial, len(chunk), observation, advisor, reward_fn),
                chunk,
                decider,
                Tally(len(chunk), trial.ticks),
                progress,
            )
            for chunk in _chunks(trial.windows)
        ]
    )


def play_controllers(
    trial: Trial,
    makers: Sequence[MakeController],
    progress: Progress = no_progress,
    *,
    with_ttft: bool = True,
) -> list[Outcomes]:
    """Plays controllers, or one controller under several parameters, through every window.

    Args:
        trial: Windows and traffic.
        makers: One for each controller.
        progress: Told of every tick.
        with_ttft: Whether to look at every first token, for the outcomes' P95: a quarter of the
            time.

    Returns:
        One result a maker.
    """
    places = [(maker, window) for window in trial.windows for maker in makers]
    parts = []
    for chunk in _chunks(places):
        controllers = [make(window) for make, window in chunk]
        decider = ControllerDecider(
            controllers, [trial.scenario.gateway.max_outstanding] * len(chunk)
        )
        windows = [window for _, window in chunk]
        tally = Tally(len(chunk), trial.ticks, with_ttft=with_ttft)
        batch = gateway_batch(trial, len(chunk), ObservationSpec())
        parts.append(play_windows(batch, windows, decider, tally, progress))
    everything = Outcomes.joined(parts)
    return [everything.taken(slice(i, None, len(makers))) for i in range(len(makers))]


def unkeepable(trial: Trial, progress: Progress = no_progress) -> NDArray[np.float64]:
    """Shows which windows no number of replicas keeps.

    Each is run with faults off and with the maximum of replicas ready from the first request of
    the warm-up on, the breaker's threshold at its start. A window of which a single tick then
    violates the SLO cannot tell a good controller from a bad one.

    Returns:
        Share of violating ticks of each window; 0 where it can be kept.
    """
    most = trial.limits.max_replicas
    cluster = replace(trial.scenario.cluster, initial_replicas=most)
    easiest = replace(trial, scenario=replace(trial.scenario, cluster=cluster, faults=()))
    params = FixedParams(most, trial.scenario.gateway.threshold_steps)

    def make(window: Window) -> Controller:
        return params.make(trial.site, seed=window.seed)

    return play_controllers(easiest, [make], progress, with_ttft=False)[0].violation_rate


def gateway_batch(
    trial: Trial,
    n: int,
    observation: ObservationSpec = ObservationSpec(),  # noqa: B008  # frozen
    advisor: PlannerParams | None = None,
    reward_fn: RewardFn = default_reward,
) -> GatewayBatch:
    """Gateways for n windows of a trial."""
    return GatewayBatch(
        trial.scenario,
        n,
        reward_fn=reward_fn,
        observation=observation,
        advisor=site_advisor([trial.site], n, advisor),
        split=trial.split,
        episode_ticks=trial.ticks,
        requests=trial.requests,
        threads=trial.threads,
    )


def start_windows(batch: GatewayBatch, windows: Sequence[Window]) -> NDArray[np.float32]:
    """Puts each gateway at the start of its window; returns what a policy sees first."""
    return batch.reset(
        starts_s=np.array([window.start_s for window in windows]),
        seeds=np.array([window.seed for window in windows]),
        workloads=np.array([window.round for window in windows]),
    )


def play_windows(
    batch: GatewayBatch,
    windows: Sequence[Window],
    decider: Decider,
    tally: Tally,
    progress: Progress = no_progress,
) -> Outcomes:
    """Plays windows side by side.

    Args:
        batch: A gateway for each of them.
        windows: Which.
        decider: Acts at every tick.
        tally: Of as many gateways; takes the ticks in.
        progress: Told of every tick.
    """
    seen = start_windows(batch, windows)
    for tick in range(batch.episode_ticks):
        replicas, threshold_steps = batch.replicas.copy(), batch.threshold_steps.copy()
        step = decider.step(batch, seen)
        changed = (batch.replicas != replicas) | (batch.threshold_steps != threshold_steps)
        tally.add(tick, step, changed, batch)
        seen = step.observation
        progress(len(windows))
    return tally.outcomes()


def _chunks(items: Sequence[Item]) -> list[Sequence[Item]]:
    return [items[i : i + MAX_ENVS] for i in range(0, len(items), MAX_ENVS)]
