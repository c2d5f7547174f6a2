"""Iteration times that Dynamo's planner learns from iterations: least squares over kept samples.

Formula: `seconds = c0 + c . features`, one plane per kind of work (`dynamo_forward`), fitted to the
samples that the grid keeps (`dynamo_samples`); at least 1e-9 s.

Regimes: no estimate with fewer than 5 samples of the kind, or if a slope is negative ("more load,
less time"), which rejects the whole fit. Only the slope of the sequence count is relaxed: below
-1e-9 s it becomes 0. No work takes 0 s.

Version: ai-dynamo/aiconfigurator, mid 2026, `rust/aiconfigurator-core/src/fpm_perf.rs` (read at
1f7ae275). Before, ai-dynamo/dynamo had the plane of mixed work alone
(`components/src/dynamo/planner/core/perf_model/agg.py`, 518a7027). Later versions keep slopes at 0
or above by non-negative least squares (`aic-core/.../fpm/regression.rs`, 198ab01f).

Quirks kept: the normal equations are solved unscaled, by elimination with a smallest pivot of 1e-12
and, where that fails, a ridge of 1e-9 of their trace, so equal samples yield whatever rounding
leaves. A rejected fit does not fall back to the one before it: the planner then has no estimate
(the "load scaler stall" among the known issues of 1.3 and 1.4).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from .dynamo_forward import DIMENSIONS, Kind, Work
from .dynamo_samples import BucketedSamples, Point, SampleParams

_RELAXED: Final[dict[Kind, tuple[int, ...]]] = {"prefill": (), "decode": (0,), "mixed": ()}
"""Slopes that may be negative: they become 0."""
_RELAXED_SLOPE_S: Final = 1e-9
_SHORTEST_S: Final = 1e-9
_PIVOT: Final = 1e-12
_RIDGE: Final = 1e-9


@dataclass(slots=True)
class RegressionModel:
    """Planes through observed iterations."""

    params: SampleParams
    samples: dict[Kind, BucketedSamples] = field(init=False)
    _fits: dict[Kind, Point | None] = field(init=False, default_factory=dict)
    """Intercept and slopes of a kind, `None`: none usable; absent: to be computed."""

    def __post_init__(self) -> None:
        """Starts without samples."""
        p = self.params
        self.samples = {
            kind: BucketedSamples(p.per_axis(n), p.max_samples) for kind, n in DIMENSIONS.items()
        }

    @property
    def is_ready(self) -> bool:
        """Whether any kind has a usable plane."""
        return any(self._fit(kind) is not None for kind in self.samples)

    def seconds(self, work: Work) -> float | None:
        """See `ForwardModel`."""
        features = work.features()
        if features is None:
            return 0.0
        kind, point = features
        fit = self._fit(kind)
        if fit is None:
            return None
        slopes_s: float = sum(map(operator.mul, fit[1:], point))
        return max(fit[0] + slopes_s, _SHORTEST_S)

    def tune(self, work: Work, observed_s: float, copies: int) -> None:
        """See `ForwardModel`."""
        features = work.features()
        if features is not None and observed_s > 0:
            kind, point = features
            self.samples[kind].add(point, observed_s, copies)
            self._fits.pop(kind, None)

    def saved(self) -> dict[str, Any]:
        """See `ForwardModel`; fits follow from samples."""
        return {kind: samples.saved() for kind, samples in self.samples.items()}

    def restore(self, saved: dict[str, Any]) -> None:
        """See `ForwardModel`."""
        for kind, samples in self.samples.items():
            samples.restore(saved[kind])
        self._fits = {}

    def _fit(self, kind: Kind) -> Point | None:
        if kind not in self._fits:
            samples = self.samples[kind]
            enough = samples.total >= self.params.min_observations
            self._fits[kind] = least_squares(samples.points(), _RELAXED[kind]) if enough else None
        return self._fits[kind]


def least_squares(
    samples: Sequence[tuple[Point, float]], relaxed: tuple[int, ...] = ()
) -> Point | None:
    """Intercept and slopes of a plane through samples; `None`: not solvable, or a negative slope.

    Args:
        samples: Points and values, one or more.
        relaxed: Slopes that become 0 instead.
    """
    points, values = zip(*samples, strict=True)
    columns = np.array([(1.0,) * len(points), *zip(*points, strict=True), values])
    # a plain sum: its rounding does not depend on where the arrays lie, as BLAS's may
    rows = (columns[:-1, None] * columns).sum(axis=-1).tolist()
    solution = _solved(rows)
    if solution is None:
        ridge = _RIDGE * max(1.0, sum(abs(row[i]) for i, row in enumerate(rows)))
        for i, row in enumerate(rows[1:], start=1):
            row[i] += ridge
        solution = _solved(rows)
    if solution is None:
        return None
    for i in relaxed:
        if solution[i + 1] < -_RELAXED_SLOPE_S:
            solution[i + 1] = 0.0
    negative = any(slope < 0 for i, slope in enumerate(solution[1:]) if i not in relaxed)
    return None if negative else tuple(solution)


def _solved(rows: list[list[float]]) -> list[float] | None:
    """Gauss-Jordan with the largest pivot; `rows` carry the right side as last entry."""
    rows = [list(row) for row in rows]
    for i in range(len(rows)):
        # the last of equally large pivots, as Rust's max_by
        pivot = max(range(i, len(rows)), key=lambda r: (abs(rows[r][i]), r))
        if abs(rows[pivot][i]) < _PIVOT:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        divisor = rows[i][i]
        rows[i] = [x / divisor for x in rows[i]]
        for r, row in enumerate(rows):
            if r != i and row[i] != 0:
                factor = row[i]
                rows[r] = [x - factor * y for x, y in zip(row, rows[i], strict=True)]
    return [row[-1] for row in rows]
