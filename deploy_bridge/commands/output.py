"""What the commands print: one JSON object, or tables that fit the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import typer
from rich import box
from rich.console import Console
from rich.table import Table

WIDTH: Final = 80
"""Characters of a line in the plainest terminal."""


def print_json(content: Mapping[str, Any]) -> None:
    """One object in one line."""
    typer.echo(json.dumps(content, allow_nan=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table. In a terminal the last column wraps; for a file or a pipe each row is one line."""
    cells = [[" ".join(cell.split()) for cell in row] for row in (columns, *rows)]
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        widths[-1] = 0
        for row in cells:
            padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            typer.echo("  ".join(padded).rstrip())
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in cells[0][:-1]:
        table.add_column(name, no_wrap=True)
    table.add_column(cells[0][-1], overflow="fold")
    for row in cells[1:]:
        table.add_row(*row)
    console.print(table)
