"""What happens between two rollouts: figures are recorded, checkpoints judged and kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback

from .averaging import AveragedWeights
from .checkpoint import save_checkpoint
from .config import TrainingConfig
from .learned_policy import LearnedPolicy
from .nudges import nudged, nudges_of
from .sb3_vec_env import GatewayVecEnv
from .validation import Validation, ValidationResult

BEST_MODEL_FILE: Final = "model.zip"
"""The best checkpoint by validation, as stable-baselines3 saves it."""
CHECKPOINT_FILE: Final = "checkpoint.pt"
"""Where a training goes on after a kill."""
_RECORD_STEPS: Final = 8_192
"""Steps between two points of a curve."""


class TrainingDivergedError(RuntimeError):
    """A network's weights are no longer finite."""


class Recorder(Protocol):
    """Where the figures of a training go."""

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Notes figures; they may be held back until `flush`."""
        ...

    def flush(self) -> None:
        """Writes what was held back."""
        ...


@dataclass(frozen=True, slots=True)
class TrainingStatus:
    """What a progress bar shows."""

    steps: int
    """Steps done."""
    steps_per_s: float
    """Mean speed since the start or the resumption, validations included."""
    episode_return: float | None
    """Mean return of the last complete training episodes; `None` before the first."""
    violation_rate: float | None
    """Share of violating ticks since the last look."""
    best_return: float | None
    """Best mean return on the validation windows so far (documented reward)."""
    has_collapsed: bool
    """Whether the last checkpoint that was judged chooses one action nearly everywhere."""


class TrainingCallback(BaseCallback):
    """Records, validates, keeps the best model, and writes checkpoints.

    All of it between rollouts, where nothing is half collected and a checkpoint is exact.
    """

    def __init__(
        self,
        *,
        env: GatewayVecEnv,
        validation: Validation,
        config: TrainingConfig,
        folder: Path,
        recorder: Recorder,
        on_status: Callable[[TrainingStatus], None],
        progress: Mapping[str, Any] | None = None,
    ) -> None:
        """Sets up.

        Args:
            env: The training environments.
            validation: Judges checkpoints.
            config: How often to validate, and with which nudges.
            folder: Where model and checkpoint are written.
            recorder: Takes the figures.
            on_status: Called after every point of the curve.
            progress: `progress` of the checkpoint that is resumed; `None`: a new training.
        """
        super().__init__()
        self._gateways = env
        self._validation = validation
        self._ppo, self._steps = config.ppo, config.steps
        self._every_steps = config.validation.every_steps
        self._nudges = nudges_of(config)
        self._folder = folder
        self._recorder = recorder
        self._on_status = on_status
        self._next_validation = 0
        self._next_record = 0
        self._episode_return: float | None = None
        self._started_steps = 0
        self._started_s: float | None = None
        self.wall_s_before = 0.0
        self.best: ValidationResult | None = None
        self._last: ValidationResult | None = None
        self.best_step = 0
        self._average = AveragedWeights()
        if progress is not None:
            self._average.restore(**progress["average"])
            self._next_validation = progress["next_validation"]
            self._next_record = progress["next_record"]
            self.wall_s_before = progress["wall_s"]
            self.best = ValidationResult(**progress["best"])
            self.best_step = progress["best_step"]

    @property
    def wall_s(self) -> float:
        """Seconds of training, those before a resumption included."""
        return self.wall_s_before + self._elapsed_s

    @property
    def _elapsed_s(self) -> float:
        """Seconds since this process has begun to train; 0 before."""
        return 0.0 if self._started_s is None else time.perf_counter() - self._started_s

    def _on_training_start(self) -> None:
        self._started_s = time.perf_counter()
        self._started_steps = self.num_timesteps

    def _on_rollout_start(self) -> None:
        self._look()
        if isinstance(self.model, PPO):
            self.model.ent_coef = self._ppo.entropy_coef_at(self._progress_share)

    @property
    def _progress_share(self) -> float:
        return min(self.model.num_timesteps / self._steps, 1.0)

    def _on_training_end(self) -> None:
        self._look(is_last=True)

    def _on_step(self) -> bool:
        return True

    def _look(self, *, is_last: bool = False) -> None:
        step = self.model.num_timesteps
        is_validation = step >= self._next_validation or is_last
        if not is_validation and step < self._next_record:
            return
        self._next_record = step + _RECORD_STEPS
        self._average.update(self.model.policy)
        values = self._take_figures()
        if is_validation:
            self._next_validation = step + self._every_steps
            values |= self._validate(step)
        self._recorder.record(step, values)
        if is_validation:
            self._recorder.flush()
            self._save_checkpoint()
        self._on_status(self._status(step, values))

    def _take_figures(self) -> dict[str, float]:
        """The environments' figures and the learner's losses since the last look."""
        values = {f"rollout/{k}": v for k, v in self._gateways.statistics.take().items()}
        self._episode_return = values.get("rollout/return", self._episode_return)
        logged = self.model.logger.name_to_value
        values |= {k: float(v) for k, v in logged.items() if k.startswith(("train/", "rollout/"))}
        logged.clear()
        return values

    def _validate(self, step: int) -> dict[str, float]:
        """Judges the mean of the recent weights, and keeps it if it is the best so far."""
        policy = self.model.policy
        if not all(torch.isfinite(p).all() for p in policy.parameters()):
            msg = f"training diverged: the network's weights are not finite after {step} steps"
            raise TrainingDivergedError(msg)
        policy.set_training_mode(False)
        with self._average.placed_in(policy):
            judged = []
            for nudge in self._nudges:
                with nudged(policy, nudge):
                    judged.append((self._validation.run(LearnedPolicy(policy)), nudge))
            result, nudge = max(judged, key=lambda pair: pair[0].score)
            self._last = result
            if self.best is None or result.score > self.best.score:
                self.best, self.best_step = result, step
                partial = self._folder / f"{BEST_MODEL_FILE}.partial"
                with nudged(policy, nudge), partial.open("wb") as file:
                    self.model.save(file)
                partial.replace(self._folder / BEST_MODEL_FILE)
        return {f"validation/{k}": v for k, v in result.figures().items()} | {
            "validation/best_return": self.best.return_mean,
            "validation/scale_up_logit": nudge.scale_up_logit,
            "validation/advice_margin": nudge.advice_margin,
        }

    def _save_checkpoint(self) -> None:
        if not isinstance(self.model, PPO | DQN):
            msg = f"the learner is {type(self.model).__name__}, expected PPO or DQN"
            raise TypeError(msg)
        save_checkpoint(self._folder / CHECKPOINT_FILE, self.model, self._progress())

    def _progress(self) -> dict[str, Any]:
        """What the callback needs to go on."""
        best = None if self.best is None else asdict(self.best)
        return {
            "next_validation": self._next_validation,
            "next_record": self._next_record,
            "wall_s": self.wall_s,
            "best": best,
            "best_step": self.best_step,
            "average": self._average.state(),
        }

    def _status(self, step: int, values: Mapping[str, float]) -> TrainingStatus:
        elapsed_s = max(self._elapsed_s, np.finfo(float).eps)
        return TrainingStatus(
            steps=step,
            steps_per_s=(step - self._started_steps) / elapsed_s,
            episode_return=self._episode_return,
            violation_rate=values.get("rollout/violation_rate"),
            best_return=None if self.best is None else self.best.return_mean,
            has_collapsed=self._last is not None and self._last.has_collapsed,
        )
