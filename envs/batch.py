"""Many gateways stepped together: the one implementation behind every face of the environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .advisor import Advisor
from .episodes import Episode, draw_episode
from .mixture import Mixture, common_episode_ticks
from .reward_fn import RewardFn
from .scenario import Scenario, ScenarioError
from .schema.action import Ints, decode
from .schema.advice import ADVICE_ENTRIES, Advice
from .schema.fields import FIELDS
from .schema.fingerprint import Contract
from .schema.observation import ObservationSpec, encode
from .schema.settings import (
    MAX_THRESHOLD_STEPS,
    MIN_THRESHOLD_STEPS,
    THRESHOLD_STEP_PERCENT,
)
from .sim.params import no_limit
from .tick_info import tick_info
from .workload.request import Requests

_NEVER_RESET = -1
"""Ticks of a gateway that has no episode yet."""


class NotResetError(RuntimeError):
    """A gateway is stepped, or shown, that has had no reset yet."""


@dataclass(slots=True)
class BatchStep:
    """What one tick of n gateways brought."""

    observation: NDArray[np.float32]
    """`(n, D)`."""
    reward: NDArray[np.float64]
    """`(n,)`: the sum of the parts."""
    parts: dict[str, NDArray[np.float64]]
    """The reward's parts by name, `(n,)` each."""
    truncated: NDArray[np.bool_]
    """`(n,)`: the episode's last tick. An episode never terminates."""
    info: dict[str, NDArray[Any]]
    """`(n,)` each: `violation`; what `tick_info` says; `clamped_replicas`, `clamped_threshold`."""


