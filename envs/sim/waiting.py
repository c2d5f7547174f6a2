"""The waiting queue of a replica: a list through the requests themselves, first in first out."""

from __future__ import annotations

import numpy as np

from .accounting import expire
from .kernel import inlined_kernel, kernel
from .kv_cache import remove_key
from .records import KEY_MASK, NONE


@inlined_kernel
def push_waiting(rep, pool, i):
    """Adds request i at the end."""
    pool[i].next = NONE
    if rep.wait_tail == NONE:
        rep.wait_head = i
    else:
        pool[rep.wait_tail].next = i
    rep.wait_tail = i
    rep.waiting += 1


@inlined_kernel
def pop_waiting(rep, pool):
    """Takes the first request."""
    i = rep.wait_head
    rep.wait_head = pool[i].next
    if rep.wait_head == NONE:
        rep.wait_tail = NONE
    rep.waiting -= 1
    return i


@kernel
def sweep_deadlines(env, rep, r, keys, pool, out, t):
    """Ends the requests of replica r whose deadline has passed, and finds the next deadline.

    Called at the first iteration boundary at or after a deadline: an engine drops an aborted
    sequence between iterations. `min_deadline` is a lower bound, so a call may find nothing. Where
    all requests have the same timeout only the front of those waiting is looked at: they stand in
    order of their deadlines, except that one which was retried may stand behind others by the
    retry's delay, and goes when they go.
    """
    earliest = np.inf
    before = NONE
    i = rep.wait_head
    while i != NONE:
        following = pool[i].next
        if pool[i].deadline <= t:
            if before == NONE:
                rep.wait_head = following
            else:
                pool[before].next = following
            if following == NONE:
                rep.wait_tail = before
            rep.waiting -= 1
            expire(env, rep, pool, i, t, out)
        else:
            earliest = min(earliest, pool[i].deadline)
            if env.deadlines_vary == 0:
                break
            before = i
        i = following
    j = rep.decoding - 1
    while j >= 0:
        i = keys[r, j] & KEY_MASK
        if pool[i].deadline <= t:
            if pool[i].deadline < t:  # its last token came too late
                rep.output_tokens -= 1
            remove_key(rep, r, keys, pool, j)
            rep.held -= 1
            expire(env, rep, pool, i, t, out)
        else:
            earliest = min(earliest, pool[i].deadline)
        j -= 1
    i = rep.partial
    if i != NONE:
        if pool[i].deadline <= t:
            rep.prefill_blocks -= pool[i].blocks
            rep.partial = NONE
            rep.partial_left = 0
            rep.held -= 1
            expire(env, rep, pool, i, t, out)
        else:
            earliest = min(earliest, pool[i].deadline)
    rep.min_deadline = earliest
