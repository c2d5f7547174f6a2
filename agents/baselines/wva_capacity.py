"""How many tokens a replica can hold at once, as the Workload Variant Autoscaler's V2 sees it.

Rule of llm-d/llm-d-workload-variant-autoscaler, tree of June 2026:
`internal/engines/analyzers/saturation_v2/{analyzer,types,constants,history,deployment_parser}.go`,
read at b28a4f6 (analyzer) and in the mirror red-hat-data-services/workload-variant-autoscaler at
b874d17 (analyzer) and 4cf1c0c (types). Pull request 1470 (26 July 2026) charges the answer of a
waiting request too; here it costs its prompt, as before.

A replica's capacity is min(k1, k2), whole tokens:

- k1, memory: KV tokens x threshold;
- k2, compute, from the first of these that is there:
  1. its queue is at the threshold: the tokens in use now, which are remembered;
  2. remembered ones of the class of answer lengths: the mean of the last ten;
  3. derived from the engine: n = min(B O / (I + O), S) requests of (I + O / 2) tokens, with B
     tokens a step, at most S requests, prompts of I and answers of O tokens;
  4. k1.

Its demand is the tokens in use + waiting requests x mean prompt (whole tokens).

Classes of answer lengths: short below 100 tokens, medium below 500, else long.

Quirks kept: every replica adds its own observation, so ten replicas fill the memory in one run; the
queue's threshold is cut to a whole number here, though not in V1; an answer length of 0 ("not
known") is short and derives nothing; nothing is forgotten with time, as the engine
(`internal/engines/saturation/engine.go`, mirror at 0346cfd) never calls `EvictStaleHistory`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

OutputClass = Literal["short", "medium", "long"]
"""Class of a mean answer length, the key of what is remembered."""

REMEMBERED: Final = 10
"""`RollingAverageWindowSize`."""
SHORT_BELOW_TOKENS: Final = 100
"""`ShortOutputThreshold`."""
MEDIUM_BELOW_TOKENS: Final = 500
"""`MediumOutputThreshold`."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """One replica's engine, as its command line and its own metrics tell."""

    kv_capacity_tokens: int
    """Blocks of the KV cache x tokens a block."""
    step_tokens: int
    """`--max-num-batched-tokens`: token budget of an iteration."""
    max_num_seqs: int
    """`--max-num-seqs`: requests in a batch."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one replica reports."""

    tokens_in_use: int
    """Tokens in its KV cache."""
    queue_length: float
    """Requests that wait for its batch."""
    mean_prompt_tokens: float
    """Mean prompt of finished requests; 0: not known."""
    mean_output_tokens: float
    """Mean answer of finished requests; 0: not known."""


@dataclass(slots=True)
class CapacityMemory:
    """What was in use when a queue was at its threshold, by class of answer lengths."""

    observed: dict[OutputClass, list[int]] = field(default_factory=dict)
    """Tokens, oldest first, at most `REMEMBERED` a class."""

    def add(self, output_class: OutputClass, tokens: int) -> None:
        """Remembers one observation, and drops the oldest of a full class."""
        kept = self.observed.setdefault(output_class, [])
        kept.append(tokens)
        del kept[:-REMEMBERED]

    def mean_tokens(self, output_class: OutputClass) -> float:
        """Mean of what is remembered; 0 for nothing."""
        kept = self.observed.get(output_class)
        return sum(kept) / len(kept) if kept else 0.0


def output_class(mean_output_tokens: float) -> OutputClass:
    """Class of a mean answer length."""
    if mean_output_tokens < SHORT_BELOW_TOKENS:
        return "short"
    return "medium" if mean_output_tokens < MEDIUM_BELOW_TOKENS else "long"


def used_tokens(kv_usage: float, kv_capacity_tokens: int) -> int:
    """Tokens in use at a share of the cache: half up, from 0 to the cache's size."""
    exact = kv_usage * kv_capacity_tokens
    whole = int(exact)
    return min(whole + (exact - whole >= 0.5), kv_capacity_tokens)  # noqa: PLR2004  # one half


def memory_bound_tokens(engine: EngineSpec, kv_threshold: float) -> int:
    """k1."""
    return int(engine.kv_capacity_tokens * kv_threshold)


def derived_tokens(engine: EngineSpec, mean_prompt_tokens: float, mean_output_tokens: float) -> int:
    """k2 from the engine's limits; 0 where the answer length is not known."""
    if mean_output_tokens <= 0:
        return 0
    both = mean_prompt_tokens + mean_output_tokens
    steady = min(engine.step_tokens * mean_output_tokens / both, engine.max_num_seqs)
    return int(steady * (mean_prompt_tokens + mean_output_tokens / 2))


def capacity_tokens(
    reading: Reading,
    engine: EngineSpec,
    memory: CapacityMemory,
    *,
    kv_threshold: float,
    queue_threshold: float,
) -> int:
    """min(k1, k2) of one replica; remembers the tokens in use if its queue is at the threshold."""
    k1 = memory_bound_tokens(engine, kv_threshold)
    lengths = output_class(reading.mean_output_tokens)
    if reading.queue_length >= int(queue_threshold) and reading.tokens_in_use > 0:
        memory.add(lengths, reading.tokens_in_use)
        return min(k1, reading.tokens_in_use)
    k2 = int(memory.mean_tokens(lengths)) or derived_tokens(
        engine, reading.mean_prompt_tokens, reading.mean_output_tokens
    )
    return min(k1, k2) if k2 > 0 else k1


def demand_tokens(reading: Reading) -> float:
    """Tokens that one replica's requests need."""
    return reading.tokens_in_use + reading.queue_length * int(reading.mean_prompt_tokens)


def median_tokens(capacities: Sequence[int]) -> int:
    """The middle one, or the mean of the middle two, cut to whole tokens."""
    ordered = sorted(capacities)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) // 2
