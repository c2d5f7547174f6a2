"""Where the commands find the bridge: its configuration names the folder of socket and ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from ..settings import DEFAULT_FILE, LEDGER_FILE, load_settings

Config: TypeAlias = Annotated[
    Path, typer.Option("--config", metavar="FILE", help="The bridge's YAML file.")
]
CONFIG_DEFAULT = DEFAULT_FILE
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def ledger_of(place: Path) -> Path:
    """The ledger's file, from itself, its folder or a configuration."""
    if place.is_dir():
        return place / LEDGER_FILE
    if place.suffix in (".yaml", ".yml"):
        return load_settings(place).ledger_path
    return place
