"""The gateway as a Gymnasium environment: nothing but wiring around one row of `GatewayBatch`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from .advisor import Advisor
from .batch import GatewayBatch, NotResetError
from .reward_fn import RewardFn
from .scenario import Scenario, load_scenario
from .schema.action import ACTION_DIMS
from .schema.observation import ObservationSpec, Preset
from .schema.tables import actions_table, advice_table, observation_table

Observation = NDArray[np.float32]
Action = NDArray[np.int64]
MakeAdvisor: TypeAlias = Callable[[Scenario, int], Advisor]
"""Makes the advisor of so many gateways of a scenario."""


def make_batch(  # noqa: PLR0913
    scenario: Scenario | str | Path,
    n_envs: int,
    reward_fn: RewardFn | str,
    *,
    observation: Preset,
    frame_stack: int,
    advisor: MakeAdvisor | str,
    split: str | None,
    episode_ticks: int | None,
    traces_dir: str | Path | None,
    requests_seed: int,
) -> GatewayBatch:
    """Builds the batch behind an env from what `gymnasium.make` can be given: names and objects."""
    scenario = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    spec, advises = ObservationSpec(observation, frame_stack), None
    if spec.is_advised:
        make: MakeAdvisor = resolve_name(advisor) if isinstance(advisor, str) else advisor
        advises = make(scenario, n_envs)
    return GatewayBatch(
        scenario,
        n_envs,
        reward_fn=resolve_name(reward_fn) if isinstance(reward_fn, str) else reward_fn,
        observation=spec,
        advisor=advises,
        split=split,
        seed=requests_seed,
        episode_ticks=episode_ticks,
        traces_dir=None if traces_dir is None else Path(traces_dir),
    )


def observation_space(spec: ObservationSpec) -> gymnasium.spaces.Box[np.float32]:
    """The space of one observation."""
    return gymnasium.spaces.Box(spec.low, spec.high, dtype=np.float32)


def action_space() -> gymnasium.spaces.MultiDiscrete:
    """The space of one action: scaling head, threshold head."""
    return gymnasium.spaces.MultiDiscrete(np.array(ACTION_DIMS))


@contextmanager
def gymnasium_errors() -> Iterator[None]:
    """Says what the batch refuses in Gymnasium's words: `ResetNeeded`."""
    try:
        yield
    except NotResetError as error:
        raise ResetNeeded(str(error)) from error


class GatewayEnv(gymnasium.Env[Observation, Action]):
    """Replaced below by a text with the tables of the contract."""

    def __init__(  # noqa: PLR0913
        self,
        scenario: Scenario | str | Path = "demo",
        reward_fn: RewardFn | str = "gatepilot.reward.documented:default_reward",
        *,
        observation: Preset = "extended",
        frame_stack: int = 1,
        advisor: MakeAdvisor | str = "gatepilot.agents.scenario_advisor:scenario_advisor",
        split: str | None = "train",
        episode_ticks: int | None = None,
        traces_dir: str | Path | None = None,
        requests_seed: int = 0,
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None:
            msg = f"render_mode is {render_mode!r}, expected None: there is nothing to draw"
            raise ValueError(msg)
        self.render_mode = None
        self.batch = make_batch(
            scenario,
            1,
            reward_fn,
            observation=observation,
            frame_stack=frame_stack,
            advisor=advisor,
            split=split,
            episode_ticks=episode_ticks,
            traces_dir=traces_dir,
            requests_seed=requests_seed,
        )
        self.observation_space = observation_space(self.batch.observation_spec)
        self.action_space = action_space()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode.

        Args:
            seed: The same seed gives the same episode, to the bit.
            options: `start_s`: where in the split the episode begins, in seconds; drawn without it.

        Returns:
            The first observation and an empty info.

        Raises:
            ValueError: An episode that begins at `start_s` does not fit into the split.
        """
        super().reset(seed=seed)
        start_s = None if options is None else options.get("start_s")
        observation = self.batch.reset(
            seeds=self.np_random.integers(0, 1 << 62, 1),
            starts_s=None if start_s is None else np.array([start_s]),
        )
        return observation[0], {}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Runs one control interval.

        Raises:
            ResetNeeded: There was no reset yet.
        """
        with gymnasium_errors():
            step = self.batch.step(np.asarray(action)[np.newaxis])
        info = {name: values[0].item() for name, values in step.info.items()}
        info["reward_parts"] = {name: float(values[0]) for name, values in step.parts.items()}
        return step.observation[0], float(step.reward[0]), False, bool(step.truncated[0]), info


GatewayEnv.__doc__ = f"""An AI gateway in front of LLM replicas.

## Description
Requests of a real or modelled service arrive at a gateway that routes them to replicas, each an
engine with continuous batching, chunked prefill and a KV cache. Every tick (15 s) the agent may
start or drain one replica and move the error share at which the circuit breaker takes a replica
out.

## Action Space
`MultiDiscrete([3, 3])`. A step beyond a bound is executed as no change.

{actions_table()}

## Observation Space
A `Box` of one entry a row; which rows there are depends on `observation`. Missing is 0 with its
known flag at 0.

`observation="documented"`:

{observation_table(ObservationSpec("documented"))}

`observation="extended"`:

{observation_table(ObservationSpec("extended"))}

`observation="advised"`: the same, and what the analytical planner says of the newest tick:

{advice_table()}

## Rewards
By default the documented one: `-0.03` a billed replica, `-5` for a violated objective (P95 of the
time to first token above 0.8 s, or more than 2 % errors), `+0.1` for no change of replicas and
`-0.05` for one. It is taken from the plant's own measurements, not from the scraped ones that the
agent sees.

## Starting State
A random window of the scenario's split, with `initial_replicas` ready replicas after a warm-up.

## Episode End
Truncated after `episode_ticks`; never terminated.

## Arguments
`scenario` (name, path or object), `reward_fn` (object or "module:attribute"), `observation`,
`frame_stack`, `advisor` (a function of scenario and number of gateways, or "module:attribute"; used
where `observation` is `advised`), `split`, `episode_ticks`, `traces_dir` (where trace files lie; a
shipped model stands in for an absent one), `requests_seed` (of the superposition and of a sampled
model).

## Version History
* v0: first version
"""
