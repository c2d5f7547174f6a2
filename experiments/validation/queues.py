"""Set-ups of the engine that are queues of the textbook, and how their mean wait is measured.

A request has one prompt token and as many output tokens as its service takes iterations. One
replica is the station:

- first come, first served with c servers: an iteration always lasts one step, whatever is in it,
  and the replica holds c sequences at once;
- processor sharing: an iteration lasts one step for each sequence in it, so that each of n is
  served at an n-th of the speed.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from ...envs.sim.params import EngineParams
from ...envs.sim.whole_run import simulate
from ...envs.workload.request import Requests
from .queueing_theory import (
    erlang_mean_wait,
    pollaczek_khinchine,
    sharing_mean_delay,
    stepped_mean_wait,
)

LOADS: Final = (0.1, 0.3, 0.5, 0.7, 0.9, 0.95)
MEAN_STEPS: Final = 500_000
"""Iterations of a mean service: so many that time is continuous for all that is measured, and few
enough that the engine can count those of a whole run (2**39)."""
MOST_SHARING: Final = 4096
"""Sequences that share the processor at once at most. At load 0.95 one of 10**91 finds more."""
PARETO_SHAPE: Final = 2.0
PARETO_RANGE: Final = 1000.0
"""Longest service as a multiple of the shortest: a tail over three decades, which would have no
variance without its end. Squared coefficient of variation: 2.46."""

MOST_GROWTH: Final = 3
"""Times as many runs before the spread is looked at again: that of a few is itself uncertain."""

Draw: TypeAlias = Callable[[np.random.Generator, int, int], NDArray[np.int64]]
"""Draws services, in iterations: generator, how many, mean."""


@dataclass(frozen=True, slots=True)
class Law:
    """How long services are."""

    draw: Draw
    scv: float
    """Squared coefficient of variation."""


def _geometric(rng: np.random.Generator, size: int, mean: int) -> NDArray[np.int64]:
    """What an exponential service is in whole iterations."""
    services: NDArray[np.int64] = rng.geometric(1.0 / mean, size)
    return services


def _constant(rng: np.random.Generator, size: int, mean: int) -> NDArray[np.int64]:
    del rng
    return np.full(size, mean, np.int64)


def bounded_pareto(rng: np.random.Generator, size: int, mean: int) -> NDArray[np.int64]:
    """Services with a heavy tail that ends at `PARETO_RANGE` times the shortest, rounded up.

    Source of the law: M. Harchol-Balter, Performance Modeling and Design of Computer Systems
    (2013), chapter 20.
    """
    shape, cut = PARETO_SHAPE, PARETO_RANGE**-PARETO_SHAPE
    unscaled_mean = shape / (shape - 1) * (1 - PARETO_RANGE ** (1 - shape)) / (1 - cut)
    lengths = (1.0 - rng.random(size) * (1.0 - cut)) ** (-1.0 / shape)
    steps: NDArray[np.int64] = np.ceil(lengths * (mean / unscaled_mean)).astype(np.int64)
    return steps


EXPONENTIAL: Final = Law(_geometric, 1.0)
CONSTANT: Final = Law(_constant, 0.0)
HEAVY: Final = Law(bounded_pareto, math.nan)
"""Its variation does not matter where it is used: under processor sharing."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue with Poisson arrivals. The mean service is one second."""

    name: str
    law: Law
    servers: int = 1
    shared: bool = False
    """Processor sharing instead of first come, first served."""
    loads: tuple[float, ...] = LOADS
    """Loads that are measured; low ones are left out where next to nobody waits."""
    mean_steps: int = MEAN_STEPS

    @property
    def step_s(self) -> float:
        """Length of an iteration, with one sequence in it."""
        return 1.0 / self.mean_steps

    @property
    def params(self) -> EngineParams:
        """The engine as this queue."""
        if self.shared:
            return EngineParams(
                base_s=0.0,
                per_seq_s=self.step_s,
                per_ctx_token_s=0.0,
                per_prefill_token_s=self.step_s,
                max_num_seqs=MOST_SHARING,
                chunk_tokens=MOST_SHARING,
                router="round_robin",
            )
        return EngineParams(
            base_s=self.step_s,
            per_seq_s=0.0,
            per_ctx_token_s=0.0,
            per_prefill_token_s=0.0,
            max_num_seqs=self.servers,
            router="round_robin",
        )

    def formula_s(self, load: float) -> float:
        """Mean wait by the textbook; under sharing, the mean time that sharing adds."""
        if self.shared:
            return sharing_mean_delay(load)
        if self.servers == 1:
            return pollaczek_khinchine(load, self.law.scv)
        return erlang_mean_wait(load, self.servers)

    def stepped_s(self, load: float) -> float | None:
        """Exact mean of the queue that goes in iterations; `None` where none is known.

        A constant service is a whole number of iterations: there the textbook is exact.
        """
        if self.law is CONSTANT:
            return self.formula_s(load)
        if self.law is not EXPONENTIAL:
            return None
        if self.servers == 1 and not self.shared:
            return pollaczek_khinchine(load, 1.0 - self.step_s)
        return stepped_mean_wait(load, self.servers, self.mean_steps, shared=self.shared)

    def draw(self, load: float, size: int, rng: np.random.Generator) -> Requests:
        """So many requests of this queue."""
        tokens = self.law.draw(rng, size, self.mean_steps).astype(np.int32)
        arrival_s = np.cumsum(rng.exponential(1.0 / (load * self.servers), size))
        return Requests(arrival_s, np.ones(size, np.int32), tokens, float(arrival_s[-1]) + 1.0)

    def waits_s(self, requests: Requests, params: EngineParams) -> NDArray[np.float64]:
        """How long each request waits, or is delayed by sharing; NaN where it fails.

        Args:
            requests: The offered load.
            params: The engine.
        """
        outcomes = simulate(requests, params, replicas=1).outcomes
        if self.shared:
            delays: NDArray[np.float64] = outcomes.e2e_s - self.step_s * requests.output_tokens
            return delays
        waits: NDArray[np.float64] = outcomes.ttft_s - self.step_s
        return waits


