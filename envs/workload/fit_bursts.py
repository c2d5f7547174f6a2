"""Fitting bursts: how a rate switches between busy and quiet, from how arrivals bunch.

What a pair of busy and quiet time adds to the local dispersion is known in closed form; it picks
places to start. From each, a pattern search over busy time, quiet time, spread of the levels and
cv of the gaps goes downhill on what samples show: local dispersion in windows from 1 to 60 s, and
the share of windows with any arrival, which tells silence from a low rate.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .arrivals import MAX_CV, MIN_CV, window_counts
from .bootstrap import LEAST_DISPERSION, Burstiness
from .bursts import Bursts
from .group import Facts, Group
from .lengths import LengthLaw, QuantileTable
from .model import WorkloadModel

_WINDOWS_S: Final = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)
CLOSE: Final = 0.1
"""Local dispersions nearer than this are left as they are."""
_JUDGED: Final = 4.0
"""Weight of the windows in which models are judged; the others are there for the shape."""
_FILLED: Final = 0.25
"""Weight of the shares of windows with an arrival."""
_STEPS: Final = ((0.4, 1), (0.2, 1), (0.1, 4), (0.05, 8))
"""Steps of the pattern search, in logarithms, and how many times the samples are judged there."""
_TRIAL_S: Final = 100_000.0
"""About so many seconds are drawn to judge a candidate, ..."""
_MOST_TRIALS: Final = 6
"""... in at most so many samples."""
_LIMITS: Final = ((MIN_CV, MAX_CV), (0.5, 7200.0), (0.5, 14400.0), (0.02, 5.0))
"""Of cv of the gaps, busy time, quiet time, spread of the levels."""


@dataclass(frozen=True)
class BurstFit:
    """What was found."""

    bursts: Bursts | None
    """How the rate switches; None: gaps of one cv bunch like the data as well."""
    gap_cv: float
    """Coefficient of variation of the gaps, within a busy time if there are bursts."""
    seen: NDArray[np.float64]
    """Local dispersion of its samples in the windows that are judged."""


def fit_bursts(
    arrival_s: NDArray[np.float64],
    span_s: float,
    rate_rps: NDArray[np.float64],
    judged: Burstiness,
    seed: int,
) -> BurstFit:
    """Finds bursts whose samples bunch like the data, or gaps of one cv if those do.

    Args:
        arrival_s: Arrivals within [0, span_s].
        span_s: Length of the range.
        rate_rps: Mean rate in equal bins of the range.
        judged: How the arrivals bunch, in the windows that count.
        seed: Of the samples; they are the same for every candidate.

    Returns:
        The best that was found, numbers rounded to three digits.
    """
    search = _Search(arrival_s, span_s, rate_rps, judged.windows_s, seed)
    plain = search.result(search.downhill((1.0,), _STEPS[:2]))
    if (np.abs(plain.seen - judged.values) <= CLOSE * judged.values).all():
        return plain
    coarse = [search.downhill(start, _STEPS[:2]) for start in search.starts()]
    return search.result(search.downhill(min(coarse, key=search.error), _STEPS[2:]))


_Point = tuple[float, ...]
"""Cv of the gaps; with bursts also busy time, quiet time (0: none), spread of the levels."""


class _Search:
    """One set of arrivals and what is known of its candidates."""

    def __init__(
        self,
        arrival_s: NDArray[np.float64],
        span_s: float,
        rate_rps: NDArray[np.float64],
        judged_s: tuple[float, ...],
        seed: int,
    ) -> None:
        self._judged_s = judged_s
        self._span_s = span_s
        self._rate_rps = rate_rps
        self._seed = seed
        self._windows = [w for w in _WINDOWS_S if min(judged_s) <= w <= max(judged_s)]
        self._weights = np.array([_JUDGED if w in judged_s else 1.0 for w in self._windows])
        self._trials = int(np.clip(_TRIAL_S // span_s, 1, _MOST_TRIALS))
        self._wanted = self._seen(arrival_s)

    def starts(self) -> list[_Point]:
        """Where the closed form comes nearest."""
        wanted = np.log(self._wanted[0])
        # What bursts add grows with the rate: the mean over requests, not over time.
        rate = float(np.average(self._rate_rps, weights=self._rate_rps))
        grid = itertools.product(
            np.geomspace(1.0, 600.0, 10),
            (0.0, *np.geomspace(2.0, 2000.0, 10)),
            (0.02, 0.1, 0.2, 0.5, 1.0, 2.0),
        )
        rated: list[tuple[float, _Point]] = []
        for busy_s, quiet_s, level_cv in grid:
            bursts = Bursts(float(busy_s), float(quiet_s), level_cv)
            added = np.array([bursts.local_dispersion(rate, w) for w in self._windows])
            for cv in (0.7, 1.0, 1.5):
                inside = 1 + (cv**2 - 1) / (1 + 1 / (rate * np.array(self._windows)))
                error = float(np.sum((np.log(inside + added) - wanted) ** 2))
                rated.append((error, (cv, bursts.busy_s, bursts.quiet_s, level_cv)))
        rated.sort()
        chosen: list[_Point] = []
        for quiet in (True, False):
            near = [point for _, point in rated if (point[2] > 0) == quiet]
            chosen.append(near[0])
            # another that differs in how long it is busy
            chosen.append(next(p for p in near if abs(math.log(p[1] / near[0][1])) > 1))
        return chosen

    def downhill(self, point: _Point, steps: Sequence[tuple[float, int]]) -> _Point:
        """Pattern search from a point; returns the lowest one."""
        for step, times in steps:
            lowest = self.error(point, times)
            moved = True
            while moved:
                moved = False
                for place, sign in itertools.product(range(len(point)), (1, -1)):
                    value = point[place] * math.exp(sign * step)
                    low, high = _LIMITS[place]
                    if not low <= value <= high:  # no quiet time stays none
                        continue
                    candidate = (*point[:place], value, *point[place + 1 :])
                    error = self.error(candidate, times)
                    if error < lowest:
                        point, lowest, moved = candidate, error, True
        return point

    def error(self, point: _Point, times: int = 1) -> float:
        """How far the samples are from the data, in squared logarithms."""
        dispersion, filled = self._means(point, range(times * self._trials))
        ratios = np.log(dispersion / self._wanted[0])
        there = np.log(np.maximum(filled, _TINY) / np.maximum(self._wanted[1], _TINY))
        return float(np.sum(self._weights * (ratios**2 + _FILLED * there**2)))

    def result(self, point: _Point) -> BurstFit:
        """A point, rounded, with what new samples of it show."""
        point = tuple(float(f"{value:.3g}") for value in point)
        most = _STEPS[-1][1] * self._trials
        dispersion, _ = self._means(point, range(most, 2 * most))
        seen = dispersion[[self._windows.index(w) for w in self._judged_s]]
        return BurstFit(Bursts(*point[1:]) if len(point) > 1 else None, point[0], seen)

    def _means(
        self, point: _Point, trials: range
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean local dispersions and shares of filled windows over samples of a candidate."""
        group = Group(
            "0",
            self._rate_rps,
            "gamma",
            np.full_like(self._rate_rps, point[0]),
            _ANY_LENGTHS,
            Bursts(*point[1:]) if len(point) > 1 else None,
        )
        model = WorkloadModel(_NO_FACTS, self._span_s, (group,))
        seen = []
        for trial in trials:
            rng = np.random.default_rng((self._seed, trial))
            seen.append(self._seen(model.arrivals(rng, 0.0, self._span_s)[0]))
        dispersion, filled = (np.mean(part, axis=0) for part in zip(*seen, strict=True))
        return dispersion, filled

    def _seen(
        self, arrival_s: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Local dispersion and share of windows with an arrival, by window."""
        dispersion, filled = [], []
        for window_s in self._windows:
            counts = window_counts(arrival_s, self._span_s, window_s)
            filled.append(float((counts > 0).mean()))
            squares = float((np.diff(counts) ** 2).mean())
            measured = max(squares / (2 * counts.mean()), LEAST_DISPERSION) if counts.any() else 1.0
            dispersion.append(measured)
        return np.array(dispersion), np.array(filled)


_TINY: Final = 1e-6
_NO_FACTS: Final = Facts("", "", "", "", "", "")
_ONE: Final = QuantileTable(np.array([0.0, 1.0]), np.ones(2))
_ANY_LENGTHS: Final = LengthLaw(_ONE, _ONE, 0.0)
