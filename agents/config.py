"""All that can be set about a training, as frozen dataclasses that YAML maps onto one to one."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ..envs.scenario_file import first_problem, to_json
from ..envs.scenario_numbers import SPEC_CONFIG, Count, Share
from ..envs.schema.observation import ObservationSpec, Preset
from .baselines.planner.params import PlannerParams

Algorithm = Literal["ppo", "dqn"]
"""The learners there are."""
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Factor = Annotated[float, Field(ge=1, le=100)]
Text = Annotated[str, Field(min_length=1)]
Layers = tuple[Count, ...]


class ConfigError(ValueError):
    """A configuration that cannot be used: one line with file, key and what would be right."""


@dataclass(frozen=True)
class PPOConfig:
    """Proximal policy optimisation over `MultiDiscrete([3, 3])`."""

    __pydantic_config__: ClassVar[ConfigDict] = SPEC_CONFIG

    n_steps: Count = 128
    """Ticks each environment runs between two updates."""
    batch_size: Annotated[int, Field(ge=2)] = 512
    """Samples of one gradient step, whose advantages are brought to mean 0 and spread 1; divides
    `n_envs * n_steps`."""
    n_epochs: Count = 8
    """Passes over the collected samples."""
    learning_rate: Positive = 5e-4
    """Adam's step at the start."""
    learning_rate_end: NotNegative = 5e-5
    """Adam's step at the end, linear in between: late checkpoints then differ little."""
    gamma: Share = 0.98
    """Discount of a tick: 0.98 looks about 50 ticks (12 minutes) ahead, several cold starts. The
    document's 0.99 stands in the documented configuration."""
    gae_lambda: tuple[Share, Share] = (0.95, 0.95)
    """Bias against variance of the advantages, of the scaling head and of the threshold head: how
    far each looks before it trusts the value (`headwise_ppo`)."""
    clip_range: Positive = 0.2
    """How far the probability of an action may move in one update."""
    entropy_coef: float = 0.003
    """Weight of the entropy bonus at the start."""
    entropy_coef_end: float | None = None
    """Weight at the end, linear in between; below 0 it is a price: choices become definite, so
    that the most probable one does what the sampled ones did. None: as at the start."""
    value_coef: NotNegative = 0.5
    """Weight of the value loss."""
    max_grad_norm: Positive = 0.5
    """Length to which a gradient is shortened."""
    hidden: Layers = (64, 64)
    """Units of the layers, the same for policy and value network."""
    no_change_bias: tuple[NotNegative, NotNegative] = (0.0, 3.0)
    """Where a head follows no advice: logits by which scaling head and threshold head prefer "no
    change" before anything is learned. 3 makes it 91 % of the choices: the threshold rests
    unless moving it pays. On the scaling head a bias only delays learning: for long, the most
    probable action is then none."""

    advice_logits: tuple[NotNegative, NotNegative] = (2.5, 2.5)
    """Where the policy sees advice: logits by which the choice that the advice asks for is ahead in
    each head before anything is learned. 2.5 makes it 86 % of the choices: the policy begins as the
    advisor, with some exploration around it. 0: the head follows nobody, and `no_change_bias`
    holds."""

    twins: Count = 1
    """Environments that live through the same episodes, each by its own choices. Advantages are
    then taken relative to the mean of the twins at the same tick (`headwise_ppo`); divides
    `n_envs`. 1: every environment for itself."""

    twin_leans: tuple[NotNegative, NotNegative] = (0.0, 0.0)
    """Logits by which twins lean while experience is collected, in the scaling head and in the
    threshold head: half of them towards one more and half towards one less, all four ways in four
    twins (`headwise_ppo`). 1 lets a policy that follows its advisor hold about half a replica more
    or less. (0, 0): nobody leans; otherwise `twins` is a multiple of 4."""

    scale_up_logits: Annotated[tuple[NotNegative, ...], Field(min_length=1)] = (0.0, 1.0, 2.0)
    """Each checkpoint is judged once with each of these added to the logit of "one replica more",
    and the best is kept. While load rises slowly, to act in this tick or in the next is nearly the
    same, so a sampled policy spreads the choice over several ticks; the most probable action alone
    would then be to do nothing until it is too late."""

    advice_margins: Annotated[tuple[NotNegative, ...], Field(min_length=1)] = (0.0,)
    """Each checkpoint is judged, too, with each of these added to the logits of what the advice
    asks for (`nudges`)."""

    def entropy_coef_at(self, share: float) -> float:
        """Weight of the entropy bonus after a share of the training."""
        end = self.entropy_coef if self.entropy_coef_end is None else self.entropy_coef_end
        return self.entropy_coef + share * (end - self.entropy_coef)


