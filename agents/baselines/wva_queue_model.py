"""The queueing model of llm-d's Workload Variant Autoscaler: one replica as a birth-death chain.

Rule of llm-d/llm-d-workload-variant-autoscaler, `pkg/analyzer/{queueanalyzer,mm1kmodel,
mm1modelstatedependent,utils}.go`, read in the mirror zdtsw-forking/workload-variant-autoscaler at
92cb9bb and abe1f68. Upstream counts in milliseconds and single precision, here it is seconds and
double precision: rates differ by about one in 100,000, and what is not kept is that upstream's own
upper end fails its check by one rounding for some 0.7 % of replicas where no target binds.

Step of a batch of n requests with prompts of I and answers of O tokens on average:

    T(n)       = alpha + n (beta (I + O) / (O + 1) + gamma (I + O / 2))
    prefill(n) = T(n) + (beta + gamma) I          (0 without a prompt)
    decode(n)  = T(n) + beta + gamma (I + O / 2)  (one token)
    mu(n)      = n / (prefill(n) + O decode(n)),  of mu(B) from the largest batch B on

Poisson arrivals of rate r, at most K = B + queue requests in the system; the others are lost:

    p(n) ~ r^n / (mu(1) ... mu(n)),  throughput X = r (1 - p(K)),  in service N = E[min(n, B)]
    service = N / X,  wait = E[n] / X - service
    ITL = (service - prefill(N)) / O,  TTFT = wait + prefill(N) + ITL

The largest rate that keeps a target on the mean (no percentile) is searched by halving between
0.001 mu(1) and 0.999 mu(B), to a relative 1e-6 of the target; what a replica can take is the
throughput at the smallest of these rates.

Regimes of a target: not set (0): no bound; met at the upper end: the upper end; missed even at the
lower end: no rate at all; else in between. A target on tokens a second only caps the rate at 0.9 of
the upper end.

Quirks kept: prefill is taken at the mean batch, not averaged over batches, so with B = 1 the ITL
falls as the rate grows, and a target above its value at no load then counts as missed; neither the
KV cache nor the token budget of a step (`MaxNumTokens`) bounds the batch.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

EDGE_FRACTION: Final = 0.001
"""`Epsilon`: how far from 0 and from the largest service rate the search stays."""
THROUGHPUT_FRACTION: Final = 0.9
"""1 - `StabilitySafetyFraction`: what a target on tokens a second leaves of the upper end."""
SEARCH_TOLERANCE: Final = 1e-6
"""`epsilon`: relative distance from the target at which the search ends."""
SEARCH_STEPS: Final = 100
"""`maxIterations`."""


@dataclass(frozen=True, slots=True)
class RequestSize:
    """Mean tokens of a request."""

    prompt_tokens: float
    """I: prompt."""
    output_tokens: float
    """O: answer."""

    def __post_init__(self) -> None:
        """Refuses requests without an answer.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        if not (math.isfinite(self.prompt_tokens) and self.prompt_tokens >= 0):
            raise ValueError(f"prompt_tokens is {self.prompt_tokens}, expected 0 or more")
        if not (math.isfinite(self.output_tokens) and self.output_tokens >= 1):
            raise ValueError(f"output_tokens is {self.output_tokens}, expected 1 or more")

    @property
    def context_tokens(self) -> float:
        """Tokens of context a request holds while it decodes, on average."""
        return self.prompt_tokens + self.output_tokens / 2


@dataclass(frozen=True, slots=True)
class StepTimes:
    """`ServiceParms`: how long a step of the engine lasts."""

    alpha_s: float
    """Whatever is in the batch."""
    beta_s: float
    """For a token that is computed, prompt or answer."""
    gamma_s: float
    """For a token of context that is read."""

    def step_s(self, size: RequestSize, batch: float) -> float:
        """T: mean duration of a step."""
        computed = (size.prompt_tokens + size.output_tokens) / (size.output_tokens + 1)
        one_s = self.beta_s * computed + self.gamma_s * size.context_tokens
        return self.alpha_s + batch * one_s

    def prefill_s(self, size: RequestSize, batch: float) -> float:
        """Duration of the step that takes in a prompt; 0 without one."""
        if size.prompt_tokens == 0:
            return 0.0
        return self.step_s(size, batch) + (self.beta_s + self.gamma_s) * size.prompt_tokens

    def decode_s(self, size: RequestSize, batch: float) -> float:
        """Duration of the step that adds one token to an answer."""
        return self.step_s(size, batch) + self.beta_s + self.gamma_s * size.context_tokens

    def service_s(self, size: RequestSize, batch: float) -> float:
        """Duration of a whole request."""
        return self.prefill_s(size, batch) + size.output_tokens * self.decode_s(size, batch)


