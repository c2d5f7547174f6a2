"""One replica: continuous batching with chunked prefill, many iterations jumped in closed form.

One iteration lasts `base + per_seq * B + per_ctx * S + per_prefill * p` (B decoding sequences, S
the sum of their context tokens, p prefill tokens). A mixture of experts adds `experts` times the
share of its experts that B + p tokens activate, for the weights of those are read. While the batch
stays the same, S grows by B an iteration, so k iterations last `k d + q k (k - 1) / 2` with d the
first one's duration and `q = per_ctx * B`. A *segment* is such a run; it ends with the next
completion, with the prompt that is prefilled, or is cut at the iteration during which a request
arrives. Every event costs the same however long the segment is.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .accounting import complete, expire, first_token
from .kernel import inlined_kernel, kernel
from .kv_cache import blocks_in_use, evict_until_free
from .records import KEY_MASK, KEY_SHIFT, NONE
from .waiting import pop_waiting, push_waiting, sweep_deadlines

ENDLESS_STEPS: Final = 1 << 40
"""Iterations of a segment that nothing has bounded yet."""


@inlined_kernel
def insert_key(keys, r, n, key):
    """Adds a sequence to the `n` of replica r, kept in falling order of completion."""
    i = n
    while i > 0 and keys[r, i - 1] < key:
        keys[r, i] = keys[r, i - 1]
        i -= 1
    keys[r, i] = key


@inlined_kernel
def cut_segment(rep, r, next_event, t, after):
    """Ends replica r's segment with the iteration during which t falls.

    `after`: with the first boundary after t; else an iteration that ends at t is the last.
    """
    first, growth = rep.first_step_s, rep.step_growth_s
    lead = first - 0.5 * growth
    elapsed = t - rep.t0
    # root of growth/2 k^2 + lead k = elapsed, in the form that needs no division by growth
    k = int(np.ceil(2.0 * elapsed / (lead + np.sqrt(lead * lead + 2.0 * growth * elapsed))))
    k = max(k, 1)
    while k > 1:
        end = rep.t0 + (k - 1) * (first + 0.5 * growth * (k - 2))
        if end < t or (after and end == t):
            break
        k -= 1
    while True:
        end = rep.t0 + k * (first + 0.5 * growth * (k - 1))
        if end > t or (not after and end == t):
            break
        k += 1
    if k < rep.steps:
        rep.steps = k
        next_event[r] = end


@inlined_kernel
def note_admission(rep, request, t):
    """When the batch took a request, and what of its wait a lazy start has cost."""
    request.admitted_s = t - request.arrival
    request.cold_s = request.held_s
    waited_from = request.arrival + request.dispatched_s
    if rep.loaded_at > waited_from:
        request.cold_s += min(t, rep.loaded_at) - waited_from


@inlined_kernel
def admit(p, rep, r, keys, pool, budget, load, exact, t):
    """Takes waiting requests into the batch while budget, slots and blocks last.

    A prompt that fits into the budget finishes its prefill in this iteration; the first that does
    not becomes the half-prefilled one and takes the rest. `load` is what the KV cache holds, in
    tokens of whole blocks; unless `exact`, an upper bound. A cached prefix needs no computing but
    takes its blocks: that prompts share them is not modelled.
    """
    while budget > 0 and rep.wait_head != NONE and rep.held < p.max_num_seqs:
        request = pool[rep.wait_head]
        if load + request.blocks * p.block_tokens >= p.admission_tokens:
            if exact:
                break
            load = blocks_in_use(p, rep, r, keys, pool, rep.count) * p.block_tokens
            exact = True
            continue
        i = pop_waiting(rep, pool)
        load += request.blocks * p.block_tokens
        rep.held += 1
        rep.prefill_blocks += request.blocks
        if request.first < 0.0:
            note_admission(rep, request, t)
        if request.prefill <= budget:
            budget -= request.prefill
            rep.batch_tokens += request.prefill
            request.next = rep.batch
            rep.batch = i
        else:
            rep.partial = i
            rep.partial_left = request.prefill
            rep.chunk_step = budget
            budget = 0


@inlined_kernel
def start_segment(p, rep, r, next_event, keys, pool, t):
    """Forms the batch at time t and finds how many iterations it lasts.

    A replica that is paused (hanging, or not loaded yet) looks after nothing but deadlines.
    """
    count = rep.count
    b = rep.decoding
    if rep.paused_until > t:
        rep.steps = 0
        rep.chunk_step = 0
        rep.batch_tokens = 0
        rep.batch = NONE
        busy = rep.outstanding > 0
        next_event[r] = min(rep.paused_until, rep.min_deadline) if busy else np.inf
        return
    context = rep.context + b * count
    # what the cache holds at most, in tokens: blocks are counted exactly only where that can matter
    load = context + (p.block_tokens - 1) * b + p.block_tokens * rep.prefill_blocks
    exact = load >= p.kv_tokens
    if exact:
        load = evict_until_free(p, rep, r, keys, pool) * p.block_tokens
        b = rep.decoding
        context = rep.context + b * count
    budget = p.chunk_tokens - b
    rep.chunk_step = 0
    rep.batch_tokens = 0
    rep.batch = NONE
    steps = ENDLESS_STEPS
    if rep.partial != NONE and rep.partial_left > budget:
        rep.chunk_step = budget
        steps = (rep.partial_left - 1) // budget
    else:
        if rep.partial != NONE:
            budget -= rep.partial_left
            rep.batch_tokens = rep.partial_left
            rep.batch = rep.partial
            pool[rep.partial].next = NONE
            rep.partial = NONE
        if rep.wait_head != NONE:
            admit(p, rep, r, keys, pool, budget, load, exact, t)
        if rep.batch != NONE:
            steps = 1
        elif rep.partial != NONE:
            steps = (rep.partial_left - 1) // rep.chunk_step
    if b > 0:
        steps = min(steps, (keys[r, b - 1] >> KEY_SHIFT) - count)
        # no block may run out within the segment; where one could, go one iteration at a time
        spare = p.kv_tokens - p.block_tokens * rep.prefill_blocks - (p.block_tokens - 1) * b
        spare -= context + 1
        if b * (steps - 1) > spare:
            steps = max(spare // b + 1, 1)
    elif rep.batch == NONE and rep.partial == NONE:
        next_event[r] = np.inf
        return
    prefill = rep.batch_tokens + rep.chunk_step
    first = rep.slow * (
        p.base_s + p.per_seq_s * b + p.per_ctx_token_s * context + p.per_prefill_token_s * prefill
    )
    if p.experts_s > 0.0:
        first -= rep.slow * p.experts_s * np.expm1(p.expert_decay * (b + prefill))
    growth = rep.slow * p.per_ctx_token_s * b
    rep.t0 = t
    rep.first_step_s = first
    rep.step_growth_s = growth
    rep.steps = steps
    next_event[r] = t + steps * (first + 0.5 * growth * (steps - 1))
    if rep.min_deadline < next_event[r]:
        cut_segment(rep, r, next_event, rep.min_deadline, False)


@inlined_kernel
def finish_segment(env, rep, r, next_event, keys, pool, samples, out):
    """Books what the segment brought: tokens, completions, first tokens.

    What comes after its request's deadline has passed is for nobody: the gateway has answered 504.
    vLLM does not count it either (`v1/engine/output_processor.py`): `sweep_deadlines` takes back
    that of those still decoding.
    """
    t = next_event[r]
    steps = rep.steps
    rep.count += steps
    rep.tokens += steps * (rep.decoding + rep.chunk_step) + rep.batch_tokens
    rep.output_tokens += steps * rep.decoding
    rep.partial_left -= steps * rep.chunk_step
    count = rep.count
    n = rep.decoding
    while n > 0 and keys[r, n - 1] >> KEY_SHIFT == count:
        n -= 1
        i = keys[r, n] & KEY_MASK
        request = pool[i]
        rep.context -= request.prompt + request.output - count
        if request.deadline < t:
            rep.output_tokens -= 1
            rep.held -= 1
            expire(env, rep, pool, i, t, out)
        else:
            complete(env, rep, pool, i, t, samples, out)
    i = rep.batch
    while i != NONE:
        request = pool[i]
        following = request.next
        rep.prefill_blocks -= request.blocks
        if request.deadline < t:
            rep.held -= 1
            expire(env, rep, pool, i, t, out)
            i = following
            continue
        rep.output_tokens += 1
        if request.first < 0.0:
            first_token(env, rep, request, t, samples, out)
        if request.output == 1:
            complete(env, rep, pool, i, t, samples, out)
        else:
            rep.context += request.prompt + 1 - count
            insert_key(keys, r, n, (count + request.output - 1) << KEY_SHIFT | i)
            n += 1
        i = following
    rep.batch = NONE
    rep.decoding = n


@kernel
def advance(p, env, rep, r, next_event, keys, pool, samples, out, t):
    """Brings replica r up to time t, everything that happens at t included."""
    while next_event[r] <= t:
        end = next_event[r]
        finish_segment(env, rep, r, next_event, keys, pool, samples, out)
        if rep.min_deadline <= end:
            sweep_deadlines(env, rep, r, keys, pool, out, end)
        start_segment(p, rep, r, next_event, keys, pool, end)


@kernel
def enqueue(p, rep, r, next_event, keys, pool, i, t):
    """Gives request i to replica r, which has been brought up to time t."""
    request = pool[i]
    request.replica = r
    request.dispatched_s = t - request.arrival
    rep.outstanding += 1
    push_waiting(rep, pool, i)
    rep.min_deadline = min(rep.min_deadline, request.deadline)
    if rep.loaded_at == np.inf:  # lazy start: the first request makes it load
        rep.loaded_at = t + p.lazy_load_s
        rep.paused_until = max(rep.paused_until, rep.loaded_at)
    if next_event[r] == np.inf:
        start_segment(p, rep, r, next_event, keys, pool, t)
        return
    if rep.steps == 0:  # paused
        next_event[r] = min(next_event[r], rep.min_deadline)
        return
    if rep.waiting == 1 and rep.held < p.max_num_seqs and rep.chunk_step == 0 and rep.steps > 1:
        cut_segment(rep, r, next_event, t, True)
    if rep.min_deadline < next_event[r]:
        cut_segment(rep, r, next_event, rep.min_deadline, False)


@kernel
def interrupt(rep, r, next_event, t):
    """Lets the segment under way end with its present iteration: what follows is different."""
    if next_event[r] < np.inf and rep.steps > 1:
        cut_segment(rep, r, next_event, t, True)
