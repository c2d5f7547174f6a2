"""Files that are either whole or not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory


class OutputError(ValueError):
    """A file that cannot be written: one line."""


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """Turns what the operating system refuses within the block into one line.

    Args:
        place: What is written, for errors that name no file.

    Raises:
        OutputError: A file or folder cannot be made or written.
    """
    try:
        yield
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else place
        why = " ".join(str(error.strerror or error).split())
        msg = f"{where}: cannot be written ({why})"
        raise OutputError(msg) from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends without an error.

    Args:
        path: The file to make or to replace.

    Yields:
        Where to write.

    Raises:
        OutputError: The folder does not exist, or the file cannot be written.
    """
    check_writable(path)
    temporary = _partial(path)
    try:
        with writing(path):
            yield temporary
            temporary.replace(path)
    finally:
        with suppress(OSError):  # the error that matters is on its way already
            temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Finds out before the work whether a result can be written, by beginning to.

    Raises:
        OutputError: It cannot.
    """
    with writing(path):
        if not path.parent.is_dir():
            msg = f"{path}: the folder {path.parent} does not exist"
            raise OutputError(msg)
        if path.is_dir():
            msg = f"{path}: is a folder, expected a file name"
            raise OutputError(msg)
        if not os.access(path.parent, os.W_OK):
            msg = f"{path}: the folder {path.parent} is not writable"
            raise OutputError(msg)
    try:
        _partial(path).touch()
        _partial(path).unlink()
    except OSError as error:
        msg = f"{path}: cannot be written ({error.strerror})"
        raise OutputError(msg) from error


def check_ending(path: Path, *endings: str) -> None:
    """Refuses a file name that does not say what the file will hold.

    Raises:
        OutputError: It ends otherwise.
    """
    if not path.name.endswith(endings):
        msg = f"{path}: expected a name that ends in {', '.join(endings)}"
        raise OutputError(msg)


def check_folder(path: Path) -> None:
    """Finds out before the work whether a folder of results is there or can be made.

    Raises:
        OutputError: It cannot.
    """
    with writing(path):
        nearest = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not nearest.is_dir():
        msg = f"{path}: {nearest} is a file, expected a folder"
        raise OutputError(msg)
    try:
        with TemporaryDirectory(dir=nearest, prefix=".gatepilot."):
            pass
    except OSError as error:
        msg = f"{path}: the folder {nearest} is not writable ({error.strerror})"
        raise OutputError(msg) from error


def _partial(path: Path) -> Path:
    """Where a file grows until it is whole."""
    return path.with_name(f".{path.name}.{os.getpid()}.partial")
