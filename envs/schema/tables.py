"""The contract as Markdown tables, for the docs and the environment's docstring."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .action import DISCRETE_ACTIONS, decode, from_discrete
from .advice import ADVICE_ENTRIES, ADVICE_INDEX, AdviceEntry
from .fields import FIELD_INDEX, FIELDS, Field
from .observation import CHANGE_HORIZON_TICKS, TREND_TICKS, ObservationSpec
from .settings import THRESHOLD_STEP

_KNOWN_SUFFIX = "_known"
_CHANGE_SUFFIX = "_change"


def fields_table() -> str:
    """Every field of a snapshot, in order."""
    return _markdown(
        ("field", "unit", "range", "scale", "can be missing", "meaning", "live source"),
        (
            (
                f"`{field.name}`",
                field.unit,
                f"{field.low:g} to {field.high:g}",
                _scale(field),
                "yes" if field.nullable else "no",
                field.meaning,
                field.live_source,
            )
            for field in FIELDS
        ),
    )


def advice_table() -> str:
    """Every entry of the advice, in order."""
    return _markdown(
        ("entry", "unit", "range", "scale", "can be unknown", "meaning"),
        (
            (
                f"`{entry.name}`",
                entry.unit,
                f"{-entry.high if entry.is_signed else 0:g} to {entry.high:g}",
                _scale(entry),
                "yes" if entry.nullable else "no",
                entry.meaning,
            )
            for entry in ADVICE_ENTRIES
        ),
    )


def observation_table(spec: ObservationSpec) -> str:
    """Every entry of an observation, in order."""
    return _markdown(
        ("index", "entry", "range", "meaning"),
        (
            (str(i), f"`{entry}`", f"{low:g} to {high:g}", _meaning(entry))
            for i, (entry, low, high) in enumerate(
                zip(spec.entries, spec.low, spec.high, strict=True)
            )
        ),
    )


def actions_table() -> str:
    """Every action: its index in the flat table, its head indices and what it does."""
    heads = from_discrete(np.arange(DISCRETE_ACTIONS))
    scales, thresholds = decode(heads)
    return _markdown(
        ("index", "scaling head", "threshold head", "replicas", "threshold"),
        (
            (str(i), str(head[0]), str(head[1]), _step(scale), _step(threshold * THRESHOLD_STEP))
            for i, (head, scale, threshold) in enumerate(
                zip(heads, scales, thresholds, strict=True)
            )
        ),
    )


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _scale(of: Field | AdviceEntry) -> str:
    return "linear" if of.scale == "linear" else f"log, near linear up to {of.pivot:g}"


def _step(change: float) -> str:
    return f"{change:+g}" if change else "no change"


def _meaning(entry: str) -> str:
    name, _, age = entry.partition("[-")
    ago = f", at t-{age.rstrip(']')}" if age else ""
    if name in FIELD_INDEX:
        return FIELDS[FIELD_INDEX[name]].meaning + ago
    if name in ADVICE_INDEX:
        return ADVICE_ENTRIES[ADVICE_INDEX[name]].meaning
    if name.removesuffix(_KNOWN_SUFFIX) in FIELD_INDEX.keys() | ADVICE_INDEX.keys():
        return f"1 if `{name.removesuffix(_KNOWN_SUFFIX)}` is known, else 0" + ago
    if name.removesuffix(_CHANGE_SUFFIX) in FIELD_INDEX:
        field = name.removesuffix(_CHANGE_SUFFIX)
        return f"change of scaled `{field}` in {TREND_TICKS} ticks, 0 if either is missing" + ago
    return f"ticks since replicas or threshold changed, log scale, 1 from {CHANGE_HORIZON_TICKS} on"
