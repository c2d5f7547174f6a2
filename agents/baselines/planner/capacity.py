"""How busy a replica may be before one request in twenty waits too long for its first token.

Work is time: a request of P prompt and O output tokens keeps a replica busy for

    b = P (base / chunk + per_prefill) + O (per_seq + per_ctx (P + O / 2))    seconds,

a prompt token with its share of a full prefill iteration, an output token with what it adds to an
iteration that runs anyway (the iteration model is the engine's, docs/simulator.md).

Each replica is a queue of its own: routers count requests, and a request that decodes counts like
one whose prompt still waits, so arrivals find the queue of prompts about as long as if they had
been sent at random. With a replica busy for the share u of its time (M/G/1, tail of the heavy
traffic approximation; Kingman 1961; Bolch et al., Queueing Networks and Markov Chains, 6.3):

    P(wait > x) = u exp(-2 (1 - u) x / (b (ca2 + cs2)))

with ca2, cs2 the squared coefficients of variation of arrivals and of work. The first token comes
after the wait and the prompt's own prefill, at a full chunk. Prompts are taken for lognormal
through their median and P95, up to twice the P95, and work for as variable as prompts. So

    P(TTFT > t) = mean over prompts of P(wait > t - prefill(prompt)),

and the latency to expect at a busy share is where that is 0.05. The busiest share for a limit is
found the other way round, but prompts whose prefill alone takes longer than the limit are late
whatever the number of replicas. So of the others at least 0.025 may be late: near the point at
which no replicas help, the formula would ask for all there are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..site import ReplicaSpec

Floats = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Cell: TypeAlias = tuple[int, int, int]
"""A mix on its grid: median and P95 of prompts, work of a request."""

LATE_SHARE: Final = 0.05
"""What a P95 leaves over."""
LEAST_LATE: Final = 0.025
"""Share of the requests that could be in time which may be late in any case."""
_P95_Z: Final = NormalDist().inv_cdf(1 - LATE_SHARE)
_POINTS: Final = 40
_NORMAL: Final = np.array([NormalDist().inv_cdf((k + 0.5) / _POINTS) for k in range(_POINTS)])
"""Standard normal quantiles: forty prompts of equal probability stand for all."""
_LEAST_SIGMA: Final = 0.05
_MOST_SIGMA: Final = 2.0
"""Spread of log prompts that is believed: histograms make odd quantiles of few samples."""
_LONGEST: Final = 2.0
"""Longest prompt that is believed, as a multiple of the P95. Services mix short and long prompts: a
lognormal through their quantiles had a squared coefficient of variation of 5.4 where 1.9 was true
(a tenth of all minutes of `daily`), with this cap 2.4."""
_BISECTIONS: Final = 30
_RISE: Final = 1e-9
_MIX_GRID: Final = 0.05
"""Mixes nearer to each other than this (natural logarithm) are one: its curve is kept."""
_MOST_CURVES: Final = 16_384
"""Curves kept of a kind, 20 MB: a day of one service shows a few hundred mixes, a training
5,000."""
_MOST_KINDS: Final = 16
"""Kinds of replicas whose curves are kept: the 20 scenarios of the suite have four."""
LATENCIES: Final = np.geomspace(0.05, 10.0, 64)
"""Latencies at which curves are known, as multiples of the limit."""
_LOG_LATENCIES: Final = np.log(LATENCIES)


@dataclass(frozen=True, slots=True)
class Curves:
    """Latency over busy share, for k mixes."""

    expected: Floats
    """`(k, 64)`, rising: busy shares at which the P95 is each of `LATENCIES`."""
    allowed: Floats
    """`(k, 64)`: busy shares allowed where the limit is each of `LATENCIES`."""

    def busiest_share(self, log_limit: Floats) -> Floats:
        """Share of its time that a replica may be busy so that the P95 keeps a limit, `(k,)`.

        Args:
            log_limit: Natural logarithm of the limit over `ttft_limit_s`, `(k,)`.
        """
        passed = np.searchsorted(_LOG_LATENCIES, log_limit, side="right")
        return _interpolated(log_limit, passed, _LOG_LATENCIES, self.allowed)

    def log_latency(self, busy_share: Floats) -> Floats:
        """The P95 to expect at a busy share, `(k,)`: natural logarithm of it over `ttft_limit_s`.

        Args:
            busy_share: `(k,)`.
        """
        passed = np.count_nonzero(self.expected <= busy_share[:, None], axis=1)
        return _interpolated(busy_share, passed, self.expected, _LOG_LATENCIES)


class Capacity:
    """What a replica can take, at each of s sites."""

    def __init__(
        self,
        replicas: Sequence[ReplicaSpec],
        ttft_limit_s: float,
        arrival_scvs: Sequence[float],
    ) -> None:
        """Takes down the facts.

        Args:
            replicas: What a replica can do, one for each site.
            ttft_limit_s: Unit of `LATENCIES`.
            arrival_scvs: ca2, one for each site: 1 for Poisson arrivals, more for bursts.
        """
        self.replicas, self.ttft_limit_s = tuple(replicas), ttft_limit_s
        self.arrival_scvs = tuple(arrival_scvs)
        steps = [replica.step for replica in replicas]
        prefill_token_s = [
            step.base_s / replica.chunk_tokens + step.per_prefill_token_s
            for step, replica in zip(steps, replicas, strict=True)
        ]
        self._prefill_token_s = np.array(prefill_token_s)
        self._per_seq_s = np.array([step.per_seq_s for step in steps])
        self._per_ctx_token_s = np.array([step.per_ctx_token_s for step in steps])
        self._known = [
            _known_curves(token_s, ttft_limit_s, scv)
            for token_s, scv in zip(prefill_token_s, arrival_scvs, strict=True)
        ]

    def __reduce__(
        self,
    ) -> tuple[type[Capacity], tuple[tuple[ReplicaSpec, ...], float, tuple[float, ...]]]:
        return Capacity, (self.replicas, self.ttft_limit_s, self.arrival_scvs)

    def prefill_token_s(self, places: Ints) -> Floats:
        """Time of a prompt token in a full iteration, `(k,)` seconds.

        Args:
            places: Site of each, `(k,)`.
        """
        return self._prefill_token_s[places]

    def output_token_s(self, places: Ints, prompt_tokens: Floats, output_tokens: Floats) -> Floats:
        """Time that an output token adds to an iteration, `(k,)` seconds.

        Args:
            places: Site of each, `(k,)`.
            prompt_tokens: Length of its prompt, `(k,)`.
            output_tokens: Length of the whole output, `(k,)`.
        """
        context_tokens = prompt_tokens + output_tokens / 2
        added_s: Floats = self._per_seq_s[places] + self._per_ctx_token_s[places] * context_tokens
        return added_s

    def curves(
        self,
        places: Ints,
        prompt_tokens_p50: Floats,
        prompt_tokens_p95: Floats,
        busy_s: Floats,
    ) -> Curves:
        """The curves of k mixes, solved where they are not known yet.

        Args:
            places: Site of each, `(k,)`.
            prompt_tokens_p50: `(k,)`, above 0.
            prompt_tokens_p95: `(k,)`; taken for the median where it is below it.
            busy_s: b: mean work of a request, seconds of a replica, `(k,)`, above 0.
        """
        longer = np.maximum(prompt_tokens_p95, prompt_tokens_p50)
        steps = np.log(np.array([prompt_tokens_p50, longer, busy_s])) / _MIX_GRID
        cells = zip(*np.rint(steps).astype(np.int64).tolist(), strict=True)
        known = self._known
        found = [known[place][cell] for place, cell in zip(places.tolist(), cells, strict=True)]
        table = np.array(found).reshape(-1, 2, len(LATENCIES))
        return Curves(table[:, 0], table[:, 1])


class _KnownCurves(dict[Cell, Floats]):
    """Mix to `(2, 64)`, its `Curves.expected` and `Curves.allowed`: solved when first asked for."""

    def __init__(self, prefill_token_s: float, ttft_limit_s: float, arrival_scv: float) -> None:
        """Takes down all that they depend on."""
        super().__init__()
        self._prefill_token_s = prefill_token_s
        self._ttft_limit_s, self._arrival_scv = ttft_limit_s, arrival_scv

    def __missing__(self, cell: Cell) -> Floats:
        if len(self) >= _MOST_CURVES:
            self.clear()
        found = self[cell] = self._solved(cell)
        return found

    def _solved(self, cell: Cell) -> Floats:
        p50, p95, busy_s = (math.exp(step * _MIX_GRID) for step in cell)
        sigma = math.log(p95 / p50) / _P95_Z
        sigma = min(max(sigma, _LEAST_SIGMA), _MOST_SIGMA)
        prompts = np.minimum(p50 * np.exp(sigma * _NORMAL), p95 * _LONGEST)
        latencies_s = LATENCIES[:, None] * self._ttft_limit_s
        prefills_s = prompts * self._prefill_token_s
        slack_s = latencies_s - prefills_s
        spread_s = busy_s * (self._arrival_scv + _capped_scv(sigma, _LONGEST * p95 / p50)) / 2
        # Where no prompt at all can be in time, waits are at least no longer than prefills.
        hopeless = (slack_s <= 0).mean(axis=1)
        waits_s = np.where(hopeless[:, None] < 1, slack_s, prefills_s)
        vain = np.where(hopeless < 1, hopeless, 0.0)
        late = vain + np.maximum(LATE_SHARE - vain, LEAST_LATE * (1 - vain))
        # Mostly the same share is late; at latencies that too many prefills exceed, none is left.
        can_be = hopeless <= LATE_SHARE
        other = can_be & (late != LATE_SHARE)
        found = _shares(
            np.concatenate([waits_s, slack_s[other]]),
            spread_s,
            np.concatenate([late, np.full(np.count_nonzero(other), LATE_SHARE)]),
        )
        allowed, expected = found[: len(late)], np.where(can_be, found[: len(late)], 0.0)
        expected[other] = found[len(late) :]
        # So that it can be inverted: an idle replica has the latest of the latencies at 0.
        places = np.arange(len(LATENCIES))
        idle = np.count_nonzero(expected < _RISE) - 1
        expected = np.where(places <= idle, places - idle, expected + _RISE * places)
        return np.array([expected, allowed])


@functools.lru_cache(maxsize=_MOST_KINDS)
def _known_curves(prefill_token_s: float, ttft_limit_s: float, arrival_scv: float) -> _KnownCurves:
    """Those of one kind of replica, shared by all of the kind: they differ in nothing else."""
    return _KnownCurves(prefill_token_s, ttft_limit_s, arrival_scv)


def _capped_scv(sigma: float, cap: float) -> float:
    """Squared coefficient of variation of min(X, cap), X lognormal with median 1.

    With a = ln cap / sigma, its k-th moment is exp(k^2 sigma^2 / 2) F(a - k sigma) + cap^k F(-a), F
    the normal distribution's (partial moments of the lognormal; Johnson, Kotz, Balakrishnan 1994).
    """
    a, below = math.log(cap) / sigma, NormalDist().cdf
    mean, square = (
        math.exp((k * sigma) ** 2 / 2) * below(a - k * sigma) + cap**k * below(-a) for k in (1, 2)
    )
    return square / mean**2 - 1


def _interpolated(x: Floats, passed: Ints, xs: Floats, ys: Floats) -> Floats:
    """`numpy.interp` row by row, to the bit.

    Args:
        x: `(k,)`.
        passed: How many of `xs` are not above it, `(k,)`.
        xs: Rising, `(k, 64)`; or `(64,)`, the same for all.
        ys: Likewise.
    """
    last = len(LATENCIES) - 1
    right = np.minimum(np.maximum(passed, 1), last)
    x0, x1, y0, y1 = (
        of[right - back] if of.ndim == 1 else of[np.arange(len(x)), right - back]
        for of, back in ((xs, 1), (xs, 0), (ys, 1), (ys, 0))
    )
    inside = np.minimum(np.maximum(x, x0), x1)  # at x0 the line is at y0, to the bit
    found: Floats = np.where(passed > last, y1, (y1 - y0) / (x1 - x0) * (inside - x0) + y0)
    return found


def _shares(slack_s: Floats, spread_s: float, late: Floats) -> Floats:
    """`(L,)`: busy share at which a share of requests is late; 0 where more are so at once.

    Args:
        slack_s: What the prefill leaves of each latency, `(L, prompts)`.
        spread_s: Scale of the wait's tail.
        late: `(L,)`.
    """
    is_vain, slack_s = slack_s <= 0, np.maximum(slack_s, 0.0)
    low, high = np.zeros(len(late)), np.ones(len(late))
    waits = np.empty_like(slack_s)  # one for all rounds: they are short
    for _ in range(_BISECTIONS):
        share = (low + high) / 2
        np.multiply((share - 1)[:, None], slack_s, out=waits)
        np.exp(np.divide(waits, spread_s, out=waits), out=waits)
        np.multiply(share[:, None], waits, out=waits)
        np.copyto(waits, 1.0, where=is_vain)
        is_kept = np.add.reduce(waits, axis=1) / waits.shape[1] <= late
        low, high = np.where(is_kept, share, low), np.where(is_kept, high, share)
    return low