@dataclass(frozen=True)
class DQNConfig:
    """Deep Q-learning over the table of nine actions."""

    __pydantic_config__: ClassVar[ConfigDict] = SPEC_CONFIG

    learning_rate: Positive = 5e-4
    """Adam's step at the start."""
    learning_rate_end: NotNegative | None = None
    """Adam's step at the end, linear in between: the order of values that are nearly equal then
    comes to rest. None: as at the start."""
    gamma: Share = 0.99
    """Discount of a tick (source document)."""
    n_steps: Count = 1
    """Rewards that are summed up before the next value is looked up: an order pays only when the
    replica is ready, several ticks later."""
    buffer_size: Count = 100_000
    """Transitions kept for replay (source document)."""
    learning_starts: Annotated[int, Field(ge=0)] = 10_000
    """Steps before the first gradient step."""
    batch_size: Count = 256
    """Transitions of one gradient step."""
    gradient_steps: Count = 4
    """Gradient steps after each tick of all environments."""
    target_update_steps: Count = 8_000
    """Steps between two copies into the target network."""
    exploration_start: Share = 1.0
    """Share of random actions at the start (source document)."""
    exploration_end: Share = 0.1
    """Share of random actions at the end (source document)."""
    exploration_fraction: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Part of the training over which exploration falls linearly; afterwards it stays at its
    end."""
    advice_value: tuple[NotNegative, NotNegative] = (0.02, 0.02)
    """Where the policy sees advice: by how much a choice that it asks for is worth more, for each
    head, before anything is learned; in units of the scaled reward. The other layers begin near 0,
    so that the greedy choice is the advice's. 0: the head follows nobody, and `no_change_value`
    holds."""
    advice_margins: Annotated[tuple[NotNegative, ...], Field(min_length=1)] = (0.0,)
    """Each checkpoint is judged once with each of these added to the value of what the advice asks
    for, in units of the scaled reward, and the best is kept (`nudges`). Values are never as exact
    as the differences between neighbouring sizes are small."""
    no_change_value: tuple[NotNegative, NotNegative] = (0.0, 0.02)
    """Where the policy sees advice and a head does not follow it: by how much "no change" is worth
    more before anything is learned."""
    max_grad_norm: Positive = 10.0
    """Length to which a gradient is shortened."""
    hidden: Layers = (64, 64)
    """Units of the layers."""


@dataclass(frozen=True)
class ValidationConfig:
    """How checkpoints are judged while training runs."""

    __pydantic_config__: ClassVar[ConfigDict] = SPEC_CONFIG

    every_steps: Count = 100_000
    """Training steps between two validations; there is one before the first step and one at the
    end."""
    windows: Count = 32
    """Windows: disjoint ones, and where the range holds fewer, the same again under traffic that is
    laid out anew (other shifts of the copies)."""
    ticks: Count = 60
    """Length of a window."""
    wandering_windows: Annotated[int, Field(ge=0)] = 0
    """Further windows in which the rate wanders as in training (`load_curves`). A short validation
    range may hold no incident at all, and then favours whoever is leanest."""


@dataclass(frozen=True)
class RandomisationConfig:
    """How far variants of a scenario may differ from it (`agents/randomisation.py`)."""

    __pydantic_config__: ClassVar[ConfigDict] = SPEC_CONFIG

    cold_start: tuple[Positive, Positive] = (1.0, 1.0)
    """Bounds of the factor on the time from an order until the replica is ready."""
    start_replicas: bool = False
    """Whether each layout's episodes begin with a number of replicas of its own, drawn once."""
    surge: tuple[Factor, Factor] | None = None
    """Bounds of how many times more requests come in a surge; None: no further surges."""
    surge_interval_s: Positive = 2400.0
    """Mean time between two surges."""
    more_faults: Share = 0.0
    """Share of the variants that meet the faults of another of the training's scenarios, too: of
    one that has faults of other kinds."""

    def __post_init__(self) -> None:
        """Checks the order of the bounds."""
        for key in ("cold_start", "surge"):
            bounds = getattr(self, key)
            if bounds is not None and bounds[0] > bounds[1]:
                raise ValueError(f"{key}: [{bounds[0]}, {bounds[1]}] must be [lowest, highest]")


