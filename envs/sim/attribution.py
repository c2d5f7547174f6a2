"""What the slowest of a tick's first tokens waited for: queue, prefill, cold start, retry, timeout.

A request that timed out without a first token belongs to the tail, with all that it waited.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .kernel import kernel
from .outcomes import PARTS
from .quantile import select

_QUANTILES: Final = (0.95, 0.99)
QUEUE, PREFILL, COLD_START, RETRY, TIMEOUT = range(len(PARTS))


@kernel
def attribute(plant, attribution):
    """Fills `(2, 5)`: the share of each part in the time that the tail beyond P95 and P99 waited.

    The tail: those at or above the nearest-rank quantile of this tick's first tokens and timeouts.
    NaN without any. Ends the tick for the counts it takes.
    """
    env, samples, values = plant.env, plant.samples, plant.values
    first = env.fresh_from
    n = env.samples - first
    total = n + env.lost
    for q in range(2):
        for part in range(TIMEOUT + 1):
            attribution[q, part] = np.nan if total == 0 else 0.0
    for k in range(n):
        values[k] = samples[first + k].ttft_s
    for q in range(2):
        if total == 0:
            break
        rank = int(np.ceil(_QUANTILES[q] * total)) - 1
        if rank < n:
            bound = select(values, n, rank)
            for k in range(n):
                sample = samples[first + k]
                if sample.ttft_s >= bound:
                    attribution[q, QUEUE] += sample.queue_s
                    attribution[q, PREFILL] += sample.prefill_s
                    attribution[q, COLD_START] += sample.cold_start_s
                    attribution[q, RETRY] += sample.retry_s
        attribution[q, TIMEOUT] = env.lost_s
        waited = 0.0
        for part in range(TIMEOUT + 1):
            waited += attribution[q, part]
        for part in range(TIMEOUT + 1):
            attribution[q, part] = attribution[q, part] / waited if waited > 0.0 else np.nan
    env.lost = 0
    env.lost_s = 0.0
    env.fresh_from = env.samples
