"""What a new request would meet at an engine now, as Dynamo's load-based scaling asks it.

Formula: with the means over the last 64 reports of prompt `P` (per request that prefills, 0 if none
does), KV length `L` (per generating sequence) and prompt tokens an iteration `p`

- TTFT = time of iterations that compute `ceil(queue a + P)` prompt tokens, full chunks first,
  beside `ceil(b B)` sequences with `ceil(b S)` KV tokens;
- ITL = one iteration with `ceil(p)` prompt tokens and `ceil(b S + L)` KV tokens.

`a` and `b` are 1, or N / (N - 1) if a replica is to go; for TTFT a = 0 is the request's own time.

Regimes: means leave out the zeros before the first other value; nothing to compute takes 0 s; no
estimate of an iteration, no estimate here.

Version: ai-dynamo/dynamo, mid 2026, `components/src/dynamo/planner/core/perf_model/rust_adapter.py`
(051ed926) and `engine_query.py` (083c4932). Discounts for prefix cache hits and accepted draft
tokens are left out: a snapshot shows neither.

Quirks kept: P decays while idle (an idle report counts as a prompt of 0), L does not. What is
queued for prefill adds nothing to the ITL of now, only to that after a replica went. Means are
taken afresh; upstream keeps a running sum and its rounding.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any

from .dynamo_forward import ForwardModel, Work


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """What one engine reports of its last iteration and of what waits (`ForwardPassMetrics`)."""

    work: Work
    """What the iteration did."""
    prefill_requests: float
    """Requests whose prompts it computed."""
    seconds: float
    """How long it lasted; 0: idle."""
    queued_prefill_tokens: float = 0.0
    """Prompt tokens that wait."""
    queued_prefill_requests: float = 0.0
    """Requests they belong to."""
    queued_kv_tokens: float = 0.0
    """Tokens of sequences that were put back (`queued sum_decode_kv_tokens`)."""
    queued_decode_requests: float = 0.0
    """These sequences."""

    @property
    def held_tokens(self) -> float:
        """KV tokens in use and waited for."""
        return self.work.decode_kv_tokens + self.queued_kv_tokens + self.queued_prefill_tokens


@dataclass(slots=True)
class MovingMean:
    """Mean of the last values, without the zeros before the first other one."""

    values: deque[float]

    def add(self, value: float, copies: int) -> None:
        """Takes a value that `copies` engines report."""
        if value > 0 or self.values:
            self.values.extend(repeat(value, copies))

    @property
    def value(self) -> float:
        """0 without values."""
        return sum(self.values) / len(self.values) if self.values else 0.0


@dataclass(slots=True)
class EngineModel:
    """Iteration times, and what is typical of the traffic."""

    forward: ForwardModel
    """How long iterations last."""
    chunk_tokens: int
    """Token budget of an iteration."""
    window: int
    """Reports that count for the means."""
    prompt: MovingMean = field(init=False)
    """P."""
    length: MovingMean = field(init=False)
    """L."""
    prefill: MovingMean = field(init=False)
    """p."""

    def __post_init__(self) -> None:
        """Starts without a history."""
        self.prompt = MovingMean(deque(maxlen=self.window))
        self.length = MovingMean(deque(maxlen=self.window))
        self.prefill = MovingMean(deque(maxlen=self.window))

    def observe(self, report: ForwardPass, copies: int) -> None:
        """Learns from what `copies` equal engines report."""
        work, requests = report.work, report.prefill_requests
        self.prompt.add(work.prefill_tokens / requests if requests > 0 else 0.0, copies)
        if work.decode_requests > 0:
            self.length.add(work.decode_kv_tokens / work.decode_requests, copies)
        self.prefill.add(work.prefill_tokens, copies)
        self.forward.tune(work, report.seconds, copies)

    def ttft_s(
        self,
        report: ForwardPass,
        *,
        queue_scale: float = 1.0,
        decode_scale: float = 1.0,
        with_queued_decodes: bool = False,
    ) -> float | None:
        """Time to the first token of a request that comes now, seconds."""
        requests, kv = report.work.decode_requests, report.work.decode_kv_tokens
        if with_queued_decodes:
            requests += report.queued_decode_requests
            kv += report.queued_kv_tokens
        decoding = Work(0, math.ceil(requests * decode_scale), math.ceil(kv * decode_scale))
        tokens = math.ceil(report.queued_prefill_tokens * queue_scale + self.prompt.value)
        return self._prefill_s(tokens, decoding)

    def itl_s(
        self, report: ForwardPass, *, decode_scale: float = 1.0, with_queued_prefills: bool = False
    ) -> float | None:
        """Time between two tokens of a request that comes now, seconds."""
        requests = report.work.decode_requests + report.queued_decode_requests
        kv = report.work.decode_kv_tokens + report.queued_kv_tokens
        if with_queued_prefills:
            requests += report.queued_prefill_requests
            kv += report.queued_prefill_tokens
        own = self.length.value
        work = Work(
            math.ceil(self.prefill.value),
            math.ceil(requests * decode_scale + (own > 0)),
            math.ceil(kv * decode_scale + own),
        )
        return self.forward.seconds(work)

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        means = {name: list(getattr(self, name).values) for name in ("prompt", "length", "prefill")}
        return {"forward": self.forward.saved(), **means}

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        self.forward.restore(saved["forward"])
        for name in ("prompt", "length", "prefill"):
            getattr(self, name).values = deque(saved[name], maxlen=self.window)

    def _prefill_s(self, tokens: int, decoding: Work) -> float | None:
        """How long so many prompt tokens take beside what is decoded: full chunks, then the rest.

        `None`: no estimate.
        """
        full, rest = divmod(tokens, self.chunk_tokens)
        total_s = 0.0
        for times, chunk in ((full, self.chunk_tokens), (1, rest)):
            if times and chunk:
                seconds = self.forward.seconds(replace(decoding, prefill_tokens=chunk))
                if seconds is None:
                    return None
                total_s += times * seconds
        return total_s
