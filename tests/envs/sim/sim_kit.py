"""One small gateway to try things on: an engine with one row, and its results by request."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatepilot.envs.schema.fields import FIELD_INDEX
from gatepilot.envs.sim.engine import Engine
from gatepilot.envs.sim.faults import Fault, surge_copies
from gatepilot.envs.sim.metric_faults import MetricFault
from gatepilot.envs.sim.outcomes import Outcomes
from gatepilot.envs.sim.params import EngineParams, no_limit
from gatepilot.envs.sim.records import DRAINING, OFF, READY, STARTING
from gatepilot.envs.workload.request import Requests

STATES = {OFF: "off", STARTING: "starting", READY: "ready", DRAINING: "draining"}
STATUSES = ("pending", "ok", "error", "timeout", "shed")
FOREVER_S = 1e6

PLAIN = EngineParams(
    base_s=0.125,
    per_seq_s=0.0,
    per_ctx_token_s=0.0,
    per_prefill_token_s=0.0,
    router="round_robin",
    scrape_interval_s=5.0,
    minimum_samples=20,
)
"""An iteration lasts an eighth of a second, whatever is in it; no breaker, no retries."""


def requests_of(rows: Sequence[tuple[float, int, int]], span_s: float = FOREVER_S) -> Requests:
    """Requests from (arrival, prompt, output), sorted by arrival."""
    columns = np.array(rows, np.float64).reshape(-1, 3)
    tokens = columns[:, 1:].astype(np.int32)
    return Requests(columns[:, 0], tokens[:, 0], tokens[:, 1], span_s)


def parts(gateway: Gateway) -> NDArray[np.float32]:
    """`(n, 4)` s: queue, prefill, cold start and retry of each request's time to first token."""
    o = gateway.outcomes
    return np.stack([o.queue_s, o.prefill_s, o.cold_start_s, o.retry_s], axis=-1)


class Gateway:
    """One gateway under test; it starts with `replicas` ready ones at second 0."""

    def __init__(  # noqa: PLR0913
        self,
        requests: Requests | Sequence[tuple[float, int, int]],
        *,
        replicas: int = 2,
        max_replicas: int = 8,
        faults: Sequence[Fault] = (),
        metric_faults: Sequence[MetricFault] = (),
        threshold_percent: int = 50,
        seed: int = 1,
        params: EngineParams = PLAIN,
        **changes: Any,  # noqa: ANN401
    ) -> None:
        self.requests = requests if isinstance(requests, Requests) else requests_of(requests)
        self.params = dataclasses.replace(params, **changes)
        self.engine = Engine(
            [self.params],
            [self.requests],
            1,
            max_replicas=max_replicas,
            faults=max(len(faults), 1),
            metric_faults=[len(metric_faults)],
            surge_copies=surge_copies(faults),
            sampled_s=self.params.window_s + 1000,
            periodic=False,
            outcomes=True,
        )
        self.threshold_percent = threshold_percent
        self.replicas = replicas
        self.each_once = self.params.client_retries == 0 and surge_copies(faults) == 0
        self.engine.reset(
            np.zeros(1, np.int64),
            seeds=np.array([seed], np.uint64),
            workloads=np.zeros(1, np.int64),
            start_s=np.zeros(1),
            warmup_s=0.0,
            replicas=np.array([replicas]),
            threshold_percent=np.array([threshold_percent]),
            faults=[list(faults)],
            metric_faults=[list(metric_faults)],
        )

    def tick(
        self, seconds: float, replicas: int | None = None, max_outstanding: int | None = None
    ) -> None:
        """Some seconds under these settings."""
        self.replicas = self.replicas if replicas is None else replicas
        self.engine.tick(
            seconds,
            np.array([self.replicas]),
            np.array([self.threshold_percent]),
            np.array([no_limit(max_outstanding)]),
        )

    @property
    def outcomes(self) -> Outcomes:
        return self.engine.outcomes

    @property
    def status(self) -> list[str]:
        """One word a request."""
        return [STATUSES[code] for code in self.outcomes.status]

    @property
    def counters(self) -> dict[str, Any]:
        return {name: values[0].item() for name, values in self.engine.counters.items()}

    @property
    def env(self) -> Any:  # noqa: ANN401
        return self.engine._state.env[0]

    @property
    def places(self) -> NDArray[Any]:
        """The record of each place for a replica."""
        places: NDArray[Any] = self.engine._state.replicas[0]
        return places

    @property
    def states(self) -> list[str]:
        """What is in each place, without the free ones at the end."""
        words = [STATES[code] for code in self.places["state"]]
        while words and words[-1] == "off":
            words.pop()
        return words

    def seen(self, name: str) -> float:
        return float(self.engine.seen[0, FIELD_INDEX[name]])

    def truth(self, name: str) -> float:
        return float(self.engine.truth[0, FIELD_INDEX[name]])

    def blocks_at(self, r: int, count: int) -> int:
        """KV blocks of replica r in iteration `count` of its segment, sequence by sequence."""
        state = self.engine._state
        rep, pool = state.replicas[0, r], state.pool[0]
        blocks = int(rep["prefill_blocks"])
        for key in state.keys[0, r, : rep["decoding"]]:
            finish, i = divmod(int(key), 1 << 24)
            tokens = int(pool[i]["prompt"]) + int(pool[i]["output"]) - (finish - count)
            blocks += math.ceil(tokens / self.params.block_tokens)
        return blocks

    def blocks_held(self, r: int) -> tuple[int, int]:
        """KV blocks of replica r in the first and the last iteration of its segment.

        A paused replica has no segment: it holds what its last iteration was granted.
        """
        rep = self.engine._state.replicas[0, r]
        first, steps = int(rep["count"]), int(rep["steps"])
        first -= 1 if steps == 0 else 0
        return self.blocks_at(r, first), self.blocks_at(r, first + max(steps, 1) - 1)
