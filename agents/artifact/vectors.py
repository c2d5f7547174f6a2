"""Observations to try a policy on: near real ones, at edges, anywhere, and impossible ones."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...envs.schema.observation import ObservationSpec

_JITTER: Final = 0.02
"""How far "near" is, as a standard deviation; entries span 1 or 2."""


def near_real(
    rng: np.random.Generator, real: NDArray[np.float32], spec: ObservationSpec, count: int
) -> NDArray[np.float32]:
    """Real observations, each entry moved a little, within bounds; `(count, D)`."""
    drawn = real[rng.integers(0, len(real), count)]
    moved = drawn + rng.normal(0.0, _JITTER, drawn.shape).astype(np.float32)
    return np.clip(moved, spec.low, spec.high)


def anywhere(rng: np.random.Generator, spec: ObservationSpec, count: int) -> NDArray[np.float32]:
    """Observations drawn evenly from all that can be; `(count, D)`."""
    return rng.uniform(spec.low, spec.high, (count, len(spec.entries))).astype(np.float32)


def edges(
    rng: np.random.Generator, real: NDArray[np.float32], spec: ObservationSpec, corners: int
) -> NDArray[np.float32]:
    """Typical observations with one entry at an edge, and corners.

    An entry's edges are its bounds, the ends of what was seen, and the float32 next to those ends
    on the outside.

    Args:
        rng: Draws the corners.
        real: Shape `(n, D)`.
        spec: What is observed.
        corners: Observations with every entry at a bound.
    """
    low, high = real.min(axis=0), real.max(axis=0)
    ends = np.stack(
        [
            spec.low,
            spec.high,
            low,
            high,
            np.maximum(np.nextafter(low, np.float32(-np.inf)), spec.low),
            np.minimum(np.nextafter(high, np.float32(np.inf)), spec.high),
        ]
    )
    typical = np.median(real, axis=0)
    at_edge = np.tile(typical, (ends.size, 1))
    columns = np.tile(np.arange(len(typical)), len(ends))
    at_edge[np.arange(ends.size), columns] = ends.ravel()
    sides = rng.integers(0, 2, (corners, len(typical))).astype(np.bool_)
    found = [at_edge, np.where(sides, spec.high, spec.low), spec.low[None], spec.high[None]]
    return np.concatenate(found).astype(np.float32)


def impossible(real: NDArray[np.float32]) -> NDArray[np.float32]:
    """A typical observation with NaN or an infinity in one entry, for each entry, and in all."""
    typical = np.median(real, axis=0).astype(np.float32)
    bad = np.array([np.nan, np.inf, -np.inf], np.float32)
    spoiled = np.tile(typical, (len(bad) * len(typical), 1))
    columns = np.repeat(np.arange(len(typical)), len(bad))
    spoiled[np.arange(len(spoiled)), columns] = np.tile(bad, len(typical))
    return np.concatenate([spoiled, np.tile(bad[:, None], (1, len(typical)))])
