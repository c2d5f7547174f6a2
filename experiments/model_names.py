"""How models of the registry are named on the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_NAME: Final = re.compile(r"[^/:@'\"\s][^/:@'\"]*")
_ALIAS: Final = re.compile(r"[A-Za-z0-9_-]+")
_LIKE_A_VERSION: Final = re.compile(r"v\d+", re.IGNORECASE)


class ModelNameError(ValueError):
    """A name or an alias that cannot be used: one line."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What a user asks the registry for: one of version and alias."""

    name: str
    version: str | None
    alias: str | None


def check_name(name: str) -> str:
    """A model's name, if it can be one.

    Raises:
        ModelNameError: It cannot.
    """
    if not _NAME.fullmatch(name):
        msg = f"model {name!r}: expected a name without / : @ and quotes"
        raise ModelNameError(msg)
    return name


def check_alias(alias: str) -> str:
    """An alias, if MLflow takes it.

    Raises:
        ModelNameError: It is reserved (`latest`, `v1`) or holds other characters.
    """
    if alias.lower() == "latest" or _LIKE_A_VERSION.fullmatch(alias):
        msg = f"alias {alias!r}: reserved by MLflow; take another, such as challenger"
        raise ModelNameError(msg)
    if not _ALIAS.fullmatch(alias):
        msg = f"alias {alias!r}: expected letters, digits, _ and - only"
        raise ModelNameError(msg)
    return alias


def parse_reference(text: str) -> Reference:
    """`NAME@ALIAS` or `NAME/VERSION`.

    Raises:
        ModelNameError: It is neither.
    """
    name, at, alias = text.partition("@")
    if at:
        return Reference(check_name(name), None, check_alias(alias))
    name, slash, version = text.partition("/")
    if slash and version.isascii() and version.isdigit():
        return Reference(check_name(name), version, None)
    msg = f"{text!r}: expected NAME@ALIAS or NAME/VERSION, such as gateway@challenger or gateway/3"
    raise ModelNameError(msg)
