"""Blocks of the KV cache: who holds how many, and who is evicted when none is free.

A sequence holds `ceil(tokens / block_tokens)` blocks. Before each iteration the running ones are
visited in order of arrival; one that decodes may go on only while a block is free, and takes it
when its tokens exceed what it holds. If none is free, the latest arrival not yet visited is
evicted; it goes to the front of the queue with everything it had as its prompt. (The rules of
vLLM and of the reference runs.)
"""

from __future__ import annotations

import numpy as np

from .kernel import kernel
from .records import KEY_MASK, KEY_SHIFT, NONE


@kernel
def blocks_for(tokens, block_tokens):
    """Blocks that hold so many tokens."""
    return (tokens + block_tokens - 1) // block_tokens


@kernel
def context_of(request, key, count):
    """Context tokens of a decoding sequence at iteration `count`."""
    return request.prompt + request.output - (key >> KEY_SHIFT) + count


@kernel
def blocks_in_use(p, rep, r, keys, pool, count):
    """Blocks held on replica r once the growth of the iteration after `count` is granted."""
    used = rep.prefill_blocks
    for j in range(rep.decoding):
        key = keys[r, j]
        used += blocks_for(context_of(pool[key & KEY_MASK], key, count), p.block_tokens)
    return used


@kernel
def remove_key(rep, r, keys, pool, j):
    """Takes the decoding sequence at place j out of the batch."""
    key = keys[r, j]
    request = pool[key & KEY_MASK]
    rep.context -= request.prompt + request.output - (key >> KEY_SHIFT)
    rep.decoding -= 1
    for k in range(j, rep.decoding):
        keys[r, k] = keys[r, k + 1]


@kernel
def _evict(p, rep, r, keys, pool, i):
    """Sends running request i to the front of the queue; returns the blocks that gives back."""
    request = pool[i]
    if i == rep.partial:
        freed = request.blocks
        rep.prefill_blocks -= freed
        rep.partial = NONE
        rep.partial_left = 0
    else:
        j = 0
        while keys[r, j] & KEY_MASK != i:
            j += 1
        key = keys[r, j]
        context = context_of(request, key, rep.count)
        remove_key(rep, r, keys, pool, j)
        freed = blocks_for(context - 1, p.block_tokens)
        request.prompt = context
        request.prefill = context
        request.blocks = blocks_for(context, p.block_tokens)
        request.output = (key >> KEY_SHIFT) - rep.count
    request.restarts += 1
    rep.held -= 1
    request.next = rep.wait_head
    rep.wait_head = i
    if rep.wait_tail == NONE:
        rep.wait_tail = i
    rep.waiting += 1
    return freed


@kernel
def evict_until_free(p, rep, r, keys, pool):
    """Grants the coming iteration's blocks one sequence at a time, evicting where none is free.

    The last two rows of `keys` belong to no replica: here they hold the running requests in order
    of arrival, and their context. Returns the blocks in use afterwards.
    """
    order, contexts = keys[keys.shape[0] - 2], keys[keys.shape[0] - 1]
    used = rep.prefill_blocks
    n = 0
    for j in range(rep.decoding):
        key = keys[r, j]
        context = context_of(pool[key & KEY_MASK], key, rep.count)
        used += blocks_for(context - 1, p.block_tokens)
        _insert_by_arrival(order, contexts, n, pool, key & KEY_MASK, context)
        n += 1
    if rep.partial != NONE:
        _insert_by_arrival(order, contexts, n, pool, np.int64(rep.partial), np.int64(0))
        n += 1
    a = 0
    while a < n:
        context = contexts[a]
        if context > 0:
            while used >= p.kv_blocks and n - 1 > a:
                n -= 1
                used -= _evict(p, rep, r, keys, pool, order[n])
            if used >= p.kv_blocks:
                used -= _evict(p, rep, r, keys, pool, order[a])
            elif context % p.block_tokens == 1 or p.block_tokens == 1:
                used += 1
        a += 1
    return used


@kernel
def _came_after(request, other):
    """Whether a request arrived after another; at one instant they come in the workload's order."""
    if request.arrival == other.arrival:
        return request.row > other.row
    return request.arrival > other.arrival


@kernel
def _insert_by_arrival(order, contexts, n, pool, i, context):
    """Adds a running request to the n of the list, kept in order of arrival."""
    k = n
    while k > 0 and _came_after(pool[order[k - 1]], pool[i]):
        order[k] = order[k - 1]
        contexts[k] = contexts[k - 1]
        k -= 1
    order[k] = i
    contexts[k] = context
