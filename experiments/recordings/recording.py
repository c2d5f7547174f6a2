"""Reading and writing a recording, and what it says of where it came from.

A recording takes minutes of real time, a comparison with it none. `benchmarks/testbed_bars.py`
makes them; `gatepilot validate --live` does without.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ..files import replacing
from ..testbed.binaries import find_binary

_PACKAGE: Final = Path(__file__).resolve().parents[2]
_SUFFIXES: Final = (".py", ".yaml", ".json", ".j2")
_VERSION_WITHIN_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Recording:
    """What was recorded, and by what."""

    recorded_on: str
    """UTC day, ISO 8601."""
    envoy: str
    """Version of Envoy."""
    sources: str
    """`sources_hash` of the files that can change the recording."""
    content: dict[str, Any]
    """The recording itself, plain data."""


def made_now(content: dict[str, Any], sources: Sequence[str]) -> Recording:
    """Content that was recorded a moment ago.

    Args:
        content: Plain data.
        sources: As in `sources_hash`.

    Raises:
        LaunchError: Envoy is not here.
    """
    day = datetime.now(UTC).date().isoformat()
    return Recording(day, envoy_version(), sources_hash(sources), content)


def stored(name: str) -> Recording | None:
    """The recording that the project ships; `None`: there is none.

    Args:
        name: Of the section.
    """
    path = _path(name)
    if not path.is_file():
        return None
    return Recording(**json.loads(path.read_text(encoding="utf-8")))


def store(name: str, recording: Recording) -> None:
    """Replaces the recording that the project ships; no line is longer than a row of numbers.

    Args:
        name: Of the section.
        recording: What to store.

    Raises:
        OutputError: The package's folder cannot be written to.
    """
    with replacing(_path(name)) as temporary:
        temporary.write_text(_written(asdict(recording)) + "\n", encoding="utf-8")


def origin(recording: Recording, sources: Sequence[str]) -> str:
    """When a recording was made, by what, and whether that is still what is here.

    Args:
        recording: The recording.
        sources: As in `sources_hash`.
    """
    same = recording.sources == sources_hash(sources)
    since = "the same since" if same else "changed since"
    return f"recorded {recording.recorded_on} with Envoy {recording.envoy}, its sources {since}"


def sources_hash(sources: Sequence[str]) -> str:
    """SHA-256 over source and data files of the package.

    Args:
        sources: Files, or folders with all that is in them, relative to the package.
    """
    digest = hashlib.sha256()
    files: list[Path] = []
    for source in sources:
        top = _PACKAGE / source
        files += [top] if top.is_file() else [p for p in top.rglob("*") if p.suffix in _SUFFIXES]
    for path in sorted(files):
        digest.update(str(path.relative_to(_PACKAGE)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def envoy_version() -> str:
    """The version that Envoy says it is.

    Raises:
        LaunchError: Envoy is not here.
    """
    said = subprocess.run(  # noqa: S603
        [str(find_binary("envoy")), "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=_VERSION_WITHIN_S,
    ).stdout
    found = re.search(r"/(\d+\.\d+\.\d+)/", said.rpartition("version:")[2])
    return found[1] if found else said.strip()  # version: COMMIT/1.40.0/Clean/RELEASE/BoringSSL


def _path(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.json")


def _written(value: Any, depth: int = 0) -> str:  # noqa: ANN401
    """JSON with an indent a level, but a list without objects or lists on one line."""
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_written(item, depth + 1)}" for key, item in value.items()]
        left, right = "{", "}"
    elif isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        parts = [_written(item, depth + 1) for item in value]
        left, right = "[", "]"
    else:
        return json.dumps(value, allow_nan=False)
    return f"{left}\n{pad}" + f",\n{pad}".join(parts) + f"\n{' ' * depth}{right}"
