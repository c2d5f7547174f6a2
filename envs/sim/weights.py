"""Weights of the router `dynamic_weight` (source documents, A2).

Every 2 s each ready replica is scored by

    0.4 (1 - min(cpu / 0.9, 1)) + 0.35 (1 - min(vram, 1)) + 0.25 (1 - min(P95 / 2 s, 1))

over what it did since the last sample. Its weight is the mean of the last five scores, and is
published only when it has changed by more than 15 %. Without a first token in between the last P95
stands; a replica that has none yet counts as quick.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .kernel import kernel
from .kv_cache import blocks_in_use
from .quantile import histogram_quantile
from .records import READY, WEIGHT_WINDOW
from .router import bring_all_up
from .scrape import steps_done
from .series import HIST_WIDTH, TTFT_BOUNDS_S

WEIGHT_INTERVAL_S: Final = 2.0
_CPU_SHARE: Final = 0.4
_VRAM_SHARE: Final = 0.35
_LATENCY_SHARE: Final = 0.25
_CPU_FULL: Final = 0.9
_LATENCY_FULL_S: Final = 2.0
_PUBLISH_CHANGE: Final = 0.15


@kernel
def start_weighing(plant, r):
    """Gives a new replica the weight of an idle one."""
    rep = plant.replicas[r]
    rep.weight = 1.0
    rep.weighed_p95_s = 0.0
    rep.weighed_count = 0
    rep.weighed_tokens = 0
    for k in range(WEIGHT_WINDOW):
        rep.weight_samples[k] = 1.0
    for b in range(HIST_WIDTH):
        rep.ttft_counts[b] = 0


@kernel
def weigh(plant):
    """Samples every ready replica, and publishes what has changed."""
    p, env = plant.params, plant.env
    t = env.next_weights
    env.next_weights = t + WEIGHT_INTERVAL_S
    bring_all_up(plant, t)
    for r in range(plant.replicas.shape[0]):
        rep = plant.replicas[r]
        if rep.state != READY:
            continue
        done = steps_done(rep, t) if plant.next_event[r] < np.inf else 0
        count = rep.count + done
        tokens = rep.tokens + done * (rep.decoding + rep.chunk_step)
        cpu = (
            p.cpu_idle
            + (
                p.cpu_per_iteration_s * (count - rep.weighed_count)
                + p.cpu_per_token_s * (tokens - rep.weighed_tokens)
            )
            / WEIGHT_INTERVAL_S
        )
        rep.weighed_count = count
        rep.weighed_tokens = tokens
        kv_usage = blocks_in_use(p, rep, r, plant.keys, plant.pool, count) / p.kv_blocks
        vram = (p.weights_gib + min(kv_usage, 1.0) * p.kv_gib) / p.vram_gib
        if vram != vram:
            vram = min(kv_usage, 1.0)  # the memory is not known: its cache alone
        p95_s = histogram_quantile(0.95, TTFT_BOUNDS_S, rep.ttft_counts, 1)
        if p95_s == p95_s:
            rep.weighed_p95_s = p95_s
        for b in range(HIST_WIDTH):
            rep.ttft_counts[b] = 0
        score = _CPU_SHARE * (1.0 - min(cpu / _CPU_FULL, 1.0))
        score += _VRAM_SHARE * (1.0 - min(vram, 1.0))
        score += _LATENCY_SHARE * (1.0 - min(rep.weighed_p95_s / _LATENCY_FULL_S, 1.0))
        mean = score
        for k in range(WEIGHT_WINDOW - 1):
            rep.weight_samples[k] = rep.weight_samples[k + 1]
            mean += rep.weight_samples[k]
        rep.weight_samples[WEIGHT_WINDOW - 1] = score
        mean /= WEIGHT_WINDOW
        if abs(mean - rep.weight) > _PUBLISH_CHANGE * rep.weight:
            rep.weight = mean
