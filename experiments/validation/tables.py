"""Claims as a table: a row for each subject, a column for each quantity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .claim import Claim

_FACTORS: Final = {"fraction": (100.0, " %"), "s": (1.0, " s"), "count": (1.0, "")}


@dataclass(frozen=True, slots=True)
class Row:
    """One subject."""

    subject: str
    cells: tuple[Claim | None, ...]
    """One for each column; `None`: not claimed."""

    @property
    def bars(self) -> str:
        """The bar of the row's cells; all of them where they differ."""
        found = dict.fromkeys(
            figure_text(cell.bar, cell.unit)
            for cell in self.cells
            if cell is not None and cell.bar is not None
        )
        return " / ".join(found) or "none"


@dataclass(frozen=True, slots=True)
class Table:
    """Claims by subject and quantity, in the order in which they were made."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def tabulated(claims: Sequence[Claim]) -> Table:
    """The claims of one section as a table."""
    columns = tuple(dict.fromkeys(claim.quantity for claim in claims))
    cells = {(claim.subject, claim.quantity): claim for claim in claims}
    subjects = dict.fromkeys(claim.subject for claim in claims)
    rows = (Row(s, tuple(cells.get((s, column)) for column in columns)) for s in subjects)
    return Table(columns, tuple(rows))


def figure_text(value: float, unit: str) -> str:
    """A value with its unit; fractions in percent."""
    if math.isnan(value):
        return "none"
    factor, ending = _FACTORS.get(unit, (1.0, f" {unit}"))
    shown = factor * value
    if unit == "count":
        return f"{shown:,.0f}"
    if unit == "fraction":
        return f"{round(shown, 2) + 0.0:.2f}{ending}"  # + 0: no minus before a zero
    return f"{shown:.3g}{ending}"


def interval_text(claim: Claim) -> str:
    """The interval without a unit, empty where there is none."""
    if claim.interval is None:
        return ""
    factor, _ = _FACTORS.get(claim.unit, (1.0, ""))
    low, high = (factor * end for end in claim.interval)
    return f"{low:.2f} to {high:.2f}" if claim.unit == "fraction" else f"{low:.3g} to {high:.3g}"


def summary_line(claims: Sequence[Claim], skipped: str | None) -> str:
    """How many bars of a section are met."""
    if skipped is not None:
        return f"skipped: {skipped}"
    judged = [claim for claim in claims if claim.bar is not None]
    met = sum(bool(claim.passed) for claim in judged)
    return f"{met} of {len(judged)} bars met"


def missed_line(claim: Claim) -> str:
    """A claim that is not met, in a sentence."""
    interval = interval_text(claim)
    return (
        f"{claim.subject}, {claim.quantity}: {figure_text(claim.measured, claim.unit)}"
        f"{f' ({interval})' if interval else ''}, bar "
        f"{figure_text(claim.bar or 0.0, claim.unit)}{f'; {claim.note}' if claim.note else ''}"
    )
