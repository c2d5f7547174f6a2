"""The packed records that the kernels read and write: requests, replicas, gateways, faults."""

from __future__ import annotations

from typing import Final

import numpy as np

from .series import HIST_WIDTH

OFF, STARTING, READY, DRAINING = range(4)
"""A replica's life: off -> starting -> ready -> draining -> off."""

NONE: Final = -1
"""No request, end of a list."""

KEY_SHIFT: Final = 24
"""A running sequence's key is `finish_count << KEY_SHIFT | request`: sorts by completion."""

KEY_MASK: Final = (1 << KEY_SHIFT) - 1

MAX_POOL: Final = 1 << KEY_SHIFT
"""Most requests in flight that a key can name."""

WEIGHT_WINDOW: Final = 5
"""Samples a dynamic weight is the mean of (source documents, A2)."""

REQUEST = np.dtype(
    [
        ("arrival", np.float64),  # s, at the gateway
        ("deadline", np.float64),  # s, when the gateway gives up
        ("first", np.float64),  # s, first token; negative while there is none
        ("row", np.int64),  # row of the workload
        ("dispatched_s", np.float32),  # from arrival to the last dispatch to a replica
        ("admitted_s", np.float32),  # from arrival to the last admission into a batch
        ("cold_s", np.float32),  # waited for a cold start, at the gateway or at its replica
        ("held_s", np.float32),  # of that at the gateway
        ("prompt", np.int32),  # tokens of the prompt, grown by an eviction
        ("prefill", np.int32),  # of these to be computed: all but a cached prefix
        ("output", np.int32),  # tokens to emit after that prefill
        ("blocks", np.int32),  # KV blocks of that prompt
        ("prompt0", np.int32),  # prompt tokens as offered
        ("next", np.int32),  # next request of the list it is in
        ("replica", np.int32),  # where it is or was last
        ("retries", np.int16),
        ("restarts", np.int16),  # evictions
        ("client_tries", np.int16),  # the client's own tries before this one
        ("copied", np.int16),  # 1: a surge laid it over the workload, so its row has another result
    ],
    align=True,
)

REPLICA = np.dtype(
    [
        # the segment under way: `steps` iterations from `t0`, lasting d, d + q, d + 2q, ...
        ("t0", np.float64),
        ("first_step_s", np.float64),
        ("step_growth_s", np.float64),
        ("steps", np.int64),
        ("chunk_step", np.int64),  # prefill tokens a step of the half-prefilled request
        ("batch_tokens", np.int64),  # prefill tokens of the requests that finish prefilling
        ("count", np.int64),  # iterations done since the replica started
        ("context", np.int64),  # constant part of the decoding context: S = context + B * count
        ("decoding", np.int64),  # B
        ("held", np.int64),  # slots taken: decoding and prefilling
        ("prefill_blocks", np.int64),  # KV blocks of prompts not yet decoding
        ("partial_left", np.int64),
        ("min_deadline", np.float64),  # lower bound over its requests
        ("partial", np.int32),  # half-prefilled request
        ("batch", np.int32),  # list of requests that finish prefilling in this step
        ("wait_head", np.int32),
        ("wait_tail", np.int32),
        ("waiting", np.int32),
        ("outstanding", np.int32),
        # life
        ("state", np.int32),
        ("ejected", np.int32),
        ("ejections", np.int32),  # Envoy's back-off multiplier
        ("incarnation", np.int32),
        ("ready_at", np.float64),
        ("started_at", np.float64),
        ("drain_deadline", np.float64),
        ("changed_at", np.float64),  # when it was ejected, or came back
        ("ejection_jitter_s", np.float64),
        ("billed_from", np.float64),
        ("loaded_at", np.float64),  # lazy start: its weights are there; infinite until it is asked
        # faults
        ("error_share", np.float64),
        ("slow", np.float64),  # factor on the iteration time, in force
        ("fault_slow", np.float64),  # the same as the faults have it
        ("paused_until", np.float64),  # no iteration begins before
        # token bucket
        ("bucket", np.float64),
        ("bucket_at", np.float64),
        # dynamic weights
        ("weight", np.float64),
        ("weighed_p95_s", np.float64),
        ("weighed_count", np.int64),  # iterations and tokens at the last sample
        ("weighed_tokens", np.int64),
        ("weight_samples", np.float64, WEIGHT_WINDOW),  # the weight is their mean
        # counters since the start
        ("tokens", np.int64),  # computed
        ("prompt_tokens", np.int64),  # of prompts whose prefill has ended
        ("output_tokens", np.int64),  # generated in time
        ("answers", np.int64),
        ("failures", np.int64),
        ("interval_answers", np.int64),  # of the breaker's current interval
        ("interval_failures", np.int64),
        ("consecutive_failures", np.int64),
        ("ttft_counts", np.int64, HIST_WIDTH),  # first tokens a bucket since the last weight sample
    ],
    align=True,
)

