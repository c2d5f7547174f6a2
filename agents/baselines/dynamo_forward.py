"""An iteration of an engine, in the words of Dynamo's planner, and who says how long it lasts.

Upstream takes which model it can get (`best_available`): its database of engines if that knows the
deployment (here `dynamo_profile`), else what it learns from observed iterations
(`dynamo_regression`).

Regimes: three kinds of iterations are told apart, each with features of its own.

| kind | work | features |
|---|---|---|
| prefill | prompt tokens only | prompt tokens |
| decode | generating sequences only | sequences, their KV tokens |
| mixed | both | prompt tokens, KV tokens |

Version: ai-dynamo/aiconfigurator, mid 2026, `rust/aiconfigurator-core/src/fpm_perf.rs`
(`IterationFeatures`; read at 1f7ae275), and what an engine is taken to hold where it does not tell:
ai-dynamo/dynamo, `components/src/dynamo/planner/core/perf_model/rust_adapter.py` (051ed926).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from .dynamo_samples import Point
from .site import ReplicaSpec

Kind = Literal["prefill", "decode", "mixed"]
"""What an iteration does."""

DIMENSIONS: Final[dict[Kind, int]] = {"prefill": 1, "decode": 2, "mixed": 2}
"""Features of each kind."""
_UNKNOWN_KV_TOKENS: Final = 2_000_000
"""What upstream takes where the engine does not tell (`DEFAULT_MAX_KV_TOKENS`)."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one iteration has to do."""

    prefill_tokens: float
    """Prompt tokens it computes."""
    decode_requests: float
    """Sequences that get one token each."""
    decode_kv_tokens: float
    """Tokens these sequences have in the KV cache."""

    @property
    def parts(self) -> tuple[float, float, float]:
        """Its numbers, in order."""
        return self.prefill_tokens, self.decode_requests, self.decode_kv_tokens

    def features(self) -> tuple[Kind, Point] | None:
        """Its kind and features; `None`: nothing to do."""
        decodes = self.decode_requests > 0 or self.decode_kv_tokens > 0
        if self.prefill_tokens > 0:
            if decodes:
                return "mixed", (self.prefill_tokens, self.decode_kv_tokens)
            return "prefill", (self.prefill_tokens,)
        return ("decode", (self.decode_requests, self.decode_kv_tokens)) if decodes else None


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What an engine can hold."""

    chunk_tokens: int
    """Token budget of an iteration (`max_num_batched_tokens`)."""
    max_num_seqs: int
    """Sequences at once."""
    kv_tokens: int
    """Tokens its KV cache holds."""

    @classmethod
    def of(cls, replica: ReplicaSpec) -> EngineLimits:
        """Those of a replica; an unknown KV cache is upstream's 2,000,000 tokens."""
        kv_tokens = replica.kv_capacity_tokens or _UNKNOWN_KV_TOKENS
        return cls(replica.chunk_tokens, replica.max_num_seqs, kv_tokens)

    @property
    def features(self) -> dict[Kind, tuple[int, ...]]:
        """The largest features of each kind of work."""
        return {
            "prefill": (self.chunk_tokens,),
            "decode": (self.max_num_seqs, self.kv_tokens),
            "mixed": (self.chunk_tokens, self.kv_tokens),
        }


class ForwardModel(Protocol):
    """Says how long iterations last, and learns from those that are over."""

    @property
    def is_ready(self) -> bool:
        """Whether there is an estimate for any kind of work."""
        ...

    def seconds(self, work: Work) -> float | None:
        """How long an iteration lasts, seconds; `None`: no estimate for its kind; 0: no work."""
        ...

    def tune(self, work: Work, observed_s: float, copies: int) -> None:
        """Learns from an iteration that `copies` equal engines had; 0 s: nothing ran."""
        ...

    def saved(self) -> dict[str, Any]:
        """What it learned, as JSON content."""
        ...

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one learned."""
        ...
