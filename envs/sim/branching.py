"""Branching: the whole state of one gateway laid over another's, and states told apart.

Of the arrays that are as large as the most that could ever happen only what is in use is copied;
scratch is not.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernel import kernel
from .state import EngineState

Words = NDArray[np.uint64]
_WORD_BYTES = 8
"""Every record of the state is a multiple of it, for each holds a number that is aligned to it."""


def held_words(state: EngineState, rows: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """How much of each sparse array these gateways use, `(k,)` words each, from its beginning on.

    A ring that has come round is in use as a whole.
    """
    env, room = state.env[rows], state.pool.shape[1]
    counts = {
        "pool": env["used"],
        "retries": np.minimum(env["retry_tail"], room),
        "retry_due": np.minimum(env["retry_tail"], room),
        "comebacks": np.minimum(env["comeback_tail"], state.comebacks.shape[1]),
        "samples": env["samples"],
        "values": np.zeros(len(rows), np.int64),
    }
    return {
        name: count * (getattr(state, name).itemsize // _WORD_BYTES)
        for name, count in counts.items()
    }


def words_of(array: NDArray[Any]) -> Words:
    """An array of n gateways as `(n, words)`, without copying it."""
    return array.reshape(len(array), -1).view(np.uint64)


def check_targets(sources: NDArray[np.int64], targets: NDArray[np.int64], *, within: bool) -> None:
    """Refuses what the order of copying would decide.

    Args:
        sources: Which gateways are copied.
        targets: Over which they are laid.
        within: Whether both are of one engine.

    Raises:
        ValueError: A target is named twice, or is a source.
    """
    named = np.concatenate([targets, np.unique(sources)]) if within else targets
    gateways, times = np.unique(named, return_counts=True)
    if (times > 1).any():
        msg = (
            f"gateway {gateways[times > 1][0]} would be two at once: "
            "expected each target once, and none that is a source"
        )
        raise ValueError(msg)


def branch(
    origin: EngineState,
    sources: NDArray[np.int64],
    state: EngineState,
    targets: NDArray[np.int64],
) -> None:
    """Lays gateway `sources[k]` of `origin` over gateway `targets[k]` of `state`, `(k,)` each."""
    held, before = held_words(origin, sources), held_words(state, targets)
    for name, there, here in zip(EngineState._fields, origin, state, strict=True):
        if here.size > 0:
            words = words_of(here)
            lengths = np.full(len(sources), words.shape[1])
            if name in held:  # over what was there, too: copies of one gateway are alike throughout
                lengths = np.maximum(held[name], before[name])
            copy_words(words_of(there), sources, words, targets, lengths)


@kernel
def copy_words(
    origin: Words,
    sources: NDArray[np.int64],
    state: Words,
    targets: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> None:
    """The first `lengths[k]` words of row `sources[k]`, to row `targets[k]`."""
    for k in range(sources.shape[0]):
        there, here = origin[sources[k]], state[targets[k]]
        for place in range(lengths[k]):
            here[place] = there[place]


def fingerprint(state: EngineState, e: int) -> bytes:
    """A hash of all that decides what becomes of gateway e under given settings.

    Equal ones go on alike. The threshold in force is left out: the next tick sets its own before
    anybody looks. States that differ in what nobody will read may still have different ones.
    """
    row = np.array([e])
    env = state.env[row].copy()
    env["threshold_percent"] = 0
    digest = hashlib.blake2b(env.tobytes(), digest_size=16)
    held = held_words(state, row)
    for name, array in zip(EngineState._fields[1:], state[1:], strict=True):
        if array.size > 0:
            words = words_of(array)[e]
            digest.update(words[: held[name][0] if name in held else None].tobytes())
    return digest.digest()
