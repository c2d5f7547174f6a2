"""Runs a step engine in real time, and hands out the tokens."""

from __future__ import annotations

import asyncio
from collections import deque

from .replica_metrics import ReplicaMetrics
from .step_engine import Sequence, StepEngine


class Answer:
    """One request on its way: the engine's part of it, and where its tokens come out."""

    def __init__(self, sequence: Sequence) -> None:
        """A request that has just arrived."""
        self.sequence = sequence
        self._taken = 0
        self._waiter: asyncio.Future[None] | None = None

    async def next_tokens(self) -> int:
        """Waits for tokens; how many have come since the last call, 0 after the last one."""
        if self._taken == self.sequence.output_tokens:
            return 0
        if self._taken == self.sequence.emitted:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        fresh = self.sequence.emitted - self._taken
        self._taken = self.sequence.emitted
        return fresh

    def wake(self) -> None:
        """Says that a token has come."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class ReplicaClock:
    """Iterations one behind the other, each from where the one before should have ended.

    A late wake-up is made up for: the ends are absolute times, and what arrived after an end waits
    for the next one even if the wake-up was later still.
    """

    def __init__(self, engine: StepEngine, metrics: ReplicaMetrics) -> None:
        """A clock that has not started; `run` is its task."""
        self.engine = engine
        self.slow_factor = 1.0
        """Factor on the length of every iteration."""
        self.lag_s = 0.0
        """How late the last tokens were, in seconds: the machine's fault, not the model's."""
        self._metrics = metrics
        self._arrived: deque[Answer] = deque()
        self._answers: dict[Sequence, Answer] = {}
        self._arrival = asyncio.Event()
        self._released = asyncio.Event()
        self._released.set()

    @property
    def waiting(self) -> int:
        """Requests that no iteration has taken in yet."""
        return len(self.engine.waiting) + len(self._arrived)

    @property
    def is_hung(self) -> bool:
        """Whether no iteration begins any more."""
        return not self._released.is_set()

    def hang(self, hung: bool) -> None:
        """Stops before the next iteration, or goes on."""
        if hung:
            self._released.clear()
        else:
            self._released.set()

    def submit(self, prompt_tokens: int, output_tokens: int) -> Answer:
        """Takes in a request that arrives now."""
        now_s = asyncio.get_running_loop().time()
        answer = Answer(Sequence(now_s, prompt_tokens, output_tokens))
        self._arrived.append(answer)
        self._answers[answer.sequence] = answer
        self._arrival.set()
        return answer

    def abandon(self, answer: Answer) -> None:
        """Forgets a request whose client has gone; nothing happens to one that is done."""
        if self._answers.pop(answer.sequence, None) is not None:
            self.engine.abort(answer.sequence)

    async def run(self) -> None:
        """Runs iterations until cancelled."""
        loop = asyncio.get_running_loop()
        at_s = loop.time()
        while True:
            if not self._released.is_set():
                await self._released.wait()
                at_s = loop.time()
            self._take_in(at_s)
            length_s = self.engine.begin()
            if length_s is None:
                if not self._arrived:
                    self._arrival.clear()
                    await self._arrival.wait()
                at_s = max(at_s, self._arrived[0].sequence.arrival_s)
                continue
            at_s += length_s * self.slow_factor
            await asyncio.sleep(at_s - loop.time())
            self._hand_out(at_s, loop.time())

    def _take_in(self, until_s: float) -> None:
        """Queues what has arrived up to a time."""
        while self._arrived and self._arrived[0].sequence.arrival_s <= until_s:
            sequence = self._arrived.popleft().sequence
            if sequence in self._answers:
                self.engine.add(sequence)

    def _hand_out(self, due_s: float, now_s: float) -> None:
        """Ends the iteration and wakes those that got a token."""
        self.lag_s = now_s - due_s
        self._metrics.lag.observe(max(self.lag_s, 0.0))
        for sequence in self.engine.finish():
            answer = self._answers.get(sequence)
            if answer is None:
                continue
            self._metrics.token(sequence, now_s)
            if sequence.is_finished:
                del self._answers[sequence]
            answer.wake()