class GatewayBatch:
    """n independent gateways of one scenario, or of several that share clock and telemetry.

    After `reset`, `seen` and `truth` are the `(n, F)` rows of the newest snapshots: what a scrape
    shows and what is really so. `replicas` and `threshold_steps`, `(n,)`, are the settings in
    force.
    """

    def __init__(  # noqa: PLR0913
        self,
        scenario: Scenario | Sequence[Scenario],
        n_envs: int,
        *,
        reward_fn: RewardFn,
        observation: ObservationSpec | None = None,
        advisor: Advisor | None = None,
        split: str | None = "train",
        seed: int = 0,
        episode_ticks: int | None = None,
        traces_dir: Path | None = None,
        threads: int | None = None,
        requests: Sequence[Requests] | None = None,
    ) -> None:
        """Reads the workload and allocates the engine.

        Args:
            scenario: What to simulate; several: one for each of `requests`.
            n_envs: Number of gateways.
            reward_fn: What is good.
            observation: What a policy sees; `None`: `extended`.
            advisor: Advises n gateways; given exactly where the observation is `advised`. Nobody
                else may ask it.
            split: Part of the workload to draw from; `None`: all of it.
            seed: Of the superposition and, unless `reset` is given others, of the episodes.
            episode_ticks: `None`: the scenario's; several must have it in common.
            traces_dir: Where trace files are looked up.
            threads: Threads over the gateways; `None`: one a core.
            requests: Workloads to draw from instead of the scenario's own (`reset(workloads=...)`).

        Raises:
            ScenarioError: The workload is missing, malformed or shorter than an episode, or the
                scenarios cannot stand side by side.
            ValueError: No gateway or no tick; an advisor is missing or not heard; not as many
                workloads as scenarios.
            TypeError: The reward does not say what a violation is.
        """
        if n_envs < 1:
            msg = f"n_envs is {n_envs}, expected 1 or more"
            raise ValueError(msg)
        if episode_ticks is not None and episode_ticks < 1:
            msg = f"episode_ticks is {episode_ticks}, expected 1 or more"
            raise ValueError(msg)
        if not callable(getattr(reward_fn, "violates", None)):
            msg = f"reward_fn {reward_fn!r}: expected a RewardFn, it has no violates(rows)"
            raise TypeError(msg)
        scenarios = [scenario] if isinstance(scenario, Scenario) else list(scenario)
        if not scenarios or (requests is not None and not requests):
            msg = "expected at least one scenario and one workload"
            raise ValueError(msg)
        self.scenario = scenarios[0]
        self.n_envs = n_envs
        self.observation_spec = observation or ObservationSpec()
        if self.observation_spec.is_advised != (advisor is not None):
            given = "none" if advisor is None else "one"
            msg = f"advisor: observation preset {self.observation_spec.preset!r} was given {given}"
            raise ValueError(msg)
        self._advisor = advisor
        self._advice: Advice = np.full((n_envs, len(ADVICE_ENTRIES)), np.nan)
        self.episode_ticks = episode_ticks or common_episode_ticks(scenarios)
        self.tick_s = self.scenario.control.tick_s
        self._reward_fn = reward_fn
        if requests is None:
            requests = [one.requests(split, seed=seed, traces_dir=traces_dir) for one in scenarios]
        if len(scenarios) == 1:
            scenarios *= len(requests)
        self._mixture = Mixture(scenarios, requests)
        self._check_spans(split)
        self._engine = self._mixture.engine(
            n_envs,
            episode_s=self.episode_s,
            threads=min(threads or os.cpu_count() or 1, n_envs),
        )
        self.workloads = np.zeros(n_envs, np.int64)
        self.episodes = [Episode(0.0, 0, (), ())] * n_envs
        self._seeds = np.random.SeedSequence(seed)
        self._history = np.full((n_envs, self.observation_spec.history_ticks, len(FIELDS)), np.nan)
        self._since_change = np.zeros(n_envs, np.int64)
        self._ticks = np.full(n_envs, _NEVER_RESET)
        self._counters = self._engine.counters
        self.replicas = self._mixture.start_replicas[self.workloads]
        self.threshold_steps = self._mixture.start_threshold_steps[self.workloads]

    @property
    def episode_s(self) -> float:
        """Length of an episode."""
        return self.episode_ticks * self.tick_s

    @property
    def contract(self) -> Contract:
        """The contract a policy trained here is bound to."""
        telemetry = self.scenario.telemetry
        return Contract(
            self.observation_spec,
            self.tick_s,
            telemetry.window_s,
            telemetry.minimum_samples,
            None if self._advisor is None else self._advisor.identity,
        )

    @property
    def seen(self) -> NDArray[np.float64]:
        """The scraped rows."""
        return self._engine.seen

    @property
    def truth(self) -> NDArray[np.float64]:
        """The plant's own rows."""
        return self._engine.truth

    def first_tokens(self) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Gateway and latency in seconds of every first token of the tick that has just ended."""
        return self._engine.first_tokens(self.tick_s)

    def _check_spans(self, split: str | None) -> None:
        for scenario, requests in zip(self._mixture.scenarios, self._mixture.requests, strict=True):
            if len(requests) == 0:
                msg = f"{scenario.name}: no request in the {split or 'whole'} range"
                raise ScenarioError(msg)
            if requests.span_s < self.episode_s:
                msg = (
                    f"{scenario.name}: the {split or 'whole'} range has "
                    f"{requests.span_s:.0f} s, an episode of {self.episode_ticks} ticks takes "
                    f"{self.episode_s:.0f} s: take fewer ticks or a longer range"
                )
                raise ScenarioError(msg)

    def reset(
        self,
        rows: NDArray[np.int64] | None = None,
        *,
        starts_s: NDArray[np.float64] | None = None,
        seeds: NDArray[np.int64] | None = None,
        workloads: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float32]:
        """Starts episodes anew.

        Args:
            rows: Which gateways; `None`: all.
            starts_s: Where each episode begins within the workload, in seconds; `None`: drawn.
            seeds: One for each of `rows`: the same seed gives the same episode, to the bit;
                `None`: the next of the batch's own.
            workloads: Index of the workload of each, and so of its scenario; `None`: the first.

        Returns:
            The observations of all gateways, `(n, D)`.

        Raises:
            ValueError: An episode that begins there does not fit into the workload, or there is no
                such workload.
            NotResetError: The first reset leaves gateways out.
        """
        which = np.arange(self.n_envs) if rows is None else np.asarray(rows, np.int64)
        self._refuse_never_reset(np.setdiff1d(np.arange(self.n_envs), which))
        if seeds is None:
            sequences = self._seeds.spawn(len(which))
        else:
            sequences = [np.random.SeedSequence(int(seed)) for seed in seeds]
        chosen = np.zeros(len(which), np.int64) if workloads is None else np.asarray(workloads)
        mixture = self._mixture
        outside = (chosen < 0) | (chosen >= self.n_workloads)
        if outside.any():
            msg = f"workload is {chosen[outside][0]}, expected 0 to {self.n_workloads - 1}"
            raise ValueError(msg)
        episodes = list(self.episodes)
        starts = np.empty(len(which))
        engine_seeds = np.empty(len(which), np.uint64)
        faults, metric_faults = [], []
        for k, sequence in enumerate(sequences):
            scenario, load = mixture.scenarios[chosen[k]], mixture.requests[chosen[k]]
            room_s = load.span_s - self.episode_s
            drawn = draw_episode(scenario, sequence, room_s=room_s, episode_s=self.episode_s)
            if starts_s is not None and not 0 <= starts_s[k] <= room_s:
                msg = f"start_s is {starts_s[k]}, expected 0 to {room_s:g}: an episode must fit"
                raise ValueError(msg)
            if starts_s is not None:
                drawn = replace(drawn, start_s=float(starts_s[k]))
            episodes[which[k]] = drawn
            starts[k], engine_seeds[k] = drawn.start_s, drawn.engine_seed
            faults.append(drawn.faults)
            metric_faults.append(drawn.metric_faults)
        self.episodes = episodes
        self.workloads[which] = chosen
        self.replicas[which] = mixture.start_replicas[chosen]
        self.threshold_steps[which] = mixture.start_threshold_steps[chosen]
        self._engine.reset(
            which,
            seeds=engine_seeds,
            workloads=mixture.load[chosen],
            kinds=mixture.place[chosen],
            start_s=starts,
            warmup_s=self.scenario.control.warmup_s,
            replicas=self.replicas,
            threshold_percent=self.threshold_steps * THRESHOLD_STEP_PERCENT,
            faults=faults,
            metric_faults=metric_faults,
        )
        self._counters = self._engine.counters
        self._ticks[which] = 0
        self._since_change[which] = 0
        self._history[which] = np.nan
        self._history[which, -1] = self.seen[which]
        if self._advisor is not None:
            self._advice[which] = self._advisor.begin(
                which, self.seen[which], mixture.place[chosen]
            )
        return self._observations()

    def step(self, actions: Ints) -> BatchStep:
        """One tick under one action each, `(n, 2)`; a step beyond a bound is done as no change."""
        scale, threshold = decode(actions)
        if len(scale) != self.n_envs:
            msg = f"{len(scale)} actions for {self.n_envs} gateways"
            raise ValueError(msg)
        replicas = np.clip(self.replicas + scale, self.min_replicas, self.max_replicas)
        steps = np.clip(self.threshold_steps + threshold, MIN_THRESHOLD_STEPS, MAX_THRESHOLD_STEPS)
        clamped = {
            "clamped_replicas": replicas - self.replicas != scale,
            "clamped_threshold": steps - self.threshold_steps != threshold,
        }
        return self._advance(replicas, steps, None, scale, clamped)

    def step_settings(
        self,
        replicas: ArrayLike,
        threshold_steps: ArrayLike,
        max_outstanding: Sequence[int | None] | None = None,
    ) -> BatchStep:
        """One tick under given settings, `(n,)` each, kept in bounds: for controllers that jump."""
        asked = np.asarray(replicas, np.int64)
        bounded = np.clip(asked, self.min_replicas, self.max_replicas)
        asked_steps = np.asarray(threshold_steps, np.int64)
        steps = np.clip(asked_steps, MIN_THRESHOLD_STEPS, MAX_THRESHOLD_STEPS)
        limits = None
        if max_outstanding is not None:
            limits = np.array([no_limit(limit) for limit in max_outstanding], np.int64)
        clamped = {
            "clamped_replicas": bounded != asked,
            "clamped_threshold": steps != asked_steps,
        }
        return self._advance(bounded, steps, limits, np.sign(asked - self.replicas), clamped)

    def branch(
        self,
        sources: NDArray[np.int64],
        targets: NDArray[np.int64],
        origin: GatewayBatch | None = None,
    ) -> None:
        """Makes gateway `targets[k]` what gateway `sources[k]` is, `(k,)` each, to the bit.

        Both then go on alike under the same actions, chance included.

        Args:
            sources: Which gateways are copied; one may be so often.
            targets: Over which they are laid.
            origin: Whose gateways the sources are; `None`: this batch's.

        Raises:
            ValueError: A target is named twice or is a source too, or `origin` is of another kind.
            NotResetError: A source has had no reset yet.
        """
        there = self if origin is None else origin
        if not there._mixture.equals(self._mixture):
            msg = "origin: expected a batch of the same scenarios over the same loads"
            raise ValueError(msg)
        there._refuse_never_reset(sources)  # of the same class
        self._engine.branch(sources, targets, None if origin is None else origin._engine)
        for name in (
            *("workloads", "replicas", "threshold_steps"),
            *("_ticks", "_since_change", "_history"),
        ):
            getattr(self, name)[targets] = getattr(there, name)[sources]
        for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
            self.episodes[target] = there.episodes[source]
        self._counters = self._engine.counters
        if self._advisor is not None:
            self._advisor.copy_rows(sources, targets, there._advisor)
            self._advice[targets] = there._advice[sources]

    @property
    def n_workloads(self) -> int:
        """How many workloads an episode may draw from."""
        return len(self._mixture.requests)

    @property
    def min_replicas(self) -> NDArray[np.int64]:
        """`(n,)`: fewest replicas each may ask for."""
        return self._mixture.min_replicas[self.workloads]

    @property
    def max_replicas(self) -> NDArray[np.int64]:
        """`(n,)`: most replicas each may ask for."""
        return self._mixture.max_replicas[self.workloads]

    @property
    def rest_threshold_steps(self) -> NDArray[np.int64]:
        """`(n,)`: threshold that each episode began with."""
        return self._mixture.start_threshold_steps[self.workloads]

    @property
    def ready_in_s(self) -> NDArray[np.float64]:
        """`(n, R)` s: how long until a replica takes requests; 0: it does, infinite: never."""
        return self._engine.ready_in_s

    def fingerprint(self, gateway: int) -> bytes:
        """A hash of a gateway's state but for its threshold: equal ones go on alike."""
        return self._engine.fingerprint(gateway)

    def _advance(
        self,
        replicas: NDArray[np.int64],
        threshold_steps: NDArray[np.int64],
        max_outstanding: NDArray[np.int64] | None,
        scale_choice: NDArray[np.int64],
        clamped: dict[str, NDArray[np.bool_]],
    ) -> BatchStep:
        """Applies settings, runs the plant, scrapes, rates."""
        self._refuse_never_reset(np.arange(self.n_envs))
        before = self.truth.copy()
        self._since_change = np.where(replicas != self.replicas, 0, self._since_change + 1)
        self.replicas, self.threshold_steps = replicas, threshold_steps
        self._engine.tick(
            self.tick_s, replicas, threshold_steps * THRESHOLD_STEP_PERCENT, max_outstanding
        )
        self._ticks += 1
        self._history[:, :-1] = self._history[:, 1:]
        self._history[:, -1] = self.seen
        if self._advisor is not None:
            self._advice = self._advisor.advise(self.seen)
        parts = self._reward_fn(before, scale_choice, self.truth)
        old, self._counters = self._counters, self._engine.counters
        return BatchStep(
            observation=self._observations(),
            reward=np.sum(list(parts.values()), axis=0),
            parts=parts,
            truncated=self._ticks >= self.episode_ticks,
            info={
                "violation": self._reward_fn.violates(self.truth),
                **tick_info(old, self._counters, self._engine.attribution),
                **clamped,
            },
        )

    def _refuse_never_reset(self, rows: NDArray[np.int64]) -> None:
        never = rows[self._ticks[rows] == _NEVER_RESET]
        if len(never):
            msg = f"gateway {never[0]} was never reset"
            raise NotResetError(msg)

    def _observations(self) -> NDArray[np.float32]:
        advice = None if self._advisor is None else self._advice
        return encode(self._history, self._since_change, self.observation_spec, advice)
