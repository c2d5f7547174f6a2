"""A validation as files: an HTML page, and what the documentation shows of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from .. import plots
from ..files import replacing
from ..page import Picture, filled
from .claim import Section
from .record import section_dict
from .tables import figure_text, interval_text, missed_line, summary_line, tabulated

_TEMPLATE: Final = "validation.html.j2"


def write_page(sections: Sequence[Section], path: Path, provenance: dict[str, Any]) -> None:
    """Writes one HTML file; a failure leaves what was there before.

    Args:
        sections: What was compared.
        path: The file.
        provenance: Shown at its end.

    Raises:
        OutputError: The folder does not exist or cannot be written to.
    """
    values = {
        "chapters": [
            {
                "section": section,
                "table": tabulated(section.claims),
                "summary": summary_line(section.claims, section.skipped),
                "missed": [missed_line(claim) for claim in section.missed],
                "pictures": [
                    Picture(figure.title, figure.caption, plots.drawn(figure.draw))
                    for figure in section.figures
                ],
            }
            for section in sections
        ],
        "provenance": provenance,
        "figure_text": figure_text,
        "interval_text": interval_text,
    }
    with replacing(path) as temporary:
        temporary.write_text(filled(_TEMPLATE, values), encoding="utf-8")


def write_docs(sections: Sequence[Section], folder: Path) -> None:
    """Writes `SECTION.json` and `FIGURE.svg` for the documentation; what was skipped stays.

    Args:
        sections: What was compared.
        folder: Where `docs/validation.md` looks for them.

    Raises:
        OutputError: The folder does not exist or cannot be written to.
    """
    for section in sections:
        if section.skipped is not None:
            continue
        for figure in section.figures:
            with replacing(folder / f"{figure.name}.svg") as temporary:
                temporary.write_text(plots.drawn(figure.draw), encoding="utf-8")
        with replacing(folder / f"{section.name}.json") as temporary:
            text = json.dumps(section_dict(section), indent=1, allow_nan=False)
            temporary.write_text(text + "\n", encoding="utf-8")