QUEUES: Final = (
    Queue("M/M/1", EXPONENTIAL),
    Queue("M/D/1", CONSTANT),
    Queue("M/M/2", EXPONENTIAL, servers=2),
    Queue("M/M/8", EXPONENTIAL, servers=8, loads=LOADS[2:]),
    Queue("M/M/1-PS", EXPONENTIAL, shared=True),
    Queue("M/G/1-PS, heavy tail", HEAVY, shared=True),
)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is simulated for one mean wait."""

    run_requests: int
    """Requests of one run, which starts with nobody there."""
    edge_requests: int
    """Those left out at a run's start, where it is not yet stationary; under sharing also at its
    end, where those who stay see no further arrivals."""
    pilot_runs: int
    """Runs at least; their spread says how many are needed."""
    half_width: float
    """Wanted half of the 95 % interval, as a fraction of the mean."""
    most_runs: int


FULL: Final = Effort(1 << 19, 1 << 15, 16, 0.008, 600)
QUICK: Final = Effort(1 << 17, 1 << 13, 16, 0.015, 200)
"""Edges: 20 relaxation times of M/M/1, 1 / (1 - sqrt(load))**2 mean services, at load 0.95 in full
runs and at 0.9 in quick ones."""


@dataclass(frozen=True, slots=True)
class MeanWait:
    """A mean wait over independent runs."""

    mean_s: float
    half_width_s: float
    """Half of the 95 % interval, by Student's t over the runs' means."""
    runs: int
    requests: int
    """In all runs together, edges included."""


def measure(
    queue: Queue, load: float, effort: Effort, *, seed: int, params: EngineParams | None = None
) -> MeanWait:
    """Mean wait of a queue at a load, from as many independent runs as its spread asks for.

    The spread of the runs so far gives the number of all runs, until the interval is as narrow as
    wanted. Source: Y. Chow, H. Robbins, Annals of Mathematical Statistics 36 (1965), 457-462.

    Args:
        queue: The queue.
        load: Of each server.
        effort: How much to simulate.
        seed: Of arrivals and services.
        params: The engine where it is not to be the queue's own: for tests of a wrong one.
    """
    engine = queue.params if params is None else params
    last = effort.run_requests - (effort.edge_requests if queue.shared else 0)

    def run(number: int) -> float:
        key = (zlib.crc32(queue.name.encode()), round(1000 * load), number)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
        requests = queue.draw(load, effort.run_requests, rng)
        return float(queue.waits_s(requests, engine)[effort.edge_requests : last].mean())

    means: list[float] = []
    runs = effort.pilot_runs
    while len(means) < runs:
        means += [run(number) for number in range(len(means), runs)]
        wanted_s = effort.half_width * abs(float(np.mean(means)))
        missed = _half_width(means) / wanted_s if wanted_s > 0 else 0.0
        if missed > 1.0:
            runs = min(math.ceil(missed**2 * runs), MOST_GROWTH * runs, effort.most_runs)
    requests = len(means) * effort.run_requests
    return MeanWait(float(np.mean(means)), _half_width(means), len(means), requests)


def _half_width(means: list[float]) -> float:
    n = len(means)
    quantile = float(scipy.stats.t.ppf(0.975, n - 1))
    return quantile * float(np.std(means, ddof=1)) / math.sqrt(n)
