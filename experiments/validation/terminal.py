"""What a validation prints on standard output."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..terminal import TABLE_WIDTH
from .claim import Claim, Section
from .tables import figure_text, interval_text, missed_line, summary_line, tabulated

_WIDEST: Final = 500
"""Characters a line may take: a table is wrapped by the terminal rather than cut."""
_STYLES: Final = {None: "", True: "green", False: "bold red"}


def print_sections(sections: Sequence[Section], *, quick: bool) -> None:
    """Prints one table a section, every bar that is not met, and a line a section.

    Args:
        sections: What was compared.
        quick: Whether it was a rough look.
    """
    console = Console(highlight=False, markup=False, soft_wrap=True, width=_WIDEST)
    for section in sections:
        console.print(Text(f"\n{section.title}", style="bold"))
        console.print(fill(section.intro, TABLE_WIDTH, initial_indent="  ", subsequent_indent="  "))
        if section.claims:
            console.print(_table(section))
        for claim in section.missed:
            console.print(Text(f"  NOT MET  {missed_line(claim)}", style=_STYLES[False]))
    console.print()
    if quick:
        console.print("A quick look: fewer queues, loads and requests, wider intervals, same bars.")
    for section in sections:
        console.print(f"{section.name}: {summary_line(section.claims, section.skipped)}")


def _table(section: Section) -> Table:
    found = tabulated(section.claims)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for name in (*found.columns, "bar"):
        table.add_column(name, justify="right")
    for row in found.rows:
        table.add_row(row.subject, *(_cell(cell) for cell in row.cells), row.bars)
    return table


def _cell(claim: Claim | None) -> Text:
    if claim is None:
        return Text("-")
    shown = Text(figure_text(claim.measured, claim.unit), style=_STYLES[claim.passed])
    interval = interval_text(claim)
    return shown.append(f"\n{interval}", style="dim") if interval else shown
