"""Prefix reuse: what part of a prompt an earlier request of the same load has already brought.

Two columns say it per request: how many leading prompt tokens were seen before
(`prefix_hit_tokens`) and by whom last (`prefix_parent`, a row number). Both speak of a cache that
forgets nothing, so the hits are the most that any real cache can reuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

NO_PARENT = -1
"""Parent of a request whose prompt begins like none before it."""


def hits_of_blocks(
    block_ids: Iterable[Sequence[int]], prompt_tokens: NDArray[np.int32], block_tokens: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Finds hits and parents from the blocks that each prompt consists of.

    Equal ids stand for equal blocks behind equal prefixes. At least the last prompt token counts
    as new: an engine must compute it to get the first output token (vLLM, `KVCacheManager`:
    the longest cache hit is the prompt's length less one).

    Args:
        block_ids: Of each request in order of arrival, the ids of its blocks from the front.
        prompt_tokens: Lengths of the prompts.
        block_tokens: Tokens a block; a prompt's last one may hold fewer.

    Returns:
        `prefix_hit_tokens` and `prefix_parent`, the parent being the latest earlier request that
        holds the deepest block shared.
    """
    hit = np.zeros(prompt_tokens.size, dtype=np.int32)
    parent = np.full(prompt_tokens.size, NO_PARENT, dtype=np.int64)
    last_holder: dict[int, int] = {}
    for row, ids in enumerate(block_ids):
        shared = 0
        while shared < len(ids) and ids[shared] in last_holder:
            shared += 1
        tokens = min(shared * block_tokens, int(prompt_tokens[row]) - 1)
        if tokens > 0:
            hit[row], parent[row] = tokens, last_holder[ids[shared - 1]]
        last_holder.update(dict.fromkeys(ids, row))
    return hit, parent


def kept_prefixes(
    hit: NDArray[np.int32], parent: NDArray[np.int64], rows: NDArray[np.intp]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Carries hits and parents over to a selection of the requests.

    Where a parent is left out, the nearest kept one of its own ancestors takes its place: child
    and ancestor share at least the shortest hit on the way. Where none is kept, nothing is reused.

    Args:
        hit: `prefix_hit_tokens` of all requests.
        parent: `prefix_parent` of all requests.
        rows: Requests to keep, rising.

    Returns:
        Both columns for the kept requests; the hits are lower bounds of what is still shared.
    """
    place = np.full(hit.size, NO_PARENT, dtype=np.int64)
    place[rows] = np.arange(rows.size)
    hit, parent = hit.copy(), parent.copy()
    while True:  # every round doubles the steps up that are behind us
        lost = np.flatnonzero((parent != NO_PARENT) & (place[parent] == NO_PARENT))
        if not lost.size:
            break
        above = parent[lost]
        hit[lost] = np.minimum(hit[lost], hit[above])
        parent[lost] = parent[above]
    parent = parent[rows]
    return hit[rows], np.where(parent == NO_PARENT, NO_PARENT, place[parent])


def reordered_prefixes(
    hit: NDArray[np.int32], parent: NDArray[np.int64], order: NDArray[np.intp]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Carries hits and parents over to a new order; who comes before its parent reuses nothing.

    Args:
        hit: `prefix_hit_tokens`.
        parent: `prefix_parent`.
        order: Old row of each new one.
    """
    place = np.empty_like(parent)
    place[order] = np.arange(parent.size)
    parent = parent[order]
    parent = np.where(parent == NO_PARENT, NO_PARENT, place[parent])
    early = parent >= np.arange(parent.size)
    return np.where(early, 0, hit[order]).astype(np.int32), np.where(early, NO_PARENT, parent)


def check_prefixes(
    hit: NDArray[np.int32], parent: NDArray[np.int64], prompt_tokens: NDArray[np.int32]
) -> None:
    """Raises ValueError at the first request whose hit and parent cannot be."""
    row = np.arange(hit.size)
    rules = (
        ("prefix_hit_tokens", hit, (hit >= 0) & (hit < prompt_tokens), "from 0 to the prompt - 1"),
        ("prefix_parent", parent, (parent >= NO_PARENT) & (parent < row), "an earlier row, or -1"),
        ("prefix_parent", parent, (parent == NO_PARENT) == (hit == 0), "-1 where the hit is 0"),
    )
    for name, values, good, expected in rules:
        if not good.all():
            index = int(np.argmin(good))
            raise ValueError(f"{name}[{index}]: {values[index]} is not {expected}")
