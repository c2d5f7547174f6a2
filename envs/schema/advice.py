"""What an advisor tells a policy of each gateway: name, range and scale of every number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Advice: TypeAlias = NDArray[np.float64]
"""Advice as an array `(n, A)`, one column an entry in the order of `ADVICE_ENTRIES`; NaN: not
known."""


@dataclass(frozen=True, slots=True)
class AdviceEntry:
    """One number of the advice."""

    name: str
    """Name in observations."""
    unit: str
    """Unit of the raw value."""
    high: float
    """Size that scales to 1; larger ones are clipped."""
    scale: Literal["linear", "log"]
    """How a raw value becomes an observation entry."""
    pivot: float
    """For `log`: the size up to which the scale is nearly linear. 1 for `linear`."""
    is_signed: bool
    """Whether it can be below 0: it then scales to [-1, 1], else to [0, 1]."""
    nullable: bool
    """Whether it can be unknown; an observation then has a known flag for it."""
    meaning: str
    """One line for the docs."""

    def __post_init__(self) -> None:
        """Refuses a scale that would divide by zero."""
        if not (self.high > 0 and self.pivot > 0):
            raise ValueError(f"advice {self.name}: high {self.high}, pivot {self.pivot}")


def _work(name: str, meaning: str) -> AdviceEntry:
    # Pivot: a tenth of a replica is 0.04, one 0.23, eight 0.58 and thirty-two 0.86.
    return AdviceEntry(name, "busy replicas", 64.0, "log", 0.5, False, True, meaning)


def _replicas(name: str, meaning: str, *, nullable: bool) -> AdviceEntry:
    # The scale of `replicas_requested`, so that the two can be compared.
    return AdviceEntry(name, "count", 32.0, "linear", 1.0, False, nullable, meaning)


ADVICE_ENTRIES: Final[tuple[AdviceEntry, ...]] = (
    _work("prefill_work", "prompts that arrive, as replicas kept busy by them"),
    _work("decode_work", "outputs that will follow from them, as replicas kept busy"),
    _work("work_peak", "highest sum of both in the last 30 ticks"),
    _work("work_mean", "mean of their sum over about the last 30 minutes"),
    _replicas("replicas_wanted", "replicas that the advisor would ask for", nullable=False),
    _replicas("replicas_needed", "those it needs at once, without what it holds", nullable=True),
    AdviceEntry(
        "replicas_gap",
        "count",
        32.0,
        "log",
        1.0,
        True,
        False,
        "replicas wanted less those asked for",
    ),
    AdviceEntry(
        "threshold_gap",
        "0-1",
        1.0,
        "linear",
        1.0,
        True,
        False,
        "breaker threshold that the advisor would set less the one in force",
    ),
)
"""The entries in their fixed order. A change of them changes the fingerprint of `advised`."""

ADVICE_INDEX: Final[dict[str, int]] = {entry.name: i for i, entry in enumerate(ADVICE_ENTRIES)}
"""Column of each entry."""

_HIGHS = np.array([entry.high for entry in ADVICE_ENTRIES])
_PIVOTS = np.array([entry.pivot for entry in ADVICE_ENTRIES])
_IS_LOG = np.array([entry.scale == "log" for entry in ADVICE_ENTRIES])
_LOWS = np.array([-entry.high if entry.is_signed else 0.0 for entry in ADVICE_ENTRIES])
_LOG_SPANS = np.log1p(_HIGHS / _PIVOTS)


def scale_advice(advice: Advice) -> Advice:
    """Scales raw values `(n, A)` to [-1, 1] or [0, 1]; NaN stays NaN."""
    clipped = np.clip(advice, _LOWS, _HIGHS)
    size = np.abs(clipped)
    scaled: Advice = np.sign(clipped) * np.where(
        _IS_LOG, np.log1p(size / _PIVOTS) / _LOG_SPANS, size / _HIGHS
    )
    return scaled
