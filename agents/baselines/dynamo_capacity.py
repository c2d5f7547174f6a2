"""How many requests a second one engine of Dynamo sustains: a search over batch sizes.

Formula: for prompts of P and answers of O tokens and a batch of B sequences

- prompt tokens an iteration `p = ceil(B P / O)`, KV tokens `B (P + O // 2)`;
- ITL = the iteration's time, TTFT = the time of iterations that compute `p + P` prompt tokens, full
  chunks first, beside B sequences;
- rate = `B / (O ITL)`.

The best batch is the one with the highest rate among those that keep both targets, and if none
does, among all. Candidates: 1 to min(sequences, KV tokens // context, chunk - 1), at most 128 of
them, evenly spread; left out are those whose p does not fit beside B into the chunk.

Regimes: no prompts or no answers, a chunk of one token, or no room for one sequence: no capacity.

Version: ai-dynamo/dynamo, `components/src/dynamo/planner/core/perf_model/engine_query.py`
(083c4932), the same as `lib/mocker/src/common/engine_perf.rs` of mid 2026. Discounts for prefix
cache hits and speculative decoding are left out: a snapshot shows neither. This is upstream's
aggregated mode (`agg`), in which every engine prefills and decodes; its separate searches for
prefill and decode engines have no counterpart here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from .dynamo_profile import Floats, ProfileModel

_MOST_CANDIDATES: Final = 128


@dataclass(frozen=True, slots=True)
class Targets:
    """What was promised of an engine."""

    ttft_s: float = 0.5
    """Time to first token, seconds (`ttft`, 500 ms)."""
    itl_s: float = 0.05
    """Time between tokens, seconds (`itl`, 50 ms)."""

    def __post_init__(self) -> None:
        """Refuses targets that mean nothing.

        Raises:
            ValueError: A target is not a number above 0.
        """
        for name in ("ttft_s", "itl_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value}, expected a number above 0")


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one engine sustains, and at which batch size."""

    batch: int
    """Sequences."""
    rate_rps: float
    """Requests a second."""
    ttft_s: float
    """Time to first token, seconds."""
    itl_s: float
    """Time between tokens, seconds."""
    is_eligible: bool
    """Whether both targets are kept."""


def aggregated_capacity(
    model: ProfileModel,
    targets: Targets,
    prompt_tokens: float,
    output_tokens: float,
) -> Capacity | None:
    """The best an engine that prefills and decodes can do; see the module.

    Args:
        model: How long iterations last, and what the engine can hold.
        targets: What was promised.
        prompt_tokens: Mean prompt; rounded up.
        output_tokens: Mean answer; rounded up.

    Returns:
        `None` if there is no capacity.
    """
    limits = model.limits
    if prompt_tokens <= 0 or output_tokens <= 0 or limits.chunk_tokens <= 1:
        return None
    prompt, output, chunk = math.ceil(prompt_tokens), math.ceil(output_tokens), limits.chunk_tokens
    context = max(1, prompt + output // 2)
    batches = candidate_batches(
        min(limits.max_num_seqs, limits.kv_tokens // context, limits.chunk_tokens - 1)
    )
    prefill = np.ceil(batches * prompt / output)
    fits = prefill <= chunk - batches
    batches, prefill = batches[fits], prefill[fits]
    kv = batches * context
    itl_s = model.mixed_s(prefill, batches, kv)
    if not (itl_s > 0).any():
        return None
    full, rest = np.divmod(prefill + prompt, chunk)
    ttft_s = full * model.mixed_s(np.full_like(kv, chunk), batches, kv)
    ttft_s += np.where(rest > 0, model.mixed_s(rest, batches, kv), 0.0)
    with np.errstate(divide="ignore"):
        rates_rps = np.where(itl_s > 0, batches / (output * itl_s), 0.0)
    eligible = (ttft_s <= targets.ttft_s) & (itl_s <= targets.itl_s)
    considered = np.where(eligible, rates_rps, -1.0) if eligible.any() else rates_rps
    best = int(considered.argmax())  # the first of equals, as upstream
    return Capacity(
        int(batches[best]),
        float(rates_rps[best]),
        float(ttft_s[best]),
        float(itl_s[best]),
        bool(eligible[best]),
    )


def candidate_batches(largest: int) -> Floats:
    """Batch sizes to try, ascending: all up to 128 of them, else 128 from 1 to the largest."""
    if largest <= _MOST_CANDIDATES:
        return np.arange(1.0, largest + 1)
    steps = np.arange(_MOST_CANDIDATES) * (largest - 1) // (_MOST_CANDIDATES - 1)
    return (1 + steps).astype(np.float64)
