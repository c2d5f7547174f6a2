"""What a scrape of the cluster samples: counters and histograms, cumulative, into rings."""

from __future__ import annotations

import numpy as np

from .kernel import kernel
from .records import OFF
from .router import bring_all_up
from .series import (
    HIST_WIDTH,
    REP_ANSWERS,
    REP_FAILURES,
    REP_INCARNATION,
    REP_ITERATIONS,
    REP_OUTPUT_TOKENS,
    REP_PROMPT_TOKENS,
    REP_TOKENS,
    SCRAPE_ARRIVED,
    SCRAPE_FAILED,
    SCRAPE_FIRST,
    SCRAPE_HIST,
    SCRAPE_TIME,
)


@kernel
def steps_done(rep, t):
    """Iterations of the segment under way that have ended by t."""
    if rep.steps == 0:  # paused
        return 0
    first, growth = rep.first_step_s, rep.step_growth_s
    lead = first - 0.5 * growth
    elapsed = t - rep.t0
    k = int(2.0 * elapsed / (lead + np.sqrt(lead * lead + 2.0 * growth * elapsed)))
    # the root is right but for its rounding
    while k > 0 and rep.t0 + k * (first + 0.5 * growth * (k - 1)) > t:
        k -= 1
    while rep.t0 + (k + 1) * (first + 0.5 * growth * k) <= t:
        k += 1
    return min(k, rep.steps)


@kernel
def scrape(plant):
    """Samples all counters into the rings."""
    env, replicas = plant.env, plant.replicas
    t = env.next_scrape
    env.next_scrape = t + plant.params.scrape_interval_s
    bring_all_up(plant, t)
    place = env.scrapes % plant.scrapes.shape[0]
    env.scrapes += 1
    sample = plant.scrapes[place]
    sample[SCRAPE_TIME] = t
    sample[SCRAPE_ARRIVED] = env.arrived
    sample[SCRAPE_FIRST] = env.first_tokens
    sample[SCRAPE_FAILED] = env.error + env.timeout + env.shed
    for h in range(3):
        for b in range(HIST_WIDTH):
            sample[SCRAPE_HIST + h * HIST_WIDTH + b] = env.histograms[h, b]
    for r in range(replicas.shape[0]):
        rep = replicas[r]
        line = plant.replica_scrapes[place, r]
        line[REP_INCARNATION] = 0 if rep.state == OFF else rep.incarnation
        if rep.state == OFF:
            continue
        done = steps_done(rep, t) if plant.next_event[r] < np.inf else 0
        line[REP_ANSWERS] = rep.answers
        line[REP_FAILURES] = rep.failures
        line[REP_ITERATIONS] = rep.count + done
        line[REP_TOKENS] = rep.tokens + done * (rep.decoding + rep.chunk_step)
        line[REP_PROMPT_TOKENS] = rep.prompt_tokens
        line[REP_OUTPUT_TOKENS] = rep.output_tokens + done * rep.decoding