CURSOR = np.dtype(
    [
        # a reader of the workload: its row arrives at arrival_s[row] + time_shift
        ("next", np.float64),
        ("row", np.int64),
        ("time_shift", np.float64),
        ("share", np.float64),  # of the rows that are taken
        ("fault", np.int64),  # the surge it belongs to; NONE: the workload itself
    ],
    align=True,
)

COMEBACK = np.dtype(
    [
        # a client that tries again
        ("due", np.float64),
        ("row", np.int64),
        ("tries", np.int32),
        ("copied", np.int32),
    ],
    align=True,
)

ENV = np.dtype(
    [
        ("rng", np.uint64),
        ("now", np.float64),
        ("next_arrival", np.float64),
        ("next_retry", np.float64),
        ("next_breaker", np.float64),
        ("next_scrape", np.float64),
        ("next_life", np.float64),
        ("next_fault", np.float64),
        ("next_weights", np.float64),
        ("next_limits", np.float64),
        ("next_comeback", np.float64),
        ("next_sync", np.float64),
        # the part of the workload that is read, again every span
        ("cursor", np.int64),  # whose row is next
        ("row_low", np.int64),
        ("row_high", np.int64),
        ("span", np.float64),  # 0: no wrapping, the workload ends
        # gateway
        ("active", np.int64),  # replicas that may be routed to
        ("turn", np.int64),  # round robin
        ("outstanding", np.int64),
        ("retrying", np.int64),
        ("max_outstanding", np.int64),
        ("requested", np.int64),
        ("threshold_percent", np.int64),
        ("ejected", np.int64),
        ("free", np.int64),  # head of the list of free request slots
        ("used", np.int64),  # request slots ever used
        ("retry_head", np.int64),
        ("retry_tail", np.int64),
        ("comeback_head", np.int64),
        ("comeback_tail", np.int64),
        ("client_retries", np.int64),
        ("client_retry_delay_s", np.float64),
        ("deadlines_vary", np.int64),  # 1: they do not come in the order of arrivals
        ("pending", np.int64),  # held while no replica is ready: a list
        ("pending_head", np.int64),
        ("pending_tail", np.int64),
        ("outage_share", np.float64),  # errors at all replicas
        ("starts_blocked_until", np.float64),
        ("consecutive_5xx", np.int64),
        ("suspect", np.int64),  # 1: a replica may have failed too often in a row
        ("bucket", np.float64),
        ("bucket_at", np.float64),
        ("bucket_rps", np.float64),  # infinite: no limit at present
        ("judged_failed", np.int64),  # of the limiter's last look
        ("judged_answers", np.int64),
        # counters
        ("arrived", np.int64),
        ("first_tokens", np.int64),
        ("ok", np.int64),
        ("error", np.int64),
        ("timeout", np.int64),
        ("shed", np.int64),
        ("billed_s", np.float64),
        ("prompt_tokens", np.int64),  # of prompts whose prefill has ended
        ("prefix_hit_tokens", np.int64),  # of these not computed
        ("cool", np.int64),  # first tokens by heat class, see `HEAT_BOUNDS_S`
        ("warm", np.int64),
        ("hot", np.int64),
        ("burning", np.int64),
        ("lost", np.int64),  # of this tick: timed out without a first token
        ("lost_s", np.float64),  # what these waited, together
        ("scrapes", np.int64),
        ("samples", np.int64),
        ("samples_from", np.int64),  # those before it have left the window
        ("fresh_from", np.int64),  # first sample of this tick
        ("ttft_floor_s", np.float64),  # the next P95 is probably not below
        ("metrics_touched", np.float64),  # s, the last scrape that a metric fault has changed
        ("histograms", np.int64, (3, HIST_WIDTH)),  # cumulative counts a bucket
    ],
    align=True,
)

FAULT = np.dtype(
    [
        ("start", np.float64),
        ("end", np.float64),
        ("kind", np.int64),
        ("share", np.float64),
        ("factor", np.float64),
        ("period", np.float64),
        ("target", np.int64),
        ("incarnation", np.int64),
        ("on", np.int64),
    ],
    align=True,
)

METRIC_FAULT = np.dtype(
    [
        ("kind", np.int64),  # place in `metric_faults.METRIC_FAULT_KINDS`
        ("start", np.float64),
        ("end", np.float64),
        ("delay", np.float64),
    ],
    align=True,
)