@dataclass(frozen=True)
class TrainingConfig:
    """One training: what is learned, on what, how long, from which seed."""

    __pydantic_config__: ClassVar[ConfigDict] = SPEC_CONFIG

    name: Text
    """Name of the run in MLflow."""
    scenarios: Annotated[tuple[Text, ...], Field(min_length=1)]
    """Names of shipped scenarios, or scenario files. Several: episodes go through them in turn;
    they have tick, warm-up, telemetry and the use of prefix caches in common."""
    algo: Algorithm = "ppo"
    """`ppo` or `dqn`."""
    observation: Preset = "advised"
    """What the policy sees: `advised` makes it a learned correction of the analytical planner."""
    frame_stack: Count = 1
    """Ticks it sees side by side."""
    advisor: PlannerParams = field(default_factory=PlannerParams)
    """How careful the planner is whose advice the policy sees. Used where `observation` is
    `advised`; the policy is bound to it."""
    advisors: dict[str, PlannerParams] = field(default_factory=dict)
    """How careful it is instead in some of the scenarios, by name: who runs a service tunes the
    planner for it, and what is learned corrects it. In a file, `tuned` stands for the settings
    that ship for each scenario. A policy that is exported for a scenario is bound to its
    planner."""
    reward: Text = "documented"
    """Name of a reward preset. Whatever is trained on, the documented return is reported."""
    reward_scale: Positive = 0.1
    """Factor on the reward that the learner gets. A positive constant multiplies the return of
    every policy alike, so their order stays; it keeps value targets near 1. Reports are
    unscaled."""
    threshold_rest: NotNegative = 0.01
    """Learning aid: price of one threshold step away from the scenario's start, a tick, while
    nothing fails. Nothing else tells thresholds apart in clean traffic, where they drift. 0:
    off."""
    n_envs: Count = 64
    """Gateways stepped together."""
    episode_ticks: Count | None = None
    """Ticks after which an episode is truncated; None: the scenarios', which must agree."""
    workloads: Count = 4
    """Times the training range's traffic is laid out anew (other shifts of the copies); each
    episode draws one. A range whose traffic is not superposed has one."""
    load_scales: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1.0,)
    """Factors on the scenario's rate, each of which is laid out `workloads` times: for policies
    that must hold at other loads than one range has. Validation and test keep the scenario's own
    rate."""
    load_curves: Annotated[int, Field(ge=0)] = 0
    """Further layouts, in each of which the rate wanders between the smallest and the largest of
    `load_scales` (`envs.workload.load_curve`): one day shows few of the ramps there are."""
    stretch_ticks: Count | None = None
    """Length of a layout: a stretch drawn anywhere in the training range, for each layout of each
    scenario its own; None: all of the range. Many short layouts show more than few long ones of
    which episodes only see parts, and take less memory."""
    randomised: RandomisationConfig | None = None
    """How all layouts are varied but one of each scenario, that at the rate nearest to its own;
    None: not at all. Nothing but the training is."""
    starts: Count | None = None
    """Windows of a scenario that are looked at for places where episodes may begin, before the
    first step; None: all."""
    steps: Count = 1_000_000
    """Ticks over all environments."""
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0
    """Seed of networks, exploration, windows and faults."""
    torch_threads: Count = 1
    """Threads of the networks: layers of 64 units are too small to share out."""
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    """How checkpoints are judged."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    """Used where `algo` is `ppo`."""
    dqn: DQNConfig = field(default_factory=DQNConfig)
    """Used where `algo` is `dqn`."""

    def __post_init__(self) -> None:
        """Checks what concerns more than one key."""
        collected = self.n_envs * self.ppo.n_steps
        if self.algo == "ppo" and collected % self.ppo.batch_size:
            raise ValueError(
                f"ppo.batch_size: {self.ppo.batch_size} must divide n_envs * ppo.n_steps "
                f"({collected})"
            )
        if self.algo == "ppo" and self.n_envs % self.ppo.twins:
            raise ValueError(f"ppo.twins: {self.ppo.twins} must divide n_envs ({self.n_envs})")
        if any(self.ppo.twin_leans) and self.ppo.twins % 4:
            raise ValueError(
                f"ppo.twins: {self.ppo.twins} must be a multiple of 4 where ppo.twin_leans is not 0"
            )
        twice = [name for i, name in enumerate(self.scenarios) if name in self.scenarios[:i]]
        if twice:
            raise ValueError(f"scenarios: {twice[0]} stands there twice")
        if self.randomised and self.randomised.more_faults and len(self.scenarios) == 1:
            raise ValueError("randomised.more_faults: there is no other scenario to take them from")

    @property
    def observation_spec(self) -> ObservationSpec:
        """The observation as the contract names it."""
        return ObservationSpec(self.observation, self.frame_stack)

    @property
    def general_advisor(self) -> PlannerParams | None:
        """How careful the advisor is where nothing else is said; `None`: nobody advises."""
        return self.advisor if self.observation_spec.is_advised else None

    def advisors_of(self, scenarios: Sequence[str]) -> list[PlannerParams] | None:
        """How careful the advisor is in each scenario; `None`: the policy sees no advice."""
        if not self.observation_spec.is_advised:
            return None
        return [self.advisors.get(name, self.advisor) for name in scenarios]


def parse_config(content: Any, *, where: str) -> TrainingConfig:  # noqa: ANN401
    """Builds a configuration from plain content (of a YAML file, or `dataclasses.asdict`).

    Args:
        content: A mapping with the keys of `TrainingConfig`.
        where: What to name in errors: a file.

    Raises:
        ConfigError: One line with file, key and what would be right.
    """
    if not isinstance(content, Mapping):
        raise ConfigError(f"{where}: expected keys and values such as `scenarios: [...]`")
    try:
        return _adapter().validate_json(to_json(content))
    except ValidationError as error:
        raise ConfigError(f"{where}: {first_problem(error, TrainingConfig)}") from error


def replaced(config: TrainingConfig, *, where: str, **changes: object) -> TrainingConfig:
    """The configuration with other values for some keys, checked like a file's.

    Args:
        config: The configuration to start from.
        where: What to name in errors.
        **changes: Values by key; `None` leaves a key as it is.

    Raises:
        ConfigError: One line with key and what would be right.
    """
    given = {key: value for key, value in changes.items() if value is not None}
    return parse_config(asdict(config) | given, where=where)


@functools.cache
def _adapter() -> TypeAdapter[TrainingConfig]:
    """The checker of `TrainingConfig`."""
    return TypeAdapter(TrainingConfig)
