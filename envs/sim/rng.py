"""One small generator per gateway, kept in its state: a seed gives the same bytes on any thread."""

from __future__ import annotations

import numpy as np

from .kernel import kernel


@kernel
def next_u64(env):
    """SplitMix64 (Steele, Lea, Flood 2014): one 64-bit state, full period, passes BigCrush."""
    env.rng += np.uint64(0x9E3779B97F4A7C15)
    z = env.rng
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def uniform(env):
    """A float in [0, 1) with 53 random bits."""
    return (next_u64(env) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def below(env, n):
    """An integer in [0, n), by multiply-shift: its bias, n / 2^32, is below anything measurable."""
    return np.int64(((next_u64(env) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))
