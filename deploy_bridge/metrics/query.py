"""One query of the catalogue and what its answer may be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from ...envs.schema.fields import FIELD_INDEX, FIELDS
from ..errors import SettingsError
from .promql_reading import reads

QueryKind = Literal["field", "freshness"]
"""A field of the snapshot, or a check that is asked before any field is believed."""

CRITICAL_FIELDS: Final = (
    "replicas_requested",
    "replicas_ready",
    "breaker_threshold",
    "request_rate_rps",
)
"""Without one of these a tick is blind; every other field may be missing, and its flag says so."""

ROUNDING: Final = 1e-9
"""How far a share may stand outside [0, 1] and still be put back: the rounding of a division."""

_INVENTING: Final = ("vector", "absent", "absent_over_time")
"""Functions that bring a sample where there is no series."""
_CALENDAR: Final = (
    "minute",
    "hour",
    "day_of_week",
    "day_of_month",
    "day_of_year",
    "days_in_month",
    "month",
    "year",
)
"""Functions that take the time of day for a series if they are given none."""


def field_range(name: str) -> tuple[float, float]:
    """Smallest and largest value a source may report: shares end at 1, other fields are open."""
    field = FIELDS[FIELD_INDEX[name]]
    return field.low, (1.0 if field.unit == "0-1" else math.inf)


@dataclass(frozen=True, slots=True)
class Query:
    """A text that brings exactly one finite sample, or none."""

    name: str
    """Field of the contract, or name of the check."""
    text: str
    """PromQL."""
    kind: QueryKind
    low: float
    """Smallest value that is believed (`field`) or good (`freshness`)."""
    high: float
    """Largest such value."""
    is_critical: bool
    """Whether a tick is blind without it."""
    meaning: str
    """One line for the operator."""

    def __post_init__(self) -> None:
        """Refuses a text that would turn "nothing is known" into a number.

        Raises:
            SettingsError: A broken pipeline would look idle: it names field and function.
        """
        invented = _invented(self.text)
        if invented:
            msg = (
                f"catalogue: overrides: {self.name}: {invented} invents a value where nothing is "
                "known; tie a default to a series that must exist, as in 'or 0 * sum(rate(...))'"
            )
            raise SettingsError(msg)

    @property
    def selectors(self) -> tuple[str, ...]:
        """Selectors it reads, as they stand in the text, in order, each once."""
        return reads(self.text).selectors


def _invented(text: str) -> str:
    """What in a text brings a sample without any series; empty: nothing does."""
    found = reads(text)
    for call in found.calls:
        if call.name in _INVENTING:
            return f"{call.name}(...)"
        if call.name in _CALENDAR and not call.has_arguments:
            return f"{call.name}()"
    return "" if found.selectors else "a text that names no metric"


def field_query(name: str, text: str) -> Query:
    """A query for a field of the contract: range, weight and meaning are the field's own."""
    low, high = field_range(name)
    meaning = FIELDS[FIELD_INDEX[name]].meaning
    return Query(name, text, "field", low, high, name in CRITICAL_FIELDS, meaning)


def freshness_query(name: str, text: str, low: float, high: float, meaning: str) -> Query:
    """A check: outside [low, high], or without an answer, nothing else is believed."""
    return Query(name, text, "freshness", low, high, True, meaning)
