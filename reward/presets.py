"""Rewards by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..envs.reward_fn import RewardFn
from .documented import DocumentedReward

REWARDS: Final[dict[str, Callable[[], RewardFn]]] = {"documented": DocumentedReward}
"""Name to factory: `REWARDS["documented"]()` is a `RewardFn` with that preset's weights."""
