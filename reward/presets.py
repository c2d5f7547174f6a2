"""Rewards by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from ..envs.reward_fn import RewardFn
from .documented import DocumentedReward
from .early_warning import EarlyWarningReward
from .goodput import GoodputReward

REWARDS: Final[dict[str, Callable[[], RewardFn]]] = {
    "documented": DocumentedReward,
    "cautious": partial(DocumentedReward, violation_penalty=15.0),
    "early_warning": EarlyWarningReward,
    "goodput": GoodputReward,
}
"""Name to factory: `REWARDS["documented"]()` is a `RewardFn` with that preset's weights.

`cautious` is the documented one with violations at three times their price. To train on it buys
reserve for incidents that a training range is too short to show. `early_warning` also prices the
way to the limit; `goodput` counts requests instead of moments, without a cliff. What is reported
stays the documented one.
"""
