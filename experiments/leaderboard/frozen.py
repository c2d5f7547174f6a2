"""The frozen table of a specification: does another run find the same?

`NAME.frozen.json` beside the specification holds what a leaderboard writes as `frozen.json`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .spec import LeaderboardSpec

_FOLDER: Final = Path(__file__).parent
_INPUTS: Final = ("scenario", "traffic", "settings")


@dataclass(frozen=True)
class Reproduction:
    """A run beside the frozen one."""

    same_inputs: bool
    """Whether specification, code, scenarios, traffic and settings are the same."""
    differences: tuple[str, ...]
    """What is not: one line each."""

    @property
    def failed(self) -> bool:
        """The same went in, and something else came out."""
        return self.same_inputs and bool(self.differences)


def frozen_table(spec: LeaderboardSpec, folder: Path = _FOLDER) -> dict[str, Any] | None:
    """The frozen table of a specification; `None`: none ships.

    Args:
        spec: The specification.
        folder: Where it lies.
    """
    path = folder / f"{spec.name}.frozen.json"
    if not path.is_file():
        return None
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def compared(ours: dict[str, Any], frozen: dict[str, Any]) -> Reproduction:
    """Holds the hashes of a run against the frozen ones.

    Args:
        ours: From `Board.frozen`.
        frozen: From `frozen_table`.
    """
    mine, theirs = ours["digests"], frozen["digests"]
    inputs = [f"the {name}" for name in ("spec", "sources") if mine[name] != theirs[name]]
    outputs = [
        f"the {name.replace('_', ' ')}"
        for name in ("suite_table", "episodes")
        if mine[name] != theirs[name]
    ]
    names = dict.fromkeys((*mine["scenarios"], *theirs["scenarios"]))
    for name in names:
        one, other = mine["scenarios"].get(name, {}), theirs["scenarios"].get(name, {})
        inputs += [f"{name}: the {k}" for k in _INPUTS if one.get(k) != other.get(k)]
        outputs += [f"{name}: the table"] if one.get("table") != other.get("table") else []
    lines = (f"{what} differs from the frozen one" for what in (*inputs, *outputs))
    return Reproduction(not inputs, tuple(lines))
