"""A closed loop: a fixed number of clients, each of which sends its next request after its last.

That is how serving benchmarks measure (`--max-concurrency`, `--concurrency`), and so how a replica
of the simulator is compared with real hardware. Router, replicas and KV cache are the engine's;
breaker, telemetry and faults, which have clocks of their own, stay out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .gateway import dispatch, take_in
from .gateways import plant_of
from .kernel import kernel
from .outcomes import OK, no_outcomes
from .params import EngineParams
from .records import MAX_POOL, NONE
from .router import bring_all_up
from .simulator import reset
from .state import EngineState, Workload

Floats = NDArray[np.float64]
Tokens = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """One closed-loop run, a row a request, in the order in which they were sent."""

    sent_s: Floats
    """`(n,)` s: when its client sent it."""
    ttft_s: Floats
    """`(n,)` s: from there to the first token, the front end included; NaN without one."""
    e2e_s: Floats
    """`(n,)` s: from there to the last token."""
    tpot_s: Floats
    """`(n,)` s: mean time between two tokens of an answer; NaN for those of one token."""
    restarts: NDArray[np.int16]
    """`(n,)`: evictions from the KV cache."""
    completed: NDArray[np.bool_]
    """`(n,)`: whether it was answered in full."""

    @property
    def duration_s(self) -> float:
        """From the start to the last answer."""
        return float((self.sent_s + self.e2e_s).max(initial=0.0))


def run_closed_loop(
    prompt_tokens: Tokens,
    output_tokens: Tokens,
    params: EngineParams,
    *,
    clients: int,
    replicas: int = 1,
    front_end_s: float = 0.0,
    seed: int = 0,
) -> ClosedLoop:
    """Sends the requests one after another, at most `clients` at a time, until all are answered.

    All clients start at the same instant. The front end (HTTP, tokenising) handles one request at
    a time and takes `front_end_s` for each; the gateway sees it then. That keeps apart requests
    that are sent together, as the single API process of a serving engine does.

    Args:
        prompt_tokens: `(n,)`, each at least 1.
        output_tokens: `(n,)`, each at least 1.
        params: Replica and router; breaker and telemetry must be off.
        clients: Requests in flight at most, at least 1.
        replicas: Ready replicas behind the router, at least 1.
        front_end_s: Seconds of the front end a request.
        seed: Of the random routers.

    Raises:
        ValueError: No client or replica, a clock that is on, a negative front end, lengths that
            do not fit together, or too many clients.
    """
    for name, count in (("clients", clients), ("replicas", replicas)):
        if count < 1:
            msg = f"{name} is {count}, expected 1 or more"
            raise ValueError(msg)
    for name in ("breaker_interval_s", "scrape_interval_s"):
        if getattr(params, name) > 0:
            msg = f"{name} is {getattr(params, name)}, expected 0: a closed loop has no clock"
            raise ValueError(msg)
    if not front_end_s >= 0:
        msg = f"front_end_s is {front_end_s}, expected 0 or more"
        raise ValueError(msg)
    if prompt_tokens.shape != output_tokens.shape:
        msg = f"{len(prompt_tokens)} prompts and {len(output_tokens)} outputs, expected as many"
        raise ValueError(msg)
    for name, column in (("prompt_tokens", prompt_tokens), ("output_tokens", output_tokens)):
        if column.min(initial=1) < 1:
            msg = f"{name} holds {column.min()}, expected at least 1"
            raise ValueError(msg)
    n = len(prompt_tokens)
    if min(clients, n) >= MAX_POOL:
        msg = f"{clients} clients: a run holds at most {MAX_POOL - 1} requests in flight"
        raise ValueError(msg)
    workload = Workload(
        np.zeros(n),
        prompt_tokens.astype(np.int32),
        output_tokens.astype(np.int32),
        np.empty(0, np.int32),
        np.empty(0, np.int64),
    )
    out = no_outcomes(n)
    state = EngineState.allocate(
        1,
        replicas=replicas,
        max_num_seqs=params.max_num_seqs,
        pool=max(min(clients, n), 1),
        faults=0,
        scrapes=1,
        samples=0,
    )
    sent_s, arrival_s = np.zeros(n), np.zeros(n)
    run_clients(
        params.packed(),
        state,
        workload,
        out,
        clients,
        replicas,
        front_end_s,
        np.uint64(seed),
        sent_s,
        arrival_s,
    )
    waited_s = arrival_s - sent_s
    between = np.where(output_tokens > 1, output_tokens - 1, np.nan)
    return ClosedLoop(
        sent_s=sent_s,
        ttft_s=out.ttft_s + waited_s,
        e2e_s=out.e2e_s + waited_s,
        tpot_s=(out.e2e_s - out.ttft_s) / between,
        restarts=out.restarts,
        completed=out.status == OK,
    )


def compile_closed_loop() -> None:
    """Compiles the kernels of a closed loop, or loads them from the cache."""
    one = np.ones(1, np.int32)
    params = EngineParams(base_s=0.01, per_seq_s=0.0, per_ctx_token_s=0.0, per_prefill_token_s=0.0)
    run_closed_loop(one, one, params, clients=1)


@kernel
def run_clients(
    params, state, workload, out, clients, replicas, front_end_s, seed, sent_s, arrival_s
):
    """Runs the rows of the workload on gateway 0, each sent when a client is free.

    A completion falls on the end of a replica's segment, so the clock goes from the earliest such
    end to the next. `sent_s` and `arrival_s`, `(n,)`, are filled in: when a row was sent, and when
    it left the front end.
    """
    plant = plant_of(params, state, workload, out, 0)
    env = plant.env
    n = sent_s.shape[0]
    reset(plant, workload, seed, 0, n, 0.0, 0.0, replicas, 100)
    t = 0.0
    front_end_free = 0.0
    sent = 0
    finished = 0
    idle = clients
    while True:
        while idle > 0 and sent < n:
            front_end_free = max(front_end_free, t) + front_end_s
            sent_s[sent] = t
            arrival_s[sent] = front_end_free
            sent += 1
            idle -= 1
        segment_end = np.inf
        for r in range(replicas):
            segment_end = min(segment_end, plant.next_event[r])
        if env.arrived < sent and arrival_s[env.arrived] <= segment_end:
            t = arrival_s[env.arrived]
            row = np.int64(env.arrived)
            i = take_in(plant, workload, row, np.int64(0), np.int64(0), t)
            if i != NONE:
                dispatch(plant, i, t)
        elif segment_end < np.inf:
            t = segment_end
            bring_all_up(plant, t)
        else:
            break
        ended = env.ok + env.error + env.timeout + env.shed
        idle = ended - finished
        finished = ended
