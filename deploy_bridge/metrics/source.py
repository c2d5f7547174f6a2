"""What a tick may know, and how sure it is: the protocol between sources and the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

ProblemKind = Literal[
    "unreachable",  # no answer, or one that is no answer
    "refused",  # the query itself is wrong: asked again, it would be refused again
    "deadline",  # the tick's time for reading was over
    "stale",  # the newest sample is too old, or the target is down
    "missing",  # a critical quantity has no sample
    "ambiguous",  # several series where one is expected
    "not_finite",  # NaN or an infinity in a critical quantity
    "warning",  # the source itself doubts its answer
    "out_of_range",  # a value that no source may report
]
"""Why a reading is not to be trusted."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason not to trust a reading: the tick holds."""

    kind: ProblemKind
    what: str
    """Name of the query or field."""
    detail: str
    """One line for the operator."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One query and what it brought: the evidence that the ledger keeps."""

    name: str
    """Name in the catalogue: a field of the snapshot, or a check such as `freshness`."""
    query: str
    """Text as it was asked."""
    value: float | None
    """The one finite sample, or `None`."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source says at one moment."""

    values: Mapping[str, float]
    """Field of the contract to value, in the contract's units; what is not known is absent."""
    problems: tuple[Problem, ...] = ()
    """Reasons not to trust it; with any of them nothing is decided."""
    samples: tuple[Sample, ...] = field(default=())
    """Evidence."""


class SnapshotSource(Protocol):
    """Where readings come from: a live gateway, a simulated one, or the ledger."""

    def read(self, now_s: float) -> Reading:
        """Reads everything once. It never raises for what the outside world does.

        Args:
            now_s: The tick's time, seconds since the epoch.
        """
        ...
