"""Trained policies that ship, sealed; how each was made stands in its README."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent
PREFIX: Final = "pretrained:"
"""What their names begin with where policies are named."""


def pretrained_names() -> tuple[str, ...]:
    """Names of the artifacts, sorted."""
    return tuple(sorted(path.parent.name for path in _FOLDER.glob("*/manifest.json")))


def pretrained_folder(name: str) -> Path:
    """The folder of one of them."""
    return _FOLDER / name
