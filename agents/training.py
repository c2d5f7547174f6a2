"""A training from its configuration to its best model; resumable, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.logger import Logger

from ..envs.batch import GatewayBatch
from ..envs.reward_fn import RewardFn
from ..envs.scenario import Scenario, load_scenario
from ..envs.schema.fingerprint import Contract
from ..reward.presets import REWARDS
from .baselines.planner.advisor import advisor_identity, site_advisor
from .callbacks import (
    BEST_MODEL_FILE,
    CHECKPOINT_FILE,
    Recorder,
    TrainingCallback,
    TrainingStatus,
)
from .checkpoint import load_checkpoint, restore
from .config import ConfigError, TrainingConfig
from .digests import traffic_of
from .dqn import make_dqn
from .layouts import training_layouts
from .normaliser import observation_figures, set_figures
from .ppo import make_ppo
from .sb3_vec_env import GatewayVecEnv
from .starts import keepable_starts
from .validation import Validation, ValidationResult

_NEVER: Final = 1 << 62
"""Log interval of stable-baselines3: figures are taken between rollouts instead."""
Device = Literal["auto", "cpu", "cuda"]
"""Where networks are trained; `auto` is the CPU: layers of 64 units are faster there than on a
GPU."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """What a training ends with."""

    model_path: Path
    """The best model."""
    best_step: int
    """Steps after which it was the best."""
    validation: ValidationResult
    """Its figures on the validation windows."""
    steps: int
    """Steps done in all."""
    wall_s: float
    """Seconds, validations and the time before a resumption included."""

    @property
    def steps_per_s(self) -> float:
        """Mean speed."""
        return self.steps / self.wall_s


class Training:
    """A training that is set up: what is wrong with its configuration has shown itself by now."""

    def __init__(
        self, config: TrainingConfig, *, traces_dir: Path | None = None, device: Device = "auto"
    ) -> None:
        """Builds environments, validation windows and learner; runs and writes nothing yet.

        Args:
            config: What to train.
            traces_dir: Folder of the traces; `None`: workload models stand in for them.
            device: Where the networks live.

        Raises:
            ValueError: The configuration cannot be trained here: one line that says why.
        """
        self.config = config
        self.scenarios = tuple(load_scenario(name) for name in config.scenarios)
        names = [scenario.name for scenario in self.scenarios]
        for name in config.advisors:
            if name not in names:
                raise ConfigError(f"{config.name}: advisors: {name} is none of the scenarios")
        self.contract = contract_of(config, self.scenarios[0])
        traffic = [traffic_of(scenario, traces_dir) for scenario in self.scenarios]
        self.traffic = tuple(dict.fromkeys(one for one in traffic if one is not None))
        torch.set_num_threads(config.torch_threads)
        self._layouts = layouts = training_layouts(config, self.scenarios, traces_dir)
        reward_fn = _reward(config)
        batch = GatewayBatch(
            layouts.scenarios,
            config.n_envs,
            reward_fn=reward_fn,
            observation=config.observation_spec,
            advisor=site_advisor(layouts.sites, config.n_envs, layouts.advisors(config)),
            split="train",
            seed=config.seed,
            episode_ticks=config.episode_ticks,
            requests=layouts.requests,
        )
        self._env = GatewayVecEnv(
            batch,
            seed=config.seed,
            flat_actions=config.algo == "dqn",
            reward_scale=config.reward_scale,
            rest_weight=config.threshold_rest,
            twins=config.ppo.twins if config.algo == "ppo" else 1,
        )
        self._validation = Validation(
            self.scenarios,
            config.validation,
            load_scales=config.load_scales,
            reward_fn=reward_fn,
            observation=config.observation_spec,
            advisors=config.advisors_of(names),
            traces_dir=traces_dir,
        )
        self._model = _learner(config, self._env, _torch_device(device))
        self._model.set_logger(Logger(folder=None, output_formats=[]))

    def run(
        self,
        folder: Path,
        recorder: Recorder,
        *,
        on_status: Callable[[TrainingStatus], None] = lambda _: None,
        resume: bool = False,
    ) -> TrainingResult:
        """Trains to the end.

        Args:
            folder: Where the best model and the checkpoint are written.
            recorder: Takes the figures.
            on_status: Called a few times a second.
            resume: Go on from the folder's checkpoint: the outcome is the same as without the
                break.

        Returns:
            The best model and its figures.

        Raises:
            CheckpointError: There is no checkpoint, or it is of another configuration.
            TrainingDivergedError: The weights are no longer finite.
        """
        progress = None
        batch = self._env.batch
        layouts = self._layouts
        self._env.begin_only_at(
            keepable_starts(layouts, batch.episode_ticks, at_most=self.config.starts)
        )
        self._model.set_random_seed(self.config.seed)  # whoever has drawn numbers since __init__
        if resume:
            checkpoint = load_checkpoint(folder / CHECKPOINT_FILE)
            restore(self._model, checkpoint)
            progress = checkpoint["progress"]
        else:
            set_figures(self._model.policy, *observation_figures(batch, self.config.seed))
        callback = TrainingCallback(
            env=self._env,
            validation=self._validation,
            config=self.config,
            folder=folder,
            recorder=recorder,
            on_status=on_status,
            progress=progress,
        )
        missing_steps = self.config.steps - self._model.num_timesteps
        if missing_steps > 0:  # else it was killed after its last step
            self._model.learn(
                missing_steps,
                callback=callback,
                log_interval=_NEVER,
                reset_num_timesteps=not resume,
            )
        if callback.best is None:
            msg = "no validation took place"
            raise RuntimeError(msg)
        return TrainingResult(
            model_path=folder / BEST_MODEL_FILE,
            best_step=callback.best_step,
            validation=callback.best,
            steps=self._model.num_timesteps,
            wall_s=callback.wall_s,
        )


def contract_of(config: TrainingConfig, scenario: Scenario) -> Contract:
    """The contract a policy of this configuration is bound to."""
    return Contract(
        observation=config.observation_spec,
        control_interval_s=scenario.control.tick_s,
        window_s=scenario.telemetry.window_s,
        minimum_samples=scenario.telemetry.minimum_samples,
        advisor=advisor_identity(config.general_advisor),
    )


def _reward(config: TrainingConfig) -> RewardFn:
    if config.reward not in REWARDS:
        raise ConfigError(
            f"{config.name}: reward: unknown preset {config.reward!r}; known: {', '.join(REWARDS)}"
        )
    return REWARDS[config.reward]()


def _torch_device(device: Device) -> str:
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("--device cuda: torch finds no CUDA device here; use cpu or auto")
    return "cpu" if device == "auto" else device


def _learner(config: TrainingConfig, env: GatewayVecEnv, device: str) -> PPO | DQN:
    spec = config.observation_spec
    if config.algo == "ppo":
        return make_ppo(config.ppo, spec, env, seed=config.seed, device=device)
    return make_dqn(config.dqn, spec, env, seed=config.seed, device=device)
