"""Text files, plain or compressed with gzip, and what reading a damaged one raises."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import IO, Final

UNREADABLE: Final = (OSError, EOFError, UnicodeDecodeError, zlib.error)
"""Errors of a file that is missing, cut short, damaged or no text."""


def is_gzip(path: Path) -> bool:
    """Whether a file is compressed, by its name."""
    return path.suffix.lower() == ".gz"


def open_text(path: Path) -> IO[str]:
    """Opens a plain or gzip file as text; a byte order mark is dropped.

    Raises:
        OSError: It cannot be opened; reading it may raise any of `UNREADABLE`.
    """
    if is_gzip(path):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def one_line(error: Exception) -> str:
    """The first line of an error's message."""
    return (str(error).splitlines() or [type(error).__name__])[0]
