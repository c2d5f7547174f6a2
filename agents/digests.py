"""Hashes of all that a result depends on: the code, a scenario, its traffic."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Literal

from ..envs.profiles.profile import load_profile
from ..envs.scenario import Scenario
from ..envs.workload.model import load_model

_PACKAGE: Final = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Where the requests of a scenario come from."""

    kind: Literal["trace", "model"]
    name: str
    """The trace's file name, or the model's name."""
    sha256: str
    """Of the trace's file, or of the model's content."""

    def __str__(self) -> str:
        """What a reader is told."""
        return f"{self.kind} {self.name}"


def json_digest(content: Any) -> str:  # noqa: ANN401
    """SHA-256 of plain content, whatever the order of its keys and of the members of its sets."""
    text = json.dumps(
        content, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_in_order
    )
    return hashlib.sha256(text.encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    state = path.stat()
    return _file_digest(path.resolve(), state.st_mtime_ns, state.st_size)


@cache
def sources_digest(patterns: Sequence[str]) -> str:
    """SHA-256 over files of the package, with their names.

    Args:
        patterns: Globs from the package's root on.
    """
    digest = hashlib.sha256()
    for path in sorted({path for pattern in patterns for path in _PACKAGE.glob(pattern)}):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def scenario_digest(scenario: Scenario) -> str:
    """Hash of a scenario and its serving profile; its description and its traffic play no part."""
    content = asdict(scenario)
    del content["description"]
    return json_digest([content, asdict(load_profile(scenario.profile))])


def traffic_of(scenario: Scenario, traces_dir: Path | None) -> Traffic | None:
    """Where a scenario's requests will come from.

    Args:
        scenario: The scenario.
        traces_dir: Where trace files lie.

    Returns:
        The trace where it is there, else the model; `None` if neither is, which loading the
        traffic reports.
    """
    path, model = scenario.trace_path(traces_dir), scenario.workload.model
    if path is not None:
        return Traffic("trace", path.name, file_digest(path))
    if model is not None:
        content = load_model(model).to_json()
        return Traffic("model", model, hashlib.sha256(content.encode()).hexdigest())
    return None


def _in_order(value: object) -> list[Any]:
    """A set as JSON can hold it."""
    if isinstance(value, frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is no plain content")


@lru_cache(maxsize=64)
def _file_digest(path: Path, _changed_ns: int, _size: int) -> str:
    """Hashed again when the file has changed."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
