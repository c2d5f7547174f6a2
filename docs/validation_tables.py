"""Puts what `gatepilot validate --docs docs/validation` found into its page (a hook of MkDocs)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gatepilot.experiments.validation.claim import Claim
from gatepilot.experiments.validation.record import claims_of
from gatepilot.experiments.validation.sections import SECTIONS
from gatepilot.experiments.validation.tables import (
    figure_text,
    interval_text,
    summary_line,
    tabulated,
)

FOLDER = Path(__file__).parent / "validation"


def chapter(record: dict[str, Any]) -> str:
    """One section: what it compares, its plots, its table."""
    claims = claims_of(record)
    table = tabulated(claims)
    lines = [f"## {record['title']}", "", record["intro"], ""]
    lines += [f"**{summary_line(claims, None)}**", ""]
    for figure in record["figures"]:
        lines += [f"![{figure['title']}](validation/{figure['name']}.svg)", ""]
        lines += [f"*{figure['title']}. {figure['caption']}*", ""]
    lines.append("| | " + " | ".join((*table.columns, "bar")) + " |")
    lines.append("|---|" + "---:|" * (len(table.columns) + 1))
    for row in table.rows:
        cells = (cell_text(claim) for claim in row.cells)
        lines.append(f"| {row.subject} | " + " | ".join((*cells, row.bars)) + " |")
    source = f"validation/{record['name']}.json"
    lines += ["", f"How each figure came about: [the full list]({source})."]
    return "\n".join(lines)


def cell_text(claim: Claim | None) -> str:
    """A figure, bold where its bar is not met, with its interval in small print."""
    if claim is None:
        return ""
    shown = figure_text(claim.measured, claim.unit)
    if claim.passed is False:
        shown = f"**not met: {shown}**"
    interval = interval_text(claim)
    return f"{shown}<br><small>{interval}</small>" if interval else shown


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replaces `{{ validation }}` by every section that has been measured, in their order."""
    if "{{ validation }}" not in markdown:
        return markdown
    stored = [FOLDER / f"{name}.json" for name in SECTIONS]
    chapters = [chapter(json.loads(p.read_text(encoding="utf-8"))) for p in stored if p.is_file()]
    return markdown.replace("{{ validation }}", "\n\n".join(chapters))
