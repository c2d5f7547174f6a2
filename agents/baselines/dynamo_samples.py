"""Which observed iterations Dynamo's performance model keeps: a grid that forgets where it is full.

Each axis is cut into equally wide cells. When more than `max_samples` are held, the oldest entry of
the fullest cell goes, so a long steady load does not push out what was seen at other loads.

Regimes: a grid with fixed bounds ignores what lies outside them; one without takes its bounds from
all it has ever seen and sorts everything anew when they grow.

Version: ai-dynamo/aiconfigurator, mid 2026, `rust/aiconfigurator-core/src/fpm_perf.rs`
(`BucketedSamples`; read at 1f7ae275) and, before it moved there, ai-dynamo/dynamo,
`components/src/dynamo/planner/core/perf_model/base.py` (439d6458).

Quirks kept: bounds never shrink, even if the sample that set them is gone; after sorting anew, the
first of a cell need not be the oldest. Of equally full cells the one filled first loses a sample,
as in the Python code; the Rust code leaves that to its hash map.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

Point = tuple[float, ...]
"""Features of an iteration, one a dimension."""


@dataclass(frozen=True, slots=True)
class SampleParams:
    """How much is kept, and from when on it is used."""

    max_samples: int = 64
    """Samples held per kind of work (`max_num_fpm_samples`)."""
    min_observations: int = 5
    """Samples of a kind before it is used (`load_min_observations`)."""
    bucket_count: int = 16
    """Cells of the grid, a square number: 4 x 4 (`fpm_sample_bucket_size`)."""

    def __post_init__(self) -> None:
        """Refuses what upstream refuses.

        Raises:
            ValueError: A count below 1, more asked for than is kept, or a grid that is no square.
        """
        if not 1 <= self.min_observations <= self.max_samples:
            msg = (
                f"min_observations is {self.min_observations} and max_samples {self.max_samples}, "
                "expected 1 <= min_observations <= max_samples"
            )
            raise ValueError(msg)
        if self.bucket_count < 1 or math.isqrt(self.bucket_count) ** 2 != self.bucket_count:
            msg = f"bucket_count is {self.bucket_count}, expected a square number, 1 or more"
            raise ValueError(msg)

    def per_axis(self, dimensions: int) -> int:
        """Cells along one axis."""
        return self.bucket_count if dimensions == 1 else math.isqrt(self.bucket_count)


@dataclass(slots=True)
class BucketedSamples:
    """The grid: points with one value each."""

    per_axis: int
    """Cells along an axis."""
    max_samples: int
    """Samples held at most."""
    bounds: list[tuple[float, float]] = field(default_factory=list)
    """Lowest and highest value of each axis; empty: nothing seen yet."""
    is_fixed: bool = False
    """Whether the bounds stay as they are."""
    buckets: dict[tuple[int, ...], list[tuple[Point, float]]] = field(default_factory=dict)
    """Samples by cell, in the order of arrival."""
    total: int = 0
    """Samples held."""

    def add(self, point: Point, value: float, copies: int = 1) -> None:
        """Takes so many equal samples in; nothing, if they lie outside fixed bounds."""
        if not all(low <= x <= high for x, (low, high) in zip(point, self.bounds, strict=False)):
            if self.is_fixed:
                return
            self._widen(point)
        elif not self.bounds:
            self.bounds = [(x, x) for x in point]
        key = self._key(point)
        for _ in range(copies):
            self.buckets.setdefault(key, []).append((point, value))
            self.total += 1
            if self.total > self.max_samples:
                self._forget_one()

    def at(self, point: Point) -> list[tuple[Point, float]]:
        """The samples in a point's cell; none outside the bounds."""
        if not all(low <= x <= high for x, (low, high) in zip(point, self.bounds, strict=True)):
            return []
        return self.buckets.get(self._key(point), [])

    def points(self) -> list[tuple[Point, float]]:
        """All samples, cell by cell."""
        return [sample for bucket in self.buckets.values() for sample in bucket]

    def saved(self) -> dict[str, Any]:
        """What it holds, as JSON content."""
        return {
            "bounds": [list(axis) for axis in self.bounds],
            "buckets": [
                [list(key), [[*point, value] for point, value in bucket]]
                for key, bucket in self.buckets.items()
            ],
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one held."""
        self.bounds = [(low, high) for low, high in saved["bounds"]]
        self.buckets = {
            tuple(key): [(tuple(sample[:-1]), sample[-1]) for sample in bucket]
            for key, bucket in saved["buckets"]
        }
        self.total = sum(len(bucket) for bucket in self.buckets.values())

    def _key(self, point: Point) -> tuple[int, ...]:
        cells = self.per_axis
        return tuple(
            [
                min(int((x - low) / (high - low) * cells), cells - 1) if high > low else 0
                for x, (low, high) in zip(point, self.bounds, strict=True)
            ]
        )

    def _widen(self, point: Point) -> None:
        """Makes room for a point, and sorts all samples anew."""
        self.bounds = [
            (min(low, x), max(high, x)) for x, (low, high) in zip(point, self.bounds, strict=True)
        ]
        samples, self.buckets = self.points(), {}
        for held, value in samples:
            self.buckets.setdefault(self._key(held), []).append((held, value))

    def _forget_one(self) -> None:
        fullest = max(self.buckets.values(), key=len)
        fullest.pop(0)
        self.total -= 1
        if not fullest:
            self.buckets = {key: bucket for key, bucket in self.buckets.items() if bucket}
