"""The plant a second time, in plain Python: one iteration after the other, no closed form.

Written from the rules (those of the reference runs, see the project's docs), not from the engine,
and as naive as it can be: each request is an object, each block is counted, each iteration is an
event.

At one instant iterations end first, and the next ones begin; then requests arrive, one by one. An
idle replica begins an iteration with the first request that it gets. A request that is not over by
its deadline is a timeout; its engine drops it at the first iteration boundary at or after the
deadline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

OK, ERROR, TIMEOUT = "ok", "error", "timeout"


@dataclass(frozen=True)
class Rules:
    base_s: float
    per_seq_s: float
    per_ctx_token_s: float
    per_prefill_token_s: float
    max_num_seqs: int
    chunk_tokens: int
    kv_blocks: int
    block_tokens: int
    router: str
    timeout_s: float = math.inf
    watermark: float = 0.01
    experts_s: float = 0.0
    expert_share: float = 0.0

    @property
    def admission_blocks(self) -> int:
        return self.kv_blocks - int(self.watermark * self.kv_blocks)


@dataclass(eq=False)
class Request:
    row: int
    arrival_s: float
    deadline_s: float
    prompt: int  # to prefill before it decodes (again)
    total: int  # tokens it has in the end
    done: int = 0  # tokens processed or generated since its last (re)start
    blocks: int = 0
    restarts: int = 0
    replica: int = -1
    ttft_s: float = math.nan
    e2e_s: float = math.nan
    status: str | None = None

    @property
    def decoding(self) -> bool:
        return self.done > self.prompt

    @property
    def age(self) -> tuple[float, int]:
        return self.arrival_s, self.row

    def end(self, status: str, t: float) -> None:
        self.status = status
        self.e2e_s = t - self.arrival_s


@dataclass(eq=False)
class Replica:
    rules: Rules
    index: int
    waiting: list[Request] = field(default_factory=list)
    running: list[Request] = field(default_factory=list)
    batch: list[tuple[Request, int]] = field(default_factory=list)
    ends_s: float = math.inf
    evicted_half_prefilled: int = 0
    output_tokens: int = 0  # generated, those after a deadline left out

    @property
    def free_blocks(self) -> int:
        return self.rules.kv_blocks - sum(q.blocks for q in self.running)

    def evict(self, q: Request) -> None:
        """Back to the front of the queue; what a decoding one has so far becomes its prompt."""
        self.evicted_half_prefilled += not q.decoding
        if q.decoding:
            q.prompt = q.done
        q.done = 0
        q.blocks = 0
        q.restarts += 1
        self.running.remove(q)
        self.waiting.insert(0, q)

    def begin(self, t: float) -> None:
        """Forms the batch of one iteration."""
        rules = self.rules
        to_visit = sorted(self.running, key=lambda q: q.age)
        decodes: list[Request] = []
        prefills: list[Request] = []
        while to_visit:
            q = to_visit.pop(0)
            if not q.decoding:
                prefills.append(q)
                continue
            while self.free_blocks < 1 and to_visit:
                self.evict(to_visit.pop())
            if self.free_blocks < 1:
                self.evict(q)
                continue
            if q.done > q.blocks * rules.block_tokens:
                q.blocks += 1
            decodes.append(q)
        budget = rules.chunk_tokens - len(decodes)
        self.batch = [(q, 1) for q in decodes]
        for q in prefills:
            tokens = min(q.prompt - q.done, budget)
            if tokens > 0:
                self.batch.append((q, tokens))
                budget -= tokens
        while self.waiting and budget > 0 and len(self.running) < rules.max_num_seqs:
            q = self.waiting[0]
            needed = math.ceil(q.prompt / rules.block_tokens)
            held = rules.kv_blocks - self.free_blocks
            if held + needed > rules.admission_blocks:
                break
            self.waiting.pop(0)
            q.blocks = needed
            self.running.append(q)
            tokens = min(q.prompt, budget)
            self.batch.append((q, tokens))
            budget -= tokens
        if not self.batch:
            self.ends_s = math.inf
            return
        context = sum(q.done for q in decodes)
        prefilled = sum(tokens for q, tokens in self.batch if not q.decoding)
        self.ends_s = (
            t
            + rules.base_s
            + rules.per_seq_s * len(decodes)
            + rules.per_ctx_token_s * context
            + rules.per_prefill_token_s * prefilled
            + rules.experts_s * (1 - (1 - rules.expert_share) ** (len(decodes) + prefilled))
        )

    def finish(self) -> None:
        """Ends the iteration: tokens, answers, timeouts; then the next one begins."""
        t = self.ends_s
        for q, tokens in self.batch:
            q.done += tokens
            if q.done == q.prompt:  # the last prefill emits a token
                q.done += 1
                if math.isnan(q.ttft_s) and t <= q.deadline_s:
                    q.ttft_s = t - q.arrival_s
            self.output_tokens += q.decoding and t <= q.deadline_s
            if q.done == q.total:
                q.end(OK if t <= q.deadline_s else TIMEOUT, min(t, q.deadline_s))
        for q in [*self.waiting, *self.running]:
            if q.status is None and q.deadline_s <= t:
                q.end(TIMEOUT, q.deadline_s)
        self.waiting = [q for q in self.waiting if q.status is None]
        self.running = [q for q in self.running if q.status is None]
        self.begin(t)


def run(
    rules: Rules, requests: Sequence[tuple[float, int, int]], replicas: int
) -> tuple[list[Request], list[Replica]]:
    """The whole workload of (arrival, prompt, output) on some replicas, until the last is done."""
    cluster = [Replica(rules, r) for r in range(replicas)]
    turn = 0

    def run_to(t: float) -> None:
        while True:
            first = min(cluster, key=lambda replica: replica.ends_s)
            if first.ends_s > t or first.ends_s == math.inf:
                return
            first.finish()

    everyone = []
    for row, (arrival_s, prompt, output) in enumerate(requests):
        run_to(arrival_s)
        q = Request(row, arrival_s, arrival_s + rules.timeout_s, prompt, prompt + output)
        everyone.append(q)
        if prompt + output > rules.admission_blocks * rules.block_tokens:
            q.end(ERROR, arrival_s)  # no replica can ever hold it
            continue
        if rules.router == "round_robin":
            chosen = cluster[turn % replicas]
            turn += 1
        else:
            chosen = min(cluster, key=lambda replica: (len(replica.waiting), replica.index))
        q.replica = chosen.index
        chosen.waiting.append(q)
        if chosen.ends_s == math.inf:
            chosen.begin(arrival_s)
    run_to(math.inf)
    return everyone, cluster
