"""The folder of an artifact: exactly its files, regular ones, each read once."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import Final

from .errors import ArtifactError
from .layout import SIGNATURE_FILE, SIGNED_FILES

MAX_FILE_BYTES: Final = 64 << 20
"""Size up to which a file is read: a thousand times what a policy takes."""


def read_folder(folder: Path) -> dict[str, bytes]:
    """Reads every file of an artifact, once: what is checked is what is used.

    Args:
        folder: The artifact. It may be reached through a symbolic link; its files may not be links.

    Returns:
        The content by name; without `model.sig` if the artifact is unsigned.

    Raises:
        ArtifactError: A file is missing, too many, no regular file, too large or unreadable.
    """
    try:
        found = {entry.name for entry in os.scandir(folder)}
    except OSError as error:
        msg = f"{folder}: not a folder with an artifact ({error.strerror})"
        raise ArtifactError(msg) from error
    missing = [name for name in SIGNED_FILES if name not in found]
    if missing:
        msg = f"{folder}: not an artifact: {', '.join(missing)} missing"
        raise ArtifactError(msg)
    extra = sorted(found - {*SIGNED_FILES, SIGNATURE_FILE})
    if extra:
        msg = f"{folder}: {extra[0]!r} does not belong to an artifact: take out what was added"
        raise ArtifactError(msg)
    return {name: _read(folder / name) for name in sorted(found)}


def sha256(content: bytes) -> str:
    """SHA-256, hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _read(path: Path) -> bytes:
    """A regular file's content; never through a symbolic link, never waiting at a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        link = error.errno == errno.ELOOP
        reason = "a symbolic link, expected a regular file" if link else error.strerror
        msg = f"{path}: {reason}"
        raise ArtifactError(msg) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            msg = f"{path}: not a regular file"
            raise ArtifactError(msg)
        if status.st_size > MAX_FILE_BYTES:
            msg = f"{path}: {status.st_size} bytes, at most {MAX_FILE_BYTES} are read"
            raise ArtifactError(msg)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_FILE_BYTES)
    except OSError as error:
        msg = f"{path}: cannot be read ({error.strerror})"
        raise ArtifactError(msg) from error
    finally:
        os.close(descriptor)
