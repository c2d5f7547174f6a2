"""Bursts: a rate that switches, at random, between quiet and busy times of random height.

Within a busy time the group's rate is multiplied by a level, in a quiet time it is zero. Busy and
quiet times are exponential, so the process has no memory and can start anywhere; each busy time
draws its level from a gamma law. The mean of the multiplier over time is 1: a group with bursts
sends as many requests as one without. Without quiet times the rate wanders; with them it is on
and off (a Markov-modulated process, cf. Fischer and Meier-Hellstern, "The Markov-modulated
Poisson process cookbook", Performance Evaluation 18, 1993).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

_ALIKE: Final = 1e-3
"""Levels that differ by less are taken to be equal."""


@dataclass(frozen=True)
class Bursts:
    """How a group's rate switches."""

    busy_s: float
    """Mean length of a busy time."""
    quiet_s: float
    """Mean length of a quiet time; 0: none."""
    level_cv: float
    """Coefficient of variation of the busy times' levels; 0: all alike."""

    def __post_init__(self) -> None:
        """Checks the numbers."""
        for name, low in (("busy_s", math.ulp(0.0)), ("quiet_s", 0.0), ("level_cv", 0.0)):
            value = getattr(self, name)
            if not low <= value < math.inf:
                least = "above 0" if low else "at least 0"
                raise ValueError(f"bursts.{name}: {value} is not a finite number {least}")

    @property
    def busy_share(self) -> float:
        """Share of time that is busy."""
        return self.busy_s / (self.busy_s + self.quiet_s)

    def draw(
        self, rng: np.random.Generator, span_s: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Draws the course of the multiplier over a range.

        Args:
            rng: Source of randomness.
            span_s: Length of the range.

        Returns:
            Edges from 0 to `span_s`, and the multiplier between each two; their number differs
            by one.
        """
        cycle_s = self.busy_s + self.quiet_s
        starts_busy = bool(rng.random() < self.busy_share)
        times: list[NDArray[np.float64]] = []
        reached_s = 0.0
        while reached_s < span_s:
            cycles = int((span_s - reached_s) / cycle_s * 1.2) + 8
            both = np.empty((cycles, 2))
            both[:, 0 if starts_busy else 1] = rng.exponential(self.busy_s, cycles)
            both[:, 1 if starts_busy else 0] = rng.exponential(self.quiet_s, cycles)
            times.append(both.ravel())
            reached_s += float(both.sum())
        edges = np.concatenate([[0.0], np.cumsum(np.concatenate(times))])
        number = int(np.searchsorted(edges, span_s))
        edges = np.append(edges[:number], span_s)
        level = np.zeros(number)
        busy = level[0 if starts_busy else 1 :: 2]
        busy[:] = 1 / self.busy_share
        if self.level_cv > _ALIKE:
            shape = 1 / self.level_cv**2
            busy *= rng.gamma(shape, 1 / shape, busy.size)
        return edges, level

    def local_dispersion(self, rate_rps: float, window_s: float) -> float:
        """What the switching adds to the local dispersion of counts, in expectation.

        The multiplier's autocovariance is the sum of two exponentials in the lag: one for the
        level of a busy time, one for busy against quiet. The variance of its integral over a
        window, less the covariance of neighbouring windows, times the rate is what it adds.

        Args:
            rate_rps: Mean rate.
            window_s: Length of the windows.
        """
        parts = [(self.level_cv**2 / self.busy_share, self.busy_s)]
        if self.quiet_s > 0:
            memory_s = 1 / (1 / self.busy_s + 1 / self.quiet_s)
            parts.append(((1 - self.busy_share) / self.busy_share, memory_s))
        added = 0.0
        for variance, memory_s in parts:
            x = window_s / memory_s
            fades = -math.expm1(-x)
            added += variance * memory_s * (2 * (1 - fades / x) - fades**2 / x)
        return rate_rps * added
