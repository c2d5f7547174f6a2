"""The simulator's replica once more, one iteration after the other, for a process with a clock.

The rules are those of `envs/sim/replica.py` and `kv_cache.py`: continuous batching with chunked
prefill, blocks of the KV cache, eviction of the latest arrival. No clock here: `begin` says when an
iteration ends, and whoever runs the engine calls `finish` then.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StepModel:
    """How long an iteration lasts and what fits into it (see `EngineParams`)."""

    base_s: float
    """Iteration time with an empty batch."""
    per_seq_s: float
    """Added for each decoding sequence."""
    per_ctx_token_s: float
    """Added for each context token of the decoding sequences."""
    per_prefill_token_s: float
    """Added for each prefill token of the iteration."""
    max_num_seqs: int
    """Most sequences held at once."""
    chunk_tokens: int
    """Token budget of an iteration."""
    kv_blocks: int
    """KV-cache capacity in blocks."""
    block_tokens: int
    """Tokens a block."""
    watermark: float
    """Share of the blocks that admission leaves free."""

    @property
    def admission_blocks(self) -> int:
        """Blocks that may be in use after a prompt is let in."""
        return self.kv_blocks - int(self.watermark * self.kv_blocks)

    def blocks(self, tokens: int) -> int:
        """Blocks that hold so many tokens."""
        return -(-tokens // self.block_tokens)


@dataclass(eq=False, slots=True)
class Sequence:
    """One request inside the engine."""

    arrival_s: float
    """When it came, on the clock of whoever runs the engine."""
    prompt_tokens: int
    """Prompt length as asked."""
    output_tokens: int
    """Tokens to generate, at least 1."""
    prompt: int = 0
    """Tokens to prefill before it decodes; grown by an eviction."""
    done: int = 0
    """Tokens processed or generated since its last start."""
    blocks: int = 0
    """KV blocks held."""
    emitted: int = 0
    """Tokens generated so far."""
    evictions: int = 0
    """Times it was thrown out of the KV cache."""
    is_aborted: bool = False
    """Whether its client has gone; it leaves at the next iteration boundary."""

    def __post_init__(self) -> None:
        """The whole prompt is still to be prefilled."""
        self.prompt = self.prompt_tokens

    @property
    def is_finished(self) -> bool:
        """Whether every token has been generated."""
        return self.emitted == self.output_tokens


class StepEngine:
    """The batch, the queue and the KV cache of one replica."""

    def __init__(self, model: StepModel) -> None:
        """An idle engine."""
        self.model = model
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        """In order of arrival: what is evicted is the latest, and is the first to come back."""
        self.free_blocks = model.kv_blocks
        self.iterations = 0
        self.tokens = 0
        """Prompt and output tokens processed; the token that ends a prefill is not counted."""
        self.evictions = 0
        self._batch: list[tuple[Sequence, int]] = []
        self._any_aborted = False

    def fits(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether the KV cache can ever hold such a request."""
        model = self.model
        return prompt_tokens + output_tokens <= model.admission_blocks * model.block_tokens

    def add(self, sequence: Sequence) -> None:
        """Puts a request at the end of the queue."""
        self.waiting.append(sequence)

    def abort(self, sequence: Sequence) -> None:
        """Lets a request leave at the next iteration boundary."""
        sequence.is_aborted = True
        self._any_aborted = True

    def begin(self) -> float | None:
        """Forms the batch of one iteration.

        Returns:
            How long the iteration lasts in seconds; `None` where there is nothing to do.
        """
        decoding, prefilling = self._grant_blocks()
        budget = self.model.chunk_tokens - len(decoding)
        batch = [(sequence, 1) for sequence in decoding]
        prefilled = 0
        for sequence in prefilling:
            tokens = min(sequence.prompt - sequence.done, budget)
            if tokens > 0:
                batch.append((sequence, tokens))
                budget -= tokens
                prefilled += tokens
        while self.waiting and budget > 0 and len(self.running) < self.model.max_num_seqs:
            sequence = self.waiting[0]
            needed = self.model.blocks(sequence.prompt)
            in_use = self.model.kv_blocks - self.free_blocks
            if in_use + needed > self.model.admission_blocks:
                break
            self.waiting.popleft()
            self.running.append(sequence)
            sequence.blocks = needed
            self.free_blocks -= needed
            tokens = min(sequence.prompt, budget)
            batch.append((sequence, tokens))
            budget -= tokens
            prefilled += tokens
        self._batch = batch
        if not batch:
            return None
        model = self.model
        context = sum(sequence.done for sequence in decoding)
        return (
            model.base_s
            + model.per_seq_s * len(decoding)
            + model.per_ctx_token_s * context
            + model.per_prefill_token_s * prefilled
        )

    def finish(self) -> list[Sequence]:
        """Ends the iteration; the finished and the aborted leave.

        Returns:
            The requests that got a token.
        """
        emitted = []
        self.iterations += 1
        for sequence, tokens in self._batch:
            self.tokens += tokens
            was_decoding = sequence.done > sequence.prompt
            sequence.done += tokens
            if not was_decoding:
                if sequence.done < sequence.prompt:
                    continue
                sequence.done += 1  # the last prefill emits a token
            sequence.emitted += 1
            emitted.append(sequence)
            if sequence.emitted == sequence.output_tokens:
                self._leave(sequence)
        self._batch = []
        if self._any_aborted:
            self._drop_aborted()
        return emitted

    def _grant_blocks(self) -> tuple[list[Sequence], list[Sequence]]:
        """Gives each decoding sequence the block it needs; the decoding and the half prefilled."""
        if self.free_blocks <= len(self.running):
            self._evict_until_free()
        decoding, prefilling = [], []
        block_tokens = self.model.block_tokens
        for sequence in self.running:
            if sequence.done > sequence.prompt:
                decoding.append(sequence)
                if sequence.done > sequence.blocks * block_tokens:
                    sequence.blocks += 1
                    self.free_blocks -= 1
            else:
                prefilling.append(sequence)
        return decoding, prefilling

    def _evict_until_free(self) -> None:
        """Visits the decoding ones in order of arrival; the latest make room where none is free."""
        place = 0
        while place < len(self.running):
            sequence = self.running[place]
            place += 1
            if sequence.done <= sequence.prompt:
                continue
            while self.free_blocks < 1 and len(self.running) > place:
                self._evict(self.running[-1])
            if self.free_blocks < 1:
                self._evict(sequence)
            elif sequence.done > sequence.blocks * self.model.block_tokens:
                sequence.blocks += 1
                self.free_blocks -= 1

    def _evict(self, sequence: Sequence) -> None:
        """Back to the front of the queue; what a decoding one has so far becomes its prompt."""
        self.evictions += 1
        self._leave(sequence)
        sequence.prompt = max(sequence.prompt, sequence.done)
        sequence.done = 0
        sequence.evictions += 1
        self.waiting.appendleft(sequence)

    def _leave(self, sequence: Sequence) -> None:
        """Takes a sequence out of the running ones and gives its blocks back."""
        self.running.remove(sequence)
        self.free_blocks += sequence.blocks
        sequence.blocks = 0

    def _drop_aborted(self) -> None:
        for sequence in [each for each in self.running if each.is_aborted]:
            self._leave(sequence)
        self.waiting = deque(each for each in self.waiting if not each.is_aborted)
        self._any_aborted = False
