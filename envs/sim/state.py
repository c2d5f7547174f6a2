"""All that changes while gateways run: arrays of records, and one gateway's part of them."""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..workload.request import Requests
from .outcomes import PARTS, SAMPLE
from .records import COMEBACK, CURSOR, ENV, FAULT, METRIC_FAULT, NONE, REPLICA, REQUEST
from .series import HIST_WIDTH, REPLICA_SCRAPE_WIDTH, REPLICA_SERIES, SCRAPE_WIDTH, STORED_SCRAPE

STALE_SAMPLES: Final = 4096
"""First tokens that have left the window and are kept until it is worth moving the others."""


class Sink(NamedTuple):
    """Where a request's end and its first token are noted; one gateway's part."""

    outcomes: Any
    comebacks: Any
    served: Any


class Plant(NamedTuple):
    """One gateway's part of the state, as the kernels pass it on."""

    params: Any
    env: Any
    replicas: Any
    next_event: Any
    keys: Any
    pool: Any
    active: Any
    retries: Any
    retry_due: Any
    cursors: Any
    faults: Any
    scrapes: Any
    replica_scrapes: Any
    samples: Any
    values: Any
    prefix_hit_tokens: Any
    prefix_parent: Any
    metric_faults: Any
    stored_scrapes: Any
    stored_counters: Any
    stored_replicas: Any
    out: Any


class Workload(NamedTuple):
    """The offered requests, shared by all gateways: columns of equal length."""

    arrival_s: NDArray[np.float64]
    prompt_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    prefix_hit_tokens: NDArray[np.int32]
    """Prompt tokens that its `prefix_parent` has brought; empty where prefixes are not known."""
    prefix_parent: NDArray[np.int64]
    """Row of that earlier request, `NONE` without one."""


def _sparse(shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
    """An array of zeros of which only small parts are ever touched.

    In small pages: NumPy asks for huge ones, and then each gateway would hold two MiB an array.
    """
    items = math.prod(shape)
    if items == 0:
        return np.zeros(shape, kind)
    memory = mmap.mmap(-1, items * np.dtype(kind).itemsize)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, kind, items).reshape(shape)


