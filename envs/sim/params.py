"""What stays the same while a gateway runs: frozen parameters, packed for the kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .router import ROUTERS

UNLIMITED_BLOCKS: Final = 1 << 40
"""KV blocks of a replica whose memory is not modelled."""
NO_LIMIT: Final = 1 << 62
"""`max_outstanding` of a gateway that sheds nothing."""


def no_limit(limit: int | None) -> int:
    """The engine's number for "no limit"."""
    return NO_LIMIT if limit is None else limit


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParams:
    """One gateway with its replicas. Latency in seconds, shares 0-1."""

    base_s: float
    """Iteration time with an empty batch (serving profile)."""
    per_seq_s: float
    """Added for each decoding sequence."""
    per_ctx_token_s: float
    """Added for each context token of the decoding sequences."""
    per_prefill_token_s: float
    """Added for each prefill token of the iteration."""
    experts_s: float = 0.0
    """Mixture of experts: added when all experts of the model are read; 0: a dense model."""
    expert_share: float = 0.0
    """Share (0-1) of the experts that one token activates; of n tokens, `1 - (1 - share)^n` do."""
    max_num_seqs: int = 128
    """Most sequences a replica holds at once, prefilling ones included."""
    chunk_tokens: int = 512
    """Token budget of an iteration; decoding sequences take one each first."""
    kv_blocks: int = UNLIMITED_BLOCKS
    """KV-cache capacity of a replica, in blocks."""
    block_tokens: int = 16
    """Tokens a block (vLLM's default)."""
    watermark: float = 0.01
    """Share of the blocks that admission leaves free (vLLM's default)."""
    prefix_cache: int = 0
    """1: a replica does not compute again what it holds of a prompt, where the load tells it."""
    router: str = "least_outstanding"
    """One of `ROUTERS`."""
    breaker_interval_s: float = 0.0
    """Envoy's outlier-detection interval; 0 switches the breaker off."""
    minimum_hosts: int = 2
    """Replicas with enough requests below which nothing is ejected."""
    request_volume: int = 10
    """Answers in an interval below which a replica is not judged."""
    base_ejection_s: float = 30.0
    """Ejection time, multiplied by the replica's consecutive ejections."""
    max_ejection_s: float = 300.0
    """Cap of the ejection time (Envoy's default)."""
    max_ejection_percent: float = 50.0
    """Most of the replicas that may be ejected at once."""
    always_eject_one_host: int = 0
    """1: the first ejection disregards that cap (off by default in current Envoy)."""
    enforcing_percent: int = 100
    """Chance of a found outlier to be ejected (Envoy's `enforcing_failure_percentage`)."""
    max_ejection_jitter_s: float = 0.0
    """Most that is added to an ejection at random (Envoy's `max_ejection_time_jitter`)."""
    consecutive_5xx: int = 0
    """Failures in a row that eject a replica at once, whatever the threshold; 0: none do."""
    panic_percent: int = 50
    """Share of ready replicas not ejected below which ejections are disregarded."""
    max_retries: int = 0
    """Tries after the first (Envoy's default with a retry policy: 1)."""
    retry_budget_share: float = 0.2
    """Retries in flight allowed, as a share of the requests in flight."""
    retry_budget_min: int = 3
    """Retries in flight that are always allowed."""
    retry_delay_s: float = 0.025
    """From failure to the next try: Envoy's base interval."""
    request_timeout_s: float = math.inf
    """From arrival to the end of the answer; then 504."""
    timeout_step_s: float = 0.0
    """Added for each full `timeout_step_tokens` of the prompt above the first."""
    timeout_step_tokens: int = 512
    """See `timeout_step_s`."""
    max_outstanding: int = NO_LIMIT
    """Requests in flight over which the gateway sheds, whatever a controller allows; 0: all."""
    max_waiting: int = NO_LIMIT
    """Requests that wait for a place in a batch over which the gateway sheds."""
    max_pending: int = 0
    """Requests the gateway holds while no replica may be routed to; the rest fails (503)."""
    client_retries: int = 0
    """Times a client whose request failed, timed out or was shed tries again."""
    client_retry_delay_s: float = 1.0
    """From that end to the client's next try."""
    bucket_rps: float = math.inf
    """Rate at which the gateway's token bucket fills; infinite: no bucket."""
    bucket_size: float = 200.0
    """What it holds."""
    replica_bucket_rps: float = math.inf
    """The same for each replica's own bucket."""
    replica_bucket_size: float = 200.0
    """What it holds."""
    kv_limit_rps: float = math.inf
    """Base rate of the limit by KV-cache use; infinite: none."""
    error_limit: int = 0
    """1: the gateway's bucket fills slower by twice the error rate."""
    limit_interval_s: float = 1.0
    """How often the last two look at the replicas."""
    cold_start_s: float = 0.0
    """From the start of a replica until it takes requests."""
    lazy_load_s: float = 0.0
    """From a replica's first request to its first iteration (lazy start)."""
    cold_start_spread: float = 0.0
    """Uniform relative spread of the cold start: +- this share."""
    drain_min_s: float = 30.0
    """Least time a draining replica gets."""
    scrape_interval_s: float = 0.0
    """Between two scrapes; 0 switches telemetry off."""
    window_s: float = 60.0
    """Over which rates and quantiles are taken."""
    minimum_samples: int = 20
    """Below it a quantile or a share is missing in the scraped row."""
    late_after_s: float = 0.8
    """Age at which a request without a first token counts into the plant's own P95."""
    cpu_idle: float = 0.0
    """Busy share of a replica that does nothing."""
    cpu_per_iteration_s: float = 0.0
    """CPU seconds an iteration."""
    cpu_per_token_s: float = 0.0
    """CPU seconds a token."""
    cpu_startup: float = 0.0
    """Busy share during a cold start."""
    weights_gib: float = math.nan
    """Weights of one replica; NaN: not known, and so is its VRAM utilisation."""
    kv_gib: float = math.nan
    """KV cache of one replica."""
    vram_gib: float = math.nan
    """Memory of one replica's GPUs."""

    def __post_init__(self) -> None:
        """Refuses what the kernels rely on.

        Raises:
            ValueError: It names the parameter, its value and what would be right.
        """
        positive = ("chunk_tokens", "max_num_seqs", "kv_blocks", "block_tokens", "request_volume")
        for name in (*positive, "timeout_step_tokens", "client_retry_delay_s", "limit_interval_s"):
            if not getattr(self, name) > 0:
                msg = f"{name} is {getattr(self, name)}, expected more than 0"
                raise ValueError(msg)
        times = ("base_s", "per_seq_s", "per_ctx_token_s", "per_prefill_token_s", "cold_start_s")
        more = ("lazy_load_s", "timeout_step_s", "max_ejection_jitter_s", "max_pending")
        for name in (*times, *more, "client_retries"):
            if not getattr(self, name) >= 0:
                msg = f"{name} is {getattr(self, name)}, expected 0 or more"
                raise ValueError(msg)
        if self.router == "dynamic_weight" and self.kv_blocks == UNLIMITED_BLOCKS:
            msg = "router dynamic_weight weighs the KV cache: kv_blocks must be given"
            raise ValueError(msg)
        if self.base_s == 0 and 0 in (self.per_seq_s, self.per_prefill_token_s):
            msg = (
                "base_s is 0: per_seq_s and per_prefill_token_s must be above 0, "
                "or time stands still"
            )
            raise ValueError(msg)
        if not self.experts_s >= 0:
            msg = f"experts_s is {self.experts_s}, expected 0 or more"
            raise ValueError(msg)
        if not 0 <= self.expert_share < 1:
            msg = f"expert_share is {self.expert_share}, expected 0 or more and below 1"
            raise ValueError(msg)
        if self.max_num_seqs > self.chunk_tokens:
            msg = (
                f"max_num_seqs {self.max_num_seqs} is above chunk_tokens {self.chunk_tokens}: "
                "every decoding sequence takes one token of the budget"
            )
            raise ValueError(msg)
        if self.router not in ROUTERS:
            msg = f"router {self.router!r}: expected one of {', '.join(ROUTERS)}"
            raise ValueError(msg)

    def packed(self) -> NDArray[Any]:
        """The parameters as one record, shape `(1,)`."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["router"] = ROUTERS.index(self.router)
        watermark_blocks = int(self.watermark * self.kv_blocks)
        values["expert_decay"] = math.log1p(-self.expert_share)
        values["kv_tokens"] = self.kv_blocks * self.block_tokens
        values["admission_tokens"] = (self.kv_blocks - watermark_blocks + 1) * self.block_tokens
        record = np.zeros(1, PARAMS)
        for name in PARAMS.names or ():
            record[name] = values[name]
        return record


PARAMS = np.dtype(
    [(f.name, np.int64 if f.type in ("int", "str") else np.float64) for f in fields(EngineParams)]
    + [
        ("expert_decay", np.float64),  # log of the share of experts one token leaves alone
        ("kv_tokens", np.int64),  # capacity
        ("admission_tokens", np.int64),  # a prompt is let in while the cache then holds less
    ],
    align=True,
)
