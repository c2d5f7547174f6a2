"""What the commands print: one JSON object, or tables of at most 80 characters."""

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
    """A table; long cells wrap. Where nobody looks, as wide as it needs to be."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 4 * WIDTH
    console.print(table)
