"""Where the commands find the bridge: its configuration names the folder of socket and ledger."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from ..settings import DEFAULT_FILE, LEDGER_FILE, load_settings


def given_path(text: str | Path) -> Path:
    """A path of the command line; an empty one, of an unset variable, is not the folder itself."""
    if not str(text):
        raise typer.BadParameter("an empty path, expected a name")
    return Path(text)


Config: TypeAlias = Annotated[
    Path,
    typer.Option("--config", metavar="FILE", help="The bridge's YAML file.", parser=given_path),
]
ConfigFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="CONFIG", help="The bridge's YAML file.", parser=given_path)
]
Ledger: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="LEDGER", help="Ledger, its folder or the bridge's YAML.", parser=given_path
    ),
]
CONFIG_DEFAULT = DEFAULT_FILE
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def ledger_of(place: Path) -> Path:
    """The ledger's file, from itself, its folder or a configuration."""
    if os.path.isdir(place):  # False also for a name that is too long
        return place / LEDGER_FILE
    if place.suffix in (".yaml", ".yml"):
        return load_settings(place).ledger_path
    return place