@dataclass(frozen=True, slots=True)
class LatencyTargets:
    """`TargetPerf`: bounds on means; 0: not set."""

    ttft_s: float = 0.0
    """Time to the first token, waiting included."""
    itl_s: float = 0.0
    """Time from one token to the next."""
    output_tps: float = 0.0
    """Answer tokens a second, of all replicas together."""

    def __post_init__(self) -> None:
        """Refuses targets below 0.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        for name in ("ttft_s", "itl_s", "output_tps"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value}, expected 0 (not set) or more")


@dataclass(frozen=True, slots=True)
class Steady:
    """A replica in the long run at one arrival rate."""

    throughput_rps: float
    """Requests that are served a second."""
    in_service: float
    """Mean requests in the batch."""
    wait_s: float
    """Mean time before the batch."""
    service_s: float
    """Mean time in the batch."""


@dataclass(slots=True)
class ReplicaQueue:
    """The chain of one replica, ready for any arrival rate."""

    times: StepTimes
    size: RequestSize
    max_batch: int
    """B."""
    max_queue: int
    """K - B."""
    rates_rps: list[float] = field(init=False)
    """Service rates of batches of 1 to B, rising."""
    _log_products: NDArray[np.float64] = field(init=False)
    _moments: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        """Makes the service rates.

        Raises:
            ValueError: No batch, a queue below 0, or steps that take no time.
        """
        if self.max_batch < 1 or self.max_queue < 0:
            given = f"batch {self.max_batch}, queue {self.max_queue}"
            raise ValueError(f"{given}: expected a batch of 1 or more and a queue of 0 or more")
        empty_s, one_s = (self.times.service_s(self.size, batch) for batch in (0, 1))
        if not one_s > 0:
            raise ValueError(f"{self.times}: expected steps that take time")
        batches = np.arange(self.max_batch + 1, dtype=np.float64)
        rates_rps = batches[1:] / (empty_s + (one_s - empty_s) * batches[1:])
        self.rates_rps = rates_rps.tolist()
        self._log_products = np.concatenate(([0.0], np.cumsum(np.log(rates_rps))))
        self._moments = np.stack((np.ones_like(batches), batches))

    @property
    def lowest_rps(self) -> float:
        """Lower end of the search."""
        return self.rates_rps[0] * EDGE_FRACTION

    @property
    def highest_rps(self) -> float:
        """Upper end of the search: a little below the largest service rate."""
        return self.rates_rps[-1] * (1 - EDGE_FRACTION)

    def steady(self, rate_rps: float) -> Steady:
        """Means at an arrival rate between `lowest_rps` and `highest_rps`.

        Weights are relative to the likeliest state, so none overflows. The states of a full batch
        follow a geometric series, which is summed in closed form.
        """
        logs = self._moments[1] * math.log(rate_rps) - self._log_products
        weights = np.exp(logs - logs[bisect_left(self.rates_rps, rate_rps)])
        batch_sum, batch_mean = (self._moments @ weights).tolist()
        last, ratio, queue = float(weights[-1]), rate_rps / self.rates_rps[-1], self.max_queue
        end, gap = ratio**queue, 1 - ratio
        queued_sum = last * ratio * (1 - end) / gap
        queued_mean = last * ratio * (1 - end - queue * end * gap) / gap**2
        total = batch_sum + queued_sum
        throughput_rps = rate_rps * (1 - last * end / total)
        in_service = (batch_mean + self.max_batch * queued_sum) / total
        return Steady(
            throughput_rps,
            in_service,
            queued_mean / total / throughput_rps,
            in_service / throughput_rps,
        )

    def itl_s(self, steady: Steady) -> float:
        """Mean time from one token to the next."""
        prefill_s = self.times.prefill_s(self.size, steady.in_service)
        return (steady.service_s - prefill_s) / self.size.output_tokens

    def ttft_s(self, steady: Steady) -> float:
        """Mean time to the first token."""
        prefill_s = self.times.prefill_s(self.size, steady.in_service)
        return steady.wait_s + prefill_s + self.itl_s(steady)

    def largest_rate_rps(self, targets: LatencyTargets) -> float | None:
        """The largest arrival rate that keeps every target; `None`: one is missed at any rate."""
        rate_rps = self.highest_rps * (THROUGHPUT_FRACTION if targets.output_tps > 0 else 1.0)
        for target, value in ((targets.ttft_s, self.ttft_s), (targets.itl_s, self.itl_s)):
            if target > 0:
                found = self._search(target, value, rate_rps)
                if found is None:
                    return None
                rate_rps = found
        return rate_rps

    def _search(
        self, target: float, value: Callable[[Steady], float], bound: float
    ) -> float | None:
        """The rate at which a mean meets its target, or `bound` if that is less.

        Upstream searches up to the highest rate each time and takes the smallest of what it finds:
        the same, as the means rise or fall throughout.
        """
        low, high = self.lowest_rps, bound
        at_low, at_highest = value(self.steady(low)), value(self.steady(self.highest_rps))
        if _near(at_low, target):
            return low
        if _near(at_highest, target):
            return bound
        sign = 1 if at_low < at_highest else -1
        if sign * target < sign * at_low:
            return None
        if sign * target >= sign * value(self.steady(bound)):
            return bound
        middle = low
        for _ in range(SEARCH_STEPS):
            middle = 0.5 * (low + high)
            found = value(self.steady(middle))
            if _near(found, target):
                break
            low, high = (low, middle) if sign * target < sign * found else (middle, high)
        return middle


def _near(value: float, target: float) -> bool:
    return abs(value - target) <= SEARCH_TOLERANCE * target


def inferred_targets(times: StepTimes, size: RequestSize, multiplier: float) -> LatencyTargets:
    """Targets where none are set: `guessSLOFromMetrics` of the queueing-model analyzer.

    TTFT `k alpha + (beta + gamma) I`, ITL `k alpha + beta + gamma (I + (O + 1) / 2)`: the work of a
    request at its cost, the rest of a step at k times that of an idle replica.
    (`internal/engines/analyzers/queueingmodel/analyzer.go` at abe1f68, k = 3. Upstream infers only
    where alpha, beta and gamma are all above 0, as what it learns is; gamma may be 0 here.)
    """
    idle_s = multiplier * times.alpha_s
    read_tokens = size.prompt_tokens + (size.output_tokens + 1) / 2
    return LatencyTargets(
        idle_s + (times.beta_s + times.gamma_s) * size.prompt_tokens,
        idle_s + times.beta_s + times.gamma_s * read_tokens,
    )
