"""Where an evaluation finds what it needs and keeps what it made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CACHE: Final = Path.home() / ".cache" / "gatepilot"
CELLS_DIR: Final = _CACHE / "cells"
"""Where cells are kept unless said otherwise."""
STUDIES_DIR: Final = _CACHE / "studies"
"""Where tuning studies are kept unless said otherwise."""


@dataclass(frozen=True)
class Places:
    """Folders of an evaluation."""

    cells: Path
    """Played cells, to be taken again."""
    studies: Path | None = None
    """Tuning studies, to be gone on with; `None`: they are not kept."""
    traces: Path | None = None
    """Request traces; where one is absent a workload model stands in."""
    runs: Path = Path("runs")
    """Runs, for `run:ID`."""
