"""One finite sample or none: how an answer of Prometheus is read."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from .query import ROUNDING, Query
from .source import ProblemKind

_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE: Final = ("NaN", "Inf", "+Inf", "-Inf")
_SAME_INSTANT_S: Final = 0.002
"""Prometheus counts milliseconds."""
_LAST_INSTANT_S: Final = 1e11
"""Beyond the year 5000: no time."""
_SHOWN_SERIES: Final = 2


_OTHER_TYPES: Final = {
    "matrix": "brings a range of samples; give it to a function such as rate(), or leave [...] out",
    "scalar": "brings a bare number; leave scalar(...) out, it hides how many series there are",
    "string": "brings a text; expected a metric's name without quotes",
}
"""What an answer may hold instead of an instant vector, and what to do."""


class MalformedError(ValueError):
    """A result that Prometheus' query API does not give."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one answer is worth."""

    value: float | None = None
    """The one finite sample, within the query's range."""
    raw: float | None = None
    """The one finite sample, also outside the range: evidence, never used."""
    at_s: float | None = None
    """Instant of evaluation that the answer names."""
    problem: ProblemKind | None = None
    """Why it has no value; `None` with no value either: nothing is known, and that is no fault."""
    detail: str = ""
    """One line on the problem."""


def wrong_type(result_type: object) -> str:
    """Why a query can never bring one sample, by the `resultType` of its answer, or nothing."""
    return _OTHER_TYPES.get(result_type, "") if isinstance(result_type, str) else ""


def judge(query: Query, result: object, asked_at_s: float | None) -> Verdict:
    """Reads the result of one query.

    Args:
        query: What was asked.
        result: `data.result` of the answer, whatever it is.
        asked_at_s: The instant that was asked for, if one was.

    Raises:
        MalformedError: It is no instant vector.
    """
    pairs = _pairs(result)
    if not pairs:
        return _missing(query)
    if len(pairs) > 1:
        shown = " and ".join(labels for labels, _, _ in pairs[:_SHOWN_SERIES])
        detail = f"{len(pairs)} series where one is expected: {shown}"
        return Verdict(problem="ambiguous", detail=detail)
    _, at_s, value = pairs[0]
    if asked_at_s is not None and abs(at_s - asked_at_s) > _SAME_INSTANT_S:
        detail = f"the answer is for {at_s:.3f}, asked was {asked_at_s:.3f}"
        return Verdict(at_s=at_s, problem="stale", detail=detail)
    if not math.isfinite(value):
        return _not_finite(query, at_s, value)
    if not query.low - ROUNDING <= value <= query.high + ROUNDING:
        kind: ProblemKind = "stale" if query.kind == "freshness" else "out_of_range"
        wanted = f"{query.low:g}" if query.low == query.high else f"{query.low:g} to {query.high:g}"
        detail = f"{value:g}, expected {wanted} ({query.meaning})"
        return Verdict(raw=value, at_s=at_s, problem=kind, detail=detail)
    kept = min(max(value, query.low), query.high)
    return Verdict(value=kept, raw=value, at_s=at_s)


def _missing(query: Query) -> Verdict:
    if not query.is_critical:
        return Verdict()
    detail = f"no sample ({query.meaning})"
    if query.kind == "freshness":
        detail += "; is this the Prometheus of this gateway?"
    return Verdict(problem="missing", detail=detail)


def _not_finite(query: Query, at_s: float, value: float) -> Verdict:
    if not query.is_critical:
        return Verdict(at_s=at_s)
    return Verdict(at_s=at_s, problem="not_finite", detail=f"{value} ({query.meaning})")


def _pairs(result: object) -> list[tuple[str, float, float]]:
    """Labels, instant and value of each series."""
    if not isinstance(result, list):
        msg = f"a result of type {type(result).__name__}, expected a list"
        raise MalformedError(msg)
    pairs = []
    for entry in result:
        if not isinstance(entry, dict) or not isinstance(entry.get("metric"), dict):
            msg = "a result whose entries are no series of an instant vector"
            raise MalformedError(msg)
        labels = ",".join(f"{k}={v}" for k, v in sorted(entry["metric"].items()))
        pairs.append((f"{{{labels}}}", *_sample(entry.get("value"))))
    return pairs


def _sample(pair: object) -> tuple[float, float]:
    match pair:
        case [int() | float() as at_s, str() as text] if 0 <= at_s < _LAST_INSTANT_S:
            if text in _NOT_FINITE:
                return float(at_s), float(text)
            if _NUMBER.fullmatch(text):
                return float(at_s), float(text)
    msg = "a sample that is no pair of a time and a number as text"
    raise MalformedError(msg)
