"""Parameters of other parts, written as a section of the bridge's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ..envs.scenario_file import to_json
from .errors import SettingsError
from .findings import first_finding, names_key

T = TypeVar("T")


def parsed(kind: type[T], content: Mapping[str, Any], *, file: str, section: str) -> T:
    """A parameter dataclass of another part, from a section of the file.

    Args:
        kind: The dataclass.
        content: The section.
        file: The file's name, for errors.
        section: The section's key, for errors.

    Raises:
        SettingsError: An unknown key or a wrong value: one line.
    """
    adapter = TypeAdapter(kind)
    try:
        made = adapter.validate_json(to_json(content), strict=True)
    except ValidationError as error:
        keys, line = first_finding(error, kind, is_shown=True)
        if not keys and line.startswith(f"{section}: "):
            raise SettingsError(f"{file}: {line}") from error
        joint = "." if keys or names_key(line) else ": "
        raise SettingsError(f"{file}: {section}{joint}{line}") from error
    extra = _unknown(content, adapter.dump_python(made, mode="json"))
    if extra is not None:
        raise SettingsError(f"{file}: {section}.{extra}: unknown key")
    return made


def _unknown(given: object, known: object) -> str | None:
    """Path of the first key that was given but is not known: plain dataclasses drop it silently."""
    pairs: list[tuple[Any, Any, Any]] = []
    if isinstance(given, Mapping) and isinstance(known, Mapping):
        for key in given:
            if key not in known:
                return str(key)
        pairs = [(key, given[key], known[key]) for key in given]
    elif isinstance(given, list) and isinstance(known, list):
        pairs = [(i, *both) for i, both in enumerate(zip(given, known, strict=False))]
    for key, one, other in pairs:
        below = _unknown(one, other)
        if below is not None:
            return f"{key}.{below}"
    return None
