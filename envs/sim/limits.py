"""Rate limits in front of the replicas: token buckets, and what moves their rate.

| limit | rule (source documents) |
|---|---|
| gateway bucket, replica bucket | tokens come at a rate up to a size; a request takes one (B11) |
| by KV cache | below 50 % in use: none; to 80 %: base x max(0.3, 1 - use); above: base / 10 (C11) |
| by errors | the bucket's rate x (1 - 2 x error rate), never negative (D13) |
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .kernel import inlined_kernel, kernel
from .kv_cache import blocks_in_use
from .records import READY
from .router import bring_all_up
from .scrape import steps_done

_KV_FREE: Final = 0.5
_KV_FULL: Final = 0.8
_KV_LEAST: Final = 0.3
_KV_FULL_SHARE: Final = 0.1
_ERROR_WEIGHT: Final = 2.0


@inlined_kernel
def has_token(record, rate_rps, size, t):
    """Takes a token out of a bucket that has filled since it was last looked at."""
    record.bucket = min(size, record.bucket + rate_rps * (t - record.bucket_at))
    record.bucket_at = t
    if record.bucket >= 1.0:
        record.bucket -= 1.0
        return True
    return False


@inlined_kernel
def admits(plant, t):
    """Whether the gateway's own bucket lets a request in at t."""
    env = plant.env
    if env.bucket_rps == np.inf:
        return True
    return has_token(env, env.bucket_rps, plant.params.bucket_size, t)


@kernel
def adapt_limits(plant):
    """Sets the rate of the gateway's bucket anew by what the replicas show."""
    p, env = plant.params, plant.env
    t = env.next_limits
    env.next_limits = t + p.limit_interval_s
    bring_all_up(plant, t)
    rate = p.bucket_rps
    failed = env.error + env.timeout
    answers = env.first_tokens + failed
    if p.error_limit == 1 and answers > env.judged_answers:
        share = (failed - env.judged_failed) / (answers - env.judged_answers)
        rate *= max(1.0 - _ERROR_WEIGHT * share, 0.0)
    env.judged_failed = failed
    env.judged_answers = answers
    if p.kv_limit_rps < np.inf:
        usage = _mean_kv_usage(plant, t)
        if usage > _KV_FULL:
            rate = min(rate, _KV_FULL_SHARE * p.kv_limit_rps)
        elif usage >= _KV_FREE:
            rate = min(rate, max(_KV_LEAST, 1.0 - usage) * p.kv_limit_rps)
    if env.bucket_rps < np.inf:  # what came at the old rate
        gained = env.bucket_rps * (t - env.bucket_at)
        env.bucket = min(p.bucket_size, env.bucket + gained)
    env.bucket_at = t
    env.bucket_rps = rate


@inlined_kernel
def _mean_kv_usage(plant, t):
    """Mean share of KV blocks in use over the ready replicas; 0 without any."""
    p = plant.params
    used = 0.0
    ready = 0
    for r in range(plant.replicas.shape[0]):
        rep = plant.replicas[r]
        if rep.state == READY:
            ready += 1
            done = steps_done(rep, t) if plant.next_event[r] < np.inf else 0
            blocks = blocks_in_use(p, rep, r, plant.keys, plant.pool, rep.count + done)
            used += min(blocks / p.kv_blocks, 1.0)
    return used / ready if ready > 0 else 0.0
