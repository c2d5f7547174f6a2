"""A rehearsal as a section of an HTML page, and as a page of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...agents.episodes import Episode
from ..files import replacing
from ..page import Picture, filled
from .pictures import alone_picture, shadow_picture
from .rehearsal import CANNOT_TELL, Rehearsal
from .wording import Rows, alone_notes, headline, tables

_TEMPLATE: Final = "rehearsal.html.j2"


@dataclass(frozen=True)
class Section:
    """What a page shows of a rehearsal."""

    headline: str
    notes: tuple[str, ...]
    tables: tuple[Rows, ...]
    course: Picture
    cannot_tell: tuple[str, ...]
    alone: tuple[Episode, ...]
    alone_notes: tuple[str, ...]
    alone_course: Picture
    provenance: dict[str, str]


def section_of(rehearsal: Rehearsal) -> Section:
    """Draws the plots and puts the figures into words."""
    plan, shadow = rehearsal.plan, rehearsal.shadow
    ledger = str(shadow.ledger) if rehearsal.keeps_ledger else "not kept"
    return Section(
        headline=headline(plan),
        notes=tuple(f"Rehearsed fault: {fault}." for fault in plan.faults),
        tables=tables(rehearsal.findings, plan.incumbent.name),
        course=shadow_picture(rehearsal),
        cannot_tell=CANNOT_TELL,
        alone=rehearsal.counterfactual.episodes,
        alone_notes=alone_notes(rehearsal.counterfactual),
        alone_course=alone_picture(rehearsal),
        provenance={
            "artifact": f"{plan.artifact.folder}, digest {plan.artifact.digest}",
            "incumbent": f"{plan.incumbent.name}, {plan.incumbent.params}",
            "ledger": f"{ledger}; {shadow.records} records, the last has the hash {shadow.head}",
        },
    )


def write_page(rehearsal: Rehearsal, path: Path) -> None:
    """Writes a page about a rehearsal; a failure leaves what was there before.

    Raises:
        OutputError: The folder does not exist or cannot be written to.
    """
    values = {"rehearsal": section_of(rehearsal), "scenario": rehearsal.plan.trial.scenario.name}
    with replacing(path) as temporary:
        temporary.write_text(filled(_TEMPLATE, values), encoding="utf-8")
