"""A policy that is nudged: as it would decide if it leaned one way, or heeded its advisor more.

Where nothing tells two choices apart, noise does. A trained policy leaves its advisor in many
places for reasons that are none; told to follow it unless something speaks clearly for another
choice, it leaves it where it has learned something (as policy improvement does that is bound to a
baseline where data are few; Laroche et al., ICML 2019). How clearly is for validation to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

from stable_baselines3.common.policies import BasePolicy

from .averaging import weights_put_back
from .config import TrainingConfig
from .networks import GatewayActorCritic, GatewayDQNPolicy


@dataclass(frozen=True, slots=True)
class Nudge:
    """Two weights that are added to a policy's own."""

    scale_up_logit: float = 0.0
    """Of "one replica more"; PPO's alone."""
    advice_margin: float = 0.0
    """Of what the advice asks for, in each head: a logit, or a value as the learner has it."""


def nudges_of(config: TrainingConfig) -> tuple[Nudge, ...]:
    """All that a training's checkpoints are judged with."""
    logits = config.ppo.scale_up_logits if config.algo == "ppo" else (0.0,)
    margins = config.ppo.advice_margins if config.algo == "ppo" else config.dqn.advice_margins
    if not config.observation_spec.is_advised:
        margins = (0.0,)
    return tuple(Nudge(*pair) for pair in product(logits, margins))


@contextmanager
def nudged(policy: BasePolicy, nudge: Nudge) -> Iterator[None]:
    """Changes a policy's weights for the time of the block."""
    if nudge == Nudge():
        yield
        return
    with weights_put_back(policy):
        if isinstance(policy, GatewayActorCritic):
            policy.lean_up(nudge.scale_up_logit)
        if isinstance(policy, GatewayActorCritic | GatewayDQNPolicy):
            policy.heed(nudge.advice_margin)
        yield
