"""Files that are either whole or not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class OutputError(ValueError):
    """A file that cannot be written: one line."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends without an error.

    Args:
        path: The file to make or to replace.

    Yields:
        Where to write.

    Raises:
        OutputError: The folder does not exist or cannot be written to.
    """
    check_writable(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Finds out before the work whether a result can be written.

    Raises:
        OutputError: It cannot.
    """
    if not path.parent.is_dir():
        msg = f"{path}: the folder {path.parent} does not exist"
        raise OutputError(msg)
    if path.is_dir():
        msg = f"{path}: is a folder, expected a file name"
        raise OutputError(msg)
    if not os.access(path.parent, os.W_OK):
        msg = f"{path}: the folder {path.parent} is not writable"
        raise OutputError(msg)


def check_folder(path: Path) -> None:
    """Finds out before the work whether a folder of results is there or can be made.

    Raises:
        OutputError: It cannot.
    """
    nearest = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not nearest.is_dir():
        msg = f"{path}: {nearest} is a file, expected a folder"
        raise OutputError(msg)
    if not os.access(nearest, os.W_OK):
        msg = f"{path}: the folder {nearest} is not writable"
        raise OutputError(msg)
