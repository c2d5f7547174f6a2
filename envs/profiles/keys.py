"""A JSON object with its allowed keys, and one-line errors that name file, key and value."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from typing import Any, Final

_LARGEST_WHOLE: Final = 2**53
"""Beyond it a float is no exact whole number; nothing counted here comes near."""


class ProfileError(ValueError):
    """A profile that cannot be used: one line with file, key and what would be right."""


class Keys:
    """One JSON object with its allowed keys and its place for error messages."""

    def __init__(
        self,
        content: Any,  # noqa: ANN401
        where: str,
        prefix: str,
        allowed: tuple[str, ...],
    ) -> None:
        """Checks the keys.

        Args:
            content: The parsed JSON.
            where: File to name in errors.
            prefix: What stands before a key in errors, with its dot.
            allowed: Keys it may have.

        Raises:
            ProfileError: It is no object, or a key is unknown.
        """
        if not isinstance(content, Mapping):
            place = prefix.rstrip(".") or "the file"
            raise ProfileError(
                f"{where}: {place}: expected an object with keys {', '.join(allowed)}"
            )
        for key in content:
            if key not in allowed:
                near = difflib.get_close_matches(str(key), allowed, n=1)
                hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(allowed)}"
                raise ProfileError(f"{where}: {prefix}{key}: unknown key; {hint}")
        self.content: Mapping[str, Any] = content
        self._where = where
        self._prefix = prefix

    def inner(self, key: str, allowed: tuple[str, ...], *, required: bool = False) -> Keys:
        """The object under a key; empty where it is absent and not required."""
        if required and key not in self.content:
            raise ProfileError(f"{self._where}: {self._prefix}{key}: missing key")
        inner = self.content.get(key, {})
        return Keys(inner, self._where, f"{self._prefix}{key}.", allowed)

    def number(self, key: str, *, above_zero: bool = False) -> float:
        """A required finite number of at least (or above) 0."""
        if key not in self.content:
            raise ProfileError(f"{self._where}: {self._prefix}{key}: missing key")
        value = self.content[key]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        good = is_number and 0 <= value <= sys.float_info.max  # false for NaN
        if not good or (above_zero and value == 0):
            wanted = "a number above 0" if above_zero else "a number of at least 0"
            raise ProfileError(f"{self._where}: {self._prefix}{key}: {value!r} is not {wanted}")
        return float(value)

    def optional_number(self, key: str) -> float | None:
        """A number, or None where the key is absent or null."""
        return None if self.content.get(key) is None else self.number(key)

    def whole(self, key: str, default: int | None = None) -> int | None:
        """A whole number of at least 1, or the default where the key is absent or null."""
        if self.content.get(key) is None:
            return default
        value = self.number(key, above_zero=True)
        if not value.is_integer() or value > _LARGEST_WHOLE:
            raise ProfileError(
                f"{self._where}: {self._prefix}{key}: {self.content[key]!r} is not a whole number"
            )
        return int(value)
