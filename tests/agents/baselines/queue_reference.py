"""A second implementation of the queueing model: every state written out, in fifty digits."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext

DIGITS = 50


@dataclass(frozen=True)
class QueueReference:
    """Step times alpha, beta, gamma; prompt I and answer O; batch B and queue Q."""

    alpha: float
    beta: float
    gamma: float
    prompt: float
    answer: float
    batch: int
    queue: int

    def prefill(self, n: Decimal) -> Decimal:
        """The step that takes in a prompt."""
        _, b, g, i, _ = self._numbers()
        return self._step(n) + b * i + g * i if i else Decimal(0)

    def decode(self, n: Decimal) -> Decimal:
        """The step that adds a token."""
        _, b, g, i, o = self._numbers()
        return self._step(n) + b + g * i + g * o / 2

    def rate(self, n: int) -> Decimal:
        """Service rate of n requests in the system."""
        in_batch = Decimal(min(n, self.batch))
        o = Decimal(self.answer)
        return in_batch / (self.prefill(in_batch) + o * self.decode(in_batch))

    def means(self, arrivals: float) -> tuple[float, float, float, float]:
        """Throughput, requests in service, wait, service."""
        with localcontext() as context:
            context.prec = DIGITS
            r, weights = Decimal(arrivals), [Decimal(1)]
            for n in range(1, self.batch + self.queue + 1):
                weights.append(weights[-1] * r / self.rate(n))
            total = sum(weights)
            share = [weight / total for weight in weights]
            x = r * (1 - share[-1])
            served = sum(min(n, self.batch) * p for n, p in enumerate(share))
            there = sum(n * p for n, p in enumerate(share))
            return float(x), float(served), float((there - served) / x), float(served / x)

    def latencies(self, arrivals: float) -> tuple[float, float]:
        """Mean TTFT and mean ITL."""
        _, served, wait, service = self.means(arrivals)
        prefill = float(self.prefill(Decimal(served)))
        itl = (service - prefill) / self.answer
        return wait + prefill + itl, itl

    def largest_throughput(self, targets: tuple[float, float]) -> float | None:
        """Most that can be served within both targets, where the means rise with the rate."""
        low, high = 0.001 * float(self.rate(1)), 0.999 * float(self.rate(self.batch))
        if any(mean > target for mean, target in zip(self.latencies(low), targets, strict=True)):
            return None
        kept = low
        for tried in (high, *[0.0] * 40):
            rate = tried or (kept + high) / 2
            means = self.latencies(rate)
            if all(mean <= target for mean, target in zip(means, targets, strict=True)):
                kept = rate
            else:
                high = rate
        return self.means(kept)[0]

    def _step(self, n: Decimal) -> Decimal:
        a, b, g, i, o = self._numbers()
        return a + n * b * (i + o) / (o + 1) + n * g * (i + o / 2)

    def _numbers(self) -> tuple[Decimal, ...]:
        numbers = (self.alpha, self.beta, self.gamma, self.prompt, self.answer)
        return tuple(Decimal(number) for number in numbers)
