"""A folder that is either whole or not there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .errors import ArtifactError
from .layout import SIGNATURE_FILE, SIGNED_FILES


def check_place(folder: Path, *, force: bool) -> None:
    """Finds out before the work whether an artifact can be put there.

    Args:
        folder: Where to.
        force: Whether an artifact that is there may be replaced.

    Raises:
        ArtifactError: It cannot: one line that says why.
    """
    parent = folder.absolute().parent
    if not parent.is_dir():
        msg = f"{folder}: the folder {parent} does not exist"
        raise ArtifactError(msg)
    if not os.access(parent, os.W_OK):
        msg = f"{folder}: the folder {parent} is not writable"
        raise ArtifactError(msg)
    if not os.path.lexists(folder):
        return
    if not force:
        msg = f"{folder}: is there already; give another folder, or --force to replace an artifact"
        raise ArtifactError(msg)
    if folder.is_symlink() or not folder.is_dir():
        msg = f"{folder}: not a folder; --force replaces artifacts only"
        raise ArtifactError(msg)
    strange = sorted({entry.name for entry in folder.iterdir()} - {*SIGNED_FILES, SIGNATURE_FILE})
    if strange:
        msg = f"{folder}: holds {strange[0]!r}; --force replaces artifacts only"
        raise ArtifactError(msg)


def place(folder: Path, files: Mapping[str, bytes], *, force: bool) -> None:
    """Makes a folder of files, all or nothing; arguments and errors as of `placing`."""
    with placing(folder, force=force) as made:
        for name, content in files.items():
            (made / name).write_bytes(content)


@contextmanager
def placing(folder: Path, *, force: bool) -> Iterator[Path]:
    """An empty folder of the same name that takes its place when the block ends without an error.

    Args:
        folder: The folder to make.
        force: Whether an artifact that is there may be replaced.

    Yields:
        Where to write.

    Raises:
        ArtifactError: Nothing can be put there.
    """
    check_place(folder, force=force)
    target = folder.absolute()
    try:
        work = Path(
            tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent)
        )
    except OSError as error:
        msg = f"{folder}: cannot be written ({error.strerror})"
        raise ArtifactError(msg) from error
    try:
        made = work / target.name
        made.mkdir()
        yield made
        check_place(folder, force=force)  # again: the work may have taken minutes
        if target.exists():
            target.rename(work / "replaced")
        made.rename(target)
    except OSError as error:
        msg = f"{folder}: cannot be written ({error.strerror})"
        raise ArtifactError(msg) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