class EngineState(NamedTuple):
    """The arrays of n gateways; the first axis of each is the gateway."""

    env: NDArray[Any]
    """`(n,)` of `ENV`."""
    replicas: NDArray[Any]
    """`(n, R)` of `REPLICA`."""
    next_event: NDArray[np.float64]
    """`(n, R)` s: end of each replica's segment, infinite when idle."""
    keys: NDArray[np.int64]
    """`(n, R + 2, max_num_seqs + 1)`: decoding sequences, last to finish first; then two rows that
    an eviction works in."""
    pool: NDArray[Any]
    """`(n, C)` of `REQUEST`: the requests in flight."""
    active: NDArray[np.int64]
    """`(n, R)`: replicas that may be routed to, `env.active` of them."""
    retries: NDArray[np.int64]
    """`(n, C)`: ring of requests that wait for their retry."""
    retry_due: NDArray[np.float64]
    """`(n, C)` s: when each is due."""
    comebacks: NDArray[Any]
    """`(n, C)` of `COMEBACK`: ring of clients that try again, in order of time; or `(n, 0)`."""
    cursors: NDArray[Any]
    """`(n, 1 + S)` of `CURSOR`: who reads the workload: itself, and the copies that surges lay
    over it."""
    faults: NDArray[Any]
    """`(n, K)` of `FAULT`."""
    scrapes: NDArray[np.float64]
    """`(n, W + 1, SCRAPE_WIDTH)`: ring of the last scrapes of the gateway."""
    replica_scrapes: NDArray[np.int64]
    """`(n, W + 1, R, REPLICA_SCRAPE_WIDTH)`: ring of the last scrapes of the replicas."""
    samples: NDArray[Any]
    """`(n, M)` of `SAMPLE`: first tokens of the window."""
    values: NDArray[np.float64]
    """`(n, M)`: scratch for quantiles."""
    served: NDArray[np.int64]
    """`(n, rows)`: which replica holds a row's prompt in its prefix cache; or `(n, 0)`."""
    attribution: NDArray[np.float64]
    """`(n, 2, 5)`: share of each of `PARTS` in the P95 and the P99 of this tick's latency."""
    metric_faults: NDArray[Any]
    """`(n, F)` of `METRIC_FAULT`. Without room for any the arrays below are empty."""
    stored_scrapes: NDArray[Any]
    """`(n, L)` of `STORED_SCRAPE`: ring as long as a gauge is remembered."""
    stored_counters: NDArray[np.float64]
    """`(n, W + 2, SCRAPE_WIDTH)`: ring like `scrapes`, as stored; the last row is what stood on
    the counters when they last began anew."""
    stored_replicas: NDArray[Any]
    """`(n, W + 2, R)` of `REPLICA_SERIES`: likewise."""

    @classmethod
    def allocate(
        cls,
        n: int,
        *,
        replicas: int,
        max_num_seqs: int,
        pool: int,
        faults: int,
        scrapes: int,
        samples: int,
        surge_copies: int = 0,
        client_retries: bool = False,
        prefix_rows: int = 0,
        metric_faults: int = 0,
        remembered_scrapes: int = 0,
    ) -> EngineState:
        """Empty arrays. Pages that are never touched cost no memory, so the room is generous."""
        remembered = max(remembered_scrapes, scrapes) if metric_faults else 0
        stored = scrapes + 1 if metric_faults else 0
        return cls(
            env=np.zeros(n, ENV),
            replicas=np.zeros((n, replicas), REPLICA),
            next_event=np.full((n, replicas), np.inf),
            keys=np.empty((n, replicas + 2, max_num_seqs + 1), np.int64),
            pool=_sparse((n, pool), REQUEST),
            active=np.empty((n, replicas), np.int64),
            retries=_sparse((n, pool), np.int64),
            retry_due=_sparse((n, pool), np.float64),
            comebacks=_sparse((n, pool if client_retries else 0), COMEBACK),
            cursors=np.zeros((n, 1 + surge_copies), CURSOR),
            faults=np.zeros((n, faults), FAULT),
            scrapes=np.zeros((n, scrapes, SCRAPE_WIDTH)),
            replica_scrapes=np.zeros((n, scrapes, replicas, REPLICA_SCRAPE_WIDTH), np.int64),
            samples=_sparse((n, samples), SAMPLE),
            values=_sparse((n, samples + pool + HIST_WIDTH + replicas), np.float64),
            served=np.zeros((n, prefix_rows), np.int64),
            attribution=np.full((n, 2, len(PARTS)), np.nan),
            metric_faults=np.zeros((n, metric_faults), METRIC_FAULT),
            stored_scrapes=np.zeros((n, remembered), STORED_SCRAPE),
            stored_counters=np.zeros((n, stored, SCRAPE_WIDTH)),
            stored_replicas=np.zeros((n, stored, replicas), REPLICA_SERIES),
        )


def packed_workload(parts: Sequence[Requests], prefixes: bool) -> Workload:
    """The columns of several workloads, one behind the other; prefixes if wanted and known."""
    hits = [np.empty(0, np.int32)]
    parents = [np.empty(0, np.int64)]
    if prefixes and any(p.prefix_parent is not None for p in parts):
        first = 0
        for p in parts:
            hit, parent = p.prefix_hit_tokens, p.prefix_parent
            if hit is None or parent is None:
                hit, parent = np.zeros(len(p), np.int32), np.full(len(p), NONE, np.int64)
            hits.append(hit)
            parents.append(np.where(parent == NONE, NONE, parent + first))
            first += len(p)
    return Workload(
        np.concatenate([p.arrival_s for p in parts]),
        np.concatenate([p.prompt_tokens for p in parts]),
        np.concatenate([p.output_tokens for p in parts]),
        np.concatenate(hits),
        np.concatenate(parents),
    )
