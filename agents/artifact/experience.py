"""What training sees: the training traffic, under the policy and under a slow random walk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...envs.batch import GatewayBatch
from ...envs.scenario import Scenario
from ...reward.documented import default_reward
from ..baselines.planner.advisor import site_advisor
from ..config import TrainingConfig
from ..layouts import training_layouts
from ..normaliser import walk_actions
from ..policy import Policy
from ..starts import keepable_starts
from .layout import QUANTILE_LEVELS
from .manifest import Feature

TICKS: Final = 240
"""Ticks played in each gateway, under the policy and again under the walk."""
MAX_GATEWAYS: Final = 64
"""Gateways side by side: 31,000 observations in all."""
_STARTS: Final = 128
"""Windows looked at for places to begin, over all scenarios: twice as many as gateways."""
_SEED: Final = 61_007
"""Of the episodes and of the walk: the same run is always described by the same figures."""
Advance: TypeAlias = Callable[[int], None]
"""Told how many ticks, over all gateways, have just been simulated."""
Choose: TypeAlias = Callable[[NDArray[np.float32]], NDArray[np.int64]]
"""From observations `(n, D)` to actions `(n, 2)`."""


class TrainingTraffic:
    """The gateways of a training, ready to be played."""

    def __init__(
        self, config: TrainingConfig, scenarios: Sequence[Scenario], traces_dir: Path | None
    ) -> None:
        """Lays out the traffic, at every load that was trained on.

        Args:
            config: Of the training.
            scenarios: Of the training.
            traces_dir: Folder of the traces; `None`: workload models stand in.

        Raises:
            ScenarioError: The traffic cannot be loaded.
        """
        self._layouts = training_layouts(config, scenarios, traces_dir)
        self._starts = max(_STARTS // len(scenarios), 1)
        gateways = min(config.n_envs, MAX_GATEWAYS)
        self._batch = GatewayBatch(
            self._layouts.scenarios,
            gateways,
            reward_fn=default_reward,
            observation=config.observation_spec,
            advisor=site_advisor(self._layouts.sites, gateways, self._layouts.advisors(config)),
            split="train",
            episode_ticks=config.episode_ticks,
            requests=self._layouts.requests,
        )

    @property
    def ticks(self) -> int:
        """Ticks over all gateways that `play` takes."""
        return 2 * TICKS * self._batch.n_envs

    def play(self, policy: Policy, advance: Advance) -> NDArray[np.float32]:
        """Plays it from places where training begins.

        Args:
            policy: Decides.
            advance: Told of every tick.

        Returns:
            Every observation, `(n, D)`: the first half under the policy, the second under a slow
            random walk over the settings, as the normaliser's figures are taken.
        """
        batch = self._batch
        starts = np.concatenate(
            keepable_starts(self._layouts, batch.episode_ticks, at_most=self._starts)
        )
        rng = np.random.default_rng(_SEED)
        seen = [
            observation
            for choose in (policy.act, lambda o: walk_actions(rng, len(o)))
            for observation in _played(batch, choose, starts, rng, advance)
        ]
        return np.concatenate(seen)


def described(entries: tuple[str, ...], observations: NDArray[np.float32]) -> tuple[Feature, ...]:
    """Range and quantiles of every entry.

    Args:
        entries: Their names.
        observations: Shape `(n, D)`.
    """
    low, high = observations.min(axis=0), observations.max(axis=0)
    quantiles = np.quantile(observations, QUANTILE_LEVELS, axis=0, method="nearest")
    return tuple(
        Feature(name, float(low[i]), float(high[i]), tuple(map(float, quantiles[:, i])))
        for i, name in enumerate(entries)
    )


def _played(
    batch: GatewayBatch,
    choose: Choose,
    starts: NDArray[np.float64],
    rng: np.random.Generator,
    advance: Advance,
) -> list[NDArray[np.float32]]:
    """`TICKS` ticks of every gateway, in as many episodes as that takes."""
    observation = _begin(batch, np.arange(batch.n_envs), starts, rng)
    seen = [observation]
    advance(batch.n_envs)
    for _ in range(TICKS - 1):
        step = batch.step(choose(observation))
        observation = step.observation
        seen.append(observation)
        if step.truncated.any():
            observation = _begin(batch, np.flatnonzero(step.truncated), starts, rng)
        advance(batch.n_envs)
    return seen


def _begin(
    batch: GatewayBatch,
    rows: NDArray[np.intp],
    starts: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.float32]:
    """New episodes, spread over all loads and times; returns the observations of all gateways."""
    drawn = starts[rng.integers(0, len(starts), len(rows))]
    return batch.reset(
        rows,
        seeds=rng.integers(0, 1 << 62, len(rows)),
        workloads=drawn[:, 0].astype(np.int64),
        starts_s=drawn[:, 1],
    )
