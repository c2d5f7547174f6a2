"""Where a search for hyperparameters looks."""

from __future__ import annotations

from dataclasses import replace

from .baselines.site import Suggest
from .config import DQNConfig, PPOConfig, TrainingConfig


def suggested(config: TrainingConfig, suggest: Suggest) -> TrainingConfig:
    """The configuration with other hyperparameters of its learner; all else stays.

    Args:
        config: What is varied.
        suggest: Where values come from.
    """
    is_advised = config.observation_spec.is_advised
    if config.algo == "ppo":
        return replace(config, ppo=_ppo(config.ppo, suggest, is_advised=is_advised))
    return replace(config, dqn=_dqn(config.dqn, suggest, is_advised=is_advised))


def _ppo(config: PPOConfig, suggest: Suggest, *, is_advised: bool) -> PPOConfig:
    learning_rate = suggest.suggest_float("learning_rate", 2e-4, 4e-3, log=True)
    found = replace(
        config,
        learning_rate=learning_rate,
        learning_rate_end=learning_rate / 100,
        n_epochs=suggest.suggest_int("n_epochs", 3, 12),
        clip_range=suggest.suggest_float("clip_range", 0.1, 0.3),
        gae_lambda=(
            suggest.suggest_float("gae_lambda_scaling", 0.9, 1.0),
            suggest.suggest_float("gae_lambda_threshold", 0.6, 1.0),
        ),
        entropy_coef=suggest.suggest_float("entropy_coef", 1e-4, 1e-2, log=True),
    )
    if is_advised:
        logit = suggest.suggest_float("advice_logit", 2.0, 4.0)
        found = replace(found, advice_logits=(logit, logit))
    if config.twins % 4 == 0:
        lean = suggest.suggest_float("twin_lean", 0.0, 1.5)
        found = replace(found, twin_leans=(lean, lean))
    return found


def _dqn(config: DQNConfig, suggest: Suggest, *, is_advised: bool) -> DQNConfig:
    learning_rate = suggest.suggest_float("learning_rate", 5e-5, 1e-3, log=True)
    found = replace(
        config,
        learning_rate=learning_rate,
        learning_rate_end=learning_rate / 30,
        n_steps=suggest.suggest_int("n_steps", 1, 16, log=True),
        gradient_steps=suggest.suggest_int("gradient_steps", 1, 8),
        target_update_steps=suggest.suggest_int("target_update_steps", 2_000, 20_000, log=True),
        exploration_start=suggest.suggest_float("exploration_start", 0.05, 0.5),
    )
    if is_advised:
        value = suggest.suggest_float("advice_value", 0.01, 0.1, log=True)
        found = replace(found, advice_value=(value, value))
    return found
