"""The engine as Python sees it: many gateways over shared workloads, stepped together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..schema.fields import FIELDS, Rows
from ..workload.request import Requests
from .branching import branch, check_targets, fingerprint
from .faults import Fault, packed_faults
from .gateways import reset_many, show_many, tick_many
from .metric_faults import MetricFault, set_metric_faults
from .outcomes import Outcomes, no_outcomes
from .params import NO_LIMIT, EngineParams
from .records import READY, REPLICA, STARTING
from .state import STALE_SAMPLES, EngineState, packed_workload
from .stored_row import LOOKBACK_S
from .whole_run import simulate

POOL: Final = 1 << 16
"""Requests in flight one stepped gateway can hold; more are shed."""
COUNTERS: Final = (
    *("arrived", "first_tokens", "ok", "error", "timeout", "shed", "billed_s"),
    *("prompt_tokens", "prefix_hit_tokens", "cool", "warm", "hot", "burning"),
)
"""What a gateway counts: requests by status, billed seconds, prompt tokens and how many of them
came out of a prefix cache, first tokens by heat class (`HEAT_BOUNDS_S`)."""


class Engine:
    """n independent gateways over shared workloads, each with its clock, replicas and generator.

    The rows `seen` and `truth` are `(n, F)` in the order of `schema.FIELDS`, NaN where missing.
    """

    def __init__(
        self,
        kinds: Sequence[EngineParams],
        workloads: Sequence[Requests],
        n: int,
        *,
        max_replicas: int,
        faults: int = 0,
        metric_faults: Sequence[int] = (),
        surge_copies: int = 0,
        sampled_s: float,
        threads: int = 1,
        periodic: bool = True,
        outcomes: bool = False,
    ) -> None:
        """Allocates everything; nothing runs before `reset`.

        Args:
            kinds: What a gateway may be; all of one telemetry, with or without prefix caches.
            workloads: What gateways may draw from.
            n: Gateways.
            max_replicas: Most replicas a gateway is asked for. There is room for as many draining
                ones.
            faults: Room for faults per gateway.
            metric_faults: Of each kind, room for metric faults per gateway; `()`: none. Without
                room they cost nothing, and `seen` is no store's answer but the plant's own.
            surge_copies: Copies of the workload that surges may lay over it at once.
            sampled_s: Longest time over which first tokens are kept: the telemetry window and a
                tick, or the warm-up.
            threads: Threads over the gateways.
            periodic: Whether a workload begins anew after its span, or ends.
            outcomes: Whether the result of every request is kept (one gateway only).

        Raises:
            ValueError: Kinds that cannot stand side by side.
        """
        first = _alike(kinds)
        self.n = n
        self._kinds = np.concatenate([kind.packed() for kind in kinds])
        self._has_store = np.array(metric_faults or [0] * len(kinds)) > 0
        self._params, self._is_stored = np.repeat(self._kinds[:1], n), np.zeros(n, np.bool_)
        self._workload = packed_workload(workloads, first.prefix_cache == 1)
        ends = np.cumsum([len(w) for w in workloads])
        self._rows = np.stack([ends - [len(w) for w in workloads], ends], axis=-1).astype(np.int64)
        self._spans = np.array([w.span_s if periodic else 0.0 for w in workloads])
        retries = max(kind.client_retries for kind in kinds)
        self._state = EngineState.allocate(
            n,
            replicas=2 * max_replicas,
            max_num_seqs=max(kind.max_num_seqs for kind in kinds),
            pool=POOL,
            faults=faults,
            scrapes=round(first.window_s / first.scrape_interval_s) + 1,
            samples=STALE_SAMPLES + _most_first_tokens(retries, workloads, sampled_s, surge_copies),
            surge_copies=surge_copies,
            client_retries=retries > 0,
            prefix_rows=len(self._workload.prefix_parent),
            metric_faults=max(metric_faults, default=0),
            remembered_scrapes=int(LOOKBACK_S / first.scrape_interval_s) + 2,
        )
        self.outcomes: Outcomes = no_outcomes(int(ends[-1]) if outcomes else 0)
        self.seen: Rows = np.full((n, len(FIELDS)), np.nan)
        self.truth: Rows = np.full((n, len(FIELDS)), np.nan)
        self._threads = min(threads, n)
        self._pool: ThreadPoolExecutor | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What can be copied and pickled: all but the threads."""
        return self.__dict__ | {"_pool": None}

    def reset(
        self,
        which: NDArray[np.int64],
        *,
        seeds: NDArray[np.uint64],
        workloads: NDArray[np.int64],
        start_s: NDArray[np.float64],
        warmup_s: float,
        replicas: NDArray[np.int64],
        threshold_percent: NDArray[np.int64],
        faults: Sequence[Sequence[Fault]],
        metric_faults: Sequence[Sequence[MetricFault]] | None = None,
        kinds: NDArray[np.int64] | None = None,
    ) -> None:
        """Starts gateways anew and runs their warm-up.

        Args:
            which: `(k,)`: the gateways.
            seeds: `(k,)`: of their generators.
            workloads: `(k,)`: index of the workload each draws from.
            start_s: `(k,)`: where in it the episode begins, after the warm-up.
            warmup_s: Time run before; the load before a workload's start is its end.
            replicas: `(n,)`: ready replicas at the start.
            threshold_percent: `(n,)`: breaker threshold.
            faults: One list for each of `which`; times count from the episode's beginning.
            metric_faults: Likewise, what goes wrong with the scrapes; `None`: nothing.
            kinds: `(k,)`: index of what each is from now on; `None`: the first.
        """
        chosen = np.zeros(len(which), np.int64) if kinds is None else kinds
        self._params[which], self._is_stored[which] = self._kinds[chosen], self._has_store[chosen]
        # whoever counts over all places would find what the last episode left in the empty ones
        self._state.replicas[which] = np.zeros((), REPLICA)
        for e, listed in zip(which, faults, strict=True):
            self._state.faults[e] = packed_faults(listed, self._state.faults.shape[1], warmup_s)
        set_metric_faults(self._state, which, metric_faults or [[]] * len(which), warmup_s)
        rows, spans = self._rows[workloads], self._spans[workloads]
        begin_s = np.where(spans > 0, np.mod(start_s - warmup_s, np.maximum(spans, 1e-9)), start_s)

        def part(low: int, high: int) -> None:
            reset_many(
                self._params,
                self._state,
                self._workload,
                self.outcomes,
                which[low:high],
                seeds[low:high],
                rows[low:high],
                begin_s[low:high],
                spans[low:high],
                warmup_s,
                replicas,
                threshold_percent,
                self.seen,
                self.truth,
            )
            self._show(which[low:high])

        self._in_parts(part, len(which))

    def tick(
        self,
        tick_s: float,
        replicas: NDArray[np.int64],
        threshold_percent: NDArray[np.int64],
        max_outstanding: NDArray[np.int64] | None = None,
    ) -> None:
        """Runs all gateways one control interval under new settings, each `(n,)`."""
        if max_outstanding is None:
            max_outstanding = np.full(self.n, NO_LIMIT, np.int64)

        def part(low: int, high: int) -> None:
            tick_many(
                self._params,
                self._state,
                self._workload,
                self.outcomes,
                low,
                high,
                tick_s,
                replicas,
                threshold_percent,
                max_outstanding,
                self.seen,
                self.truth,
            )
            self._show(np.arange(low, high))

        self._in_parts(part, self.n)

    def branch(
        self,
        sources: NDArray[np.int64],
        targets: NDArray[np.int64],
        origin: Engine | None = None,
    ) -> None:
        """Makes gateway `targets[k]` what gateway `sources[k]` is, `(k,)` each, to the bit.

        From there on both do the same under the same settings: the generator is copied too.

        Args:
            sources: Which gateways are copied; one may be so often.
            targets: Over which they are laid.
            origin: Whose gateways the sources are; `None`: this engine's.

        Raises:
            ValueError: A target is named twice or is a source too, or `origin` is of another kind.
        """
        there = self if origin is None else origin
        check_targets(sources, targets, within=origin is None)
        if there._kind != self._kind:
            msg = "origin: expected an engine of the same parameters, workloads and room"
            raise ValueError(msg)

        def part(low: int, high: int) -> None:
            branch(there._state, sources[low:high], self._state, targets[low:high])

        self._in_parts(part, len(targets))
        self._params[targets] = there._params[sources]
        self._is_stored[targets] = there._is_stored[sources]
        self.seen[targets], self.truth[targets] = there.seen[sources], there.truth[sources]

    @property
    def _kind(self) -> tuple[bytes, bytes, list[tuple[int, ...]]]:
        """What two engines must have in common so that a gateway of one can be one of the other."""
        shapes = [array.shape[1:] for array in self._state]
        return self._kinds.tobytes(), self._rows.tobytes(), shapes

    def fingerprint(self, gateway: int) -> bytes:
        """A hash of a gateway's state but for its threshold: equal ones go on alike."""
        return fingerprint(self._state, gateway)

    @property
    def ready_in_s(self) -> NDArray[np.float64]:
        """`(n, R)` s: how long until a replica takes requests, by place.

        0: it does; infinite: it will not, for it is off or draining.
        """
        replicas, now = self._state.replicas, self._state.env["now"][:, None]
        waits = np.where(replicas["state"] == STARTING, replicas["ready_at"] - now, np.inf)
        return np.where(replicas["state"] == READY, 0.0, waits)

    def _in_parts(self, part: Callable[[int, int], None], n: int) -> None:
        """Does `part(low, high)` for n gateways, an equal share on each thread; one is this one."""
        if self._pool is None and self._threads > 1:
            self._pool = ThreadPoolExecutor(self._threads - 1)
        bounds = [n * k // self._threads for k in range(self._threads + 1)]
        own, *shares = [(low, high) for low, high in pairwise(bounds) if high > low] or [(0, 0)]
        others = [self._pool.submit(part, *share) for share in shares if self._pool]
        part(*own)
        for other in others:
            other.result()

    def _show(self, which: NDArray[np.int64]) -> None:
        """Writes `seen` anew where metric faults stand between the plant and who looks at it."""
        stored = which[self._is_stored[which]]
        if len(stored):
            show_many(self._params, self._state, stored, self.seen)

    @property
    def counters(self) -> dict[str, NDArray[Any]]:
        """What each gateway counted since its reset, `(n,)` each: `COUNTERS`.

        Besides: how many requests are in flight (`outstanding`) or wait at their clients for
        another try (`returning`).
        """
        env = self._state.env
        counted = {name: env[name].copy() for name in (*COUNTERS, "outstanding")}
        return {**counted, "returning": env["comeback_tail"] - env["comeback_head"]}

    @property
    def attribution(self) -> NDArray[np.float64]:
        """`(n, 2, 5)`: shares of `PARTS` in the tail beyond P95 and P99 of the last tick."""
        return self._state.attribution

    def first_tokens(self, within_s: float) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Gateway and latency of every first token of the last `within_s` seconds."""
        env, counts = self._state.env, self._state.env["samples"]
        samples = self._state.samples[:, : counts.max(initial=0)]
        held = np.arange(samples.shape[1]) < counts[:, None]
        fresh = held & (samples["at"] > (env["now"] - within_s)[:, None])
        rows, places = np.nonzero(fresh)
        return rows, samples["ttft_s"][rows, places]


def compile_engine() -> None:
    """Compiles all kernels, or loads them from the cache: what else the first run would do."""
    requests = Requests(np.array([0.5]), np.array([1]), np.array([1]), 1.0)
    params = EngineParams(
        base_s=0.01,
        per_seq_s=0.0,
        per_ctx_token_s=0.0,
        per_prefill_token_s=0.0,
        scrape_interval_s=1.0,
        window_s=1.0,
    )
    simulate(requests, replace(params, scrape_interval_s=0.0), replicas=1)
    engine = Engine([params], [requests], 1, max_replicas=1, metric_faults=[1], sampled_s=2.0)
    one = np.ones(1, np.int64)
    engine.reset(
        one - 1,
        seeds=np.ones(1, np.uint64),
        workloads=one - 1,
        start_s=np.zeros(1),
        warmup_s=1.0,
        replicas=one,
        threshold_percent=50 * one,
        faults=[[]],
    )
    engine.tick(1.0, one, 50 * one)


def _alike(kinds: Sequence[EngineParams]) -> EngineParams:
    """The first of the kinds, where all have in common what they share arrays for.

    Raises:
        ValueError: They have not.
    """
    first = kinds[0]
    for name in ("scrape_interval_s", "window_s", "prefix_cache"):
        for kind in kinds:
            mine, theirs = getattr(first, name), getattr(kind, name)
            if mine != theirs:
                msg = f"{name} is {mine} and {theirs}: gateways side by side have one"
                raise ValueError(msg)
    return first


def _most_first_tokens(
    client_retries: int, workloads: Sequence[Requests], sampled_s: float, surge_copies: int
) -> int:
    """Most first tokens in that time: of what is in flight or about to come back, and of arrivals.

    A surge multiplies arrivals, and each may come back as often as its client tries.
    """
    in_flight = POOL * (2 if client_retries > 0 else 1)
    times = (1 + surge_copies) * (1 + client_retries)
    return in_flight + times * max(most_in_window(w, sampled_s) for w in workloads)


def most_in_window(requests: Requests, window_s: float) -> int:
    """Most arrivals within any window of that length, the periodic continuation included."""
    arrivals = np.concatenate([requests.arrival_s, requests.arrival_s + requests.span_s])
    if len(arrivals) == 0:
        return 0
    repeats, rest_s = divmod(window_s, requests.span_s)
    ends = np.searchsorted(arrivals, arrivals[: len(requests)] + rest_s, side="right")
    return int((ends - np.arange(len(requests))).max()) + int(repeats) * len(requests)
