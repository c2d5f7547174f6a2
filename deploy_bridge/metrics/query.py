"""One query of the catalogue and what its answer may be."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal

from ...envs.schema.fields import FIELD_INDEX, FIELDS
from ..errors import SettingsError

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

_SELECTOR = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\}')
_INVENTED = re.compile(r"\bor\s+(?:(?:on|ignoring)\s*\([^)]*\)\s*)?vector\s*\(", re.IGNORECASE)


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
            SettingsError: `or vector(...)`: a broken pipeline would look idle.
        """
        if _INVENTED.search(self.text):
            msg = (
                f"query {self.name}: 'or vector(...)' invents a value where nothing is known; "
                "tie the default to a series that must exist, as in 'or 0 * sum(rate(...))'"
            )
            raise SettingsError(msg)

    @property
    def selectors(self) -> tuple[str, ...]:
        """Selectors it reads, as they stand in the text, in order, each once."""
        return tuple(dict.fromkeys(_SELECTOR.findall(self.text)))


def field_query(name: str, text: str) -> Query:
    """A query for a field of the contract: range, weight and meaning are the field's own."""
    low, high = field_range(name)
    meaning = FIELDS[FIELD_INDEX[name]].meaning
    return Query(name, text, "field", low, high, name in CRITICAL_FIELDS, meaning)


def freshness_query(name: str, text: str, low: float, high: float, meaning: str) -> Query:
    """A check: outside [low, high], or without an answer, nothing else is believed."""
    return Query(name, text, "freshness", low, high, True, meaning)
