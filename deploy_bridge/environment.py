"""Environment variables that go over the configuration's file, and which of them set a value."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Final

ENV_PREFIX: Final = "GATEPILOT_BRIDGE_"


def origin(file: str, *keys: str) -> str:
    """Where a value comes from, for errors: the file, or the variables that go over it.

    Args:
        file: The file's name.
        *keys: The value's keys, from the outside in. Of a section, values may come from both.
    """
    above: list[str] = []
    inside: list[str] = []
    for name in variables():
        parts = name[len(ENV_PREFIX) :].lower().split("__")
        wanted = [key.lower() for key in keys]
        if parts[: len(wanted)] == wanted:
            (above if len(parts) == len(wanted) else inside).append(name)
        elif wanted[: len(parts)] == parts and _holds(os.environ[name], wanted[len(parts) :]):
            above.append(name)
    if above:
        return f"environment: {above[0]}"
    return f"{file} and environment: {', '.join(inside)}" if inside and keys else file


def _holds(text: str, keys: list[str]) -> bool:
    """Whether a variable for a whole section, which is JSON, sets the value at these keys."""
    try:
        here = json.loads(text)
    except ValueError:
        return False
    for key in keys:
        if not isinstance(here, Mapping) or key not in here:
            return False
        here = here[key]
    return True


def variables() -> list[str]:
    """Names of all variables that speak to the bridge, as they are spelt."""
    return [name for name in os.environ if name.upper().startswith(ENV_PREFIX)]
