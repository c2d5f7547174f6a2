"""Benchmark runs against the simulated replica: closed loops as serving benchmarks measure them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..envs.profiles.fit import FitError, MeasuredRow
from ..envs.profiles.step import StepModel
from ..envs.sim.closed_loop import run_closed_loop
from ..envs.sim.params import UNLIMITED_BLOCKS, EngineParams

DEFAULT_CHUNK_TOKENS: Final = 8192
"""Token budget of an iteration: vLLM's `max_num_batched_tokens` for an API server on a GPU of 70
GiB or more, A100 excepted (`get_batch_defaults` in vllm/engine/arg_utils.py)."""
BLOCK_TOKENS: Final = 16
"""Tokens a KV block (vLLM's default)."""


@dataclass(frozen=True, slots=True)
class LoopProtocol:
    """How a closed-loop benchmark was run."""

    requests_per_client: int = 10
    """Requests in all, over the concurrency; all clients begin at the same instant."""
    shortest_share: float = 1.0
    """Prompts and answers are drawn evenly from this share of the nominal length up to it; 1: all
    are of the nominal length."""
    chunk_tokens: int = DEFAULT_CHUNK_TOKENS
    """Token budget of an iteration."""
    kv_tokens: int | None = None
    """Tokens the KV cache holds; None: more than enough."""

    @property
    def mean_share(self) -> float:
        """Mean length as a share of the nominal one."""
        return (1 + self.shortest_share) / 2


@dataclass(frozen=True, slots=True)
class LoopRun:
    """One measured row and how it was measured."""

    row: MeasuredRow
    protocol: LoopProtocol

    @property
    def is_kv_bound(self) -> bool:
        """Whether its requests together may need more tokens than the KV cache holds.

        Then fewer of them run at a time than its concurrency says: no row to fit to.
        """
        needed = self.row.concurrency * (self.row.prompt_tokens + self.row.output_tokens)
        return self.protocol.kv_tokens is not None and needed > self.protocol.kv_tokens


@dataclass(frozen=True, slots=True)
class FirstToken:
    """What a first token takes beside what the times a token tell of."""

    front_end_s: float = 0.0
    """Of HTTP and tokenising, one request after another."""
    per_prefill_token_s: float | None = None
    """A prefill token; None: as in the step model."""


PLAIN: Final = FirstToken()


@dataclass(frozen=True, slots=True)
class Predicted:
    """Means over the requests of a run, as benchmarks report them."""

    tpot_s: float
    ttft_s: float


def predict(
    run: LoopRun,
    step: StepModel,
    *,
    seed: int,
    first: FirstToken = PLAIN,
    repeats: int = 1,
) -> Predicted:
    """Runs the benchmark against a simulated replica.

    Args:
        run: The row; its measured times are not looked at.
        step: How long an iteration lasts.
        seed: Of the drawn lengths; the same for one row whatever else is run.
        first: What a first token takes besides.
        repeats: Runs with other lengths to take the mean of.

    Returns:
        Mean time a token and mean time to the first token.

    Raises:
        FitError: All drawn answers have one token: there is no time a token.
    """
    params = engine_of(run, step, first)
    runs = []
    for repeat in range(repeats):
        prompts, outputs = _lengths(run, [seed, repeat])
        found = run_closed_loop(
            prompts,
            outputs,
            params,
            clients=run.row.concurrency,
            front_end_s=first.front_end_s,
        )
        if np.isnan(found.tpot_s).all():
            msg = (
                f"concurrency {run.row.concurrency}, answers of up to {run.row.output_tokens} "
                "tokens: all that were drawn have one token, and so no time between two; "
                "expected longer ones, or a higher shortest share"
            )
            raise FitError(msg)
        runs.append((np.nanmean(found.tpot_s), np.nanmean(found.ttft_s)))
    tpot_s, ttft_s = np.mean(runs, axis=0)
    return Predicted(float(tpot_s), float(ttft_s))


def engine_of(run: LoopRun, step: StepModel, first: FirstToken = PLAIN) -> EngineParams:
    """The replica that a row is run against; it has a slot for every client."""
    per_prefill_token_s = first.per_prefill_token_s
    kv_tokens = run.protocol.kv_tokens
    return EngineParams(
        base_s=step.base_s,
        per_seq_s=step.per_seq_s,
        per_ctx_token_s=step.per_ctx_token_s,
        per_prefill_token_s=step.per_prefill_token_s
        if per_prefill_token_s is None
        else per_prefill_token_s,
        experts_s=step.experts_s,
        expert_share=step.expert_share,
        max_num_seqs=run.row.concurrency,
        chunk_tokens=max(run.protocol.chunk_tokens, run.row.concurrency),
        kv_blocks=UNLIMITED_BLOCKS if kv_tokens is None else kv_tokens // BLOCK_TOKENS,
        block_tokens=BLOCK_TOKENS,
    )


def _lengths(run: LoopRun, seed: Sequence[int]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Prompts and answers of a run; the stream of each row is its own."""
    row, protocol = run.row, run.protocol
    rng = np.random.default_rng([*seed, row.concurrency, row.prompt_tokens, row.output_tokens])
    n = protocol.requests_per_client * row.concurrency
    drawn = []
    for longest in (row.prompt_tokens, row.output_tokens):
        shortest = max(int(protocol.shortest_share * longest), 1)
        drawn.append(rng.integers(shortest, longest + 1, n).astype(np.int32))
    return drawn[0], drawn[1]
