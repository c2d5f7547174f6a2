"""Where a result comes from: command, code, versions, machine."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Final

DISTRIBUTIONS: Final = (
    "gatepilot",
    "gymnasium",
    "mlflow",
    "numba",
    "numpy",
    "stable-baselines3",
    "torch",
)
"""Distributions whose versions decide what a training or an evaluation finds."""
_GIT_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Provenance:
    """What must be known to repeat a result."""

    command: str
    """The command line as it was typed."""
    started_at: str
    """UTC, ISO 8601."""
    git_commit: str | None
    """Commit of the code; `None`: the code is not run from a git checkout."""
    git_dirty: bool | None
    """Whether the checkout differed from that commit; `None` as above."""
    python: str
    """Version of the interpreter."""
    platform: str
    """Operating system and processor."""
    cpus: int
    """Processors that this process may use."""
    versions: dict[str, str]
    """Versions of `DISTRIBUTIONS`; absent ones are left out."""


def collect(argv: Sequence[str] | None = None) -> Provenance:
    """Looks around.

    Args:
        argv: The command line; `None`: this process's own.
    """
    words = list(sys.argv if argv is None else argv)
    if words:
        words[0] = Path(words[0]).name
    commit, dirty = _git_state(Path(__file__).parents[1])
    return Provenance(
        command=shlex.join(words),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        git_commit=commit,
        git_dirty=dirty,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        cpus=usable_cpus(),
        versions=_versions(),
    )


def usable_cpus() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _versions() -> dict[str, str]:
    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _git_state(folder: Path) -> tuple[str | None, bool | None]:
    """Commit and cleanliness of the checkout at `folder`; an installed package has none."""
    git = shutil.which("git")
    if git is None or not (folder / ".git").exists():
        return None, None
    commit = _git(git, folder, "rev-parse", "HEAD")
    if commit is None:
        return None, None
    status = _git(git, folder, "status", "--porcelain", "--untracked-files=no")
    return commit, None if status is None else bool(status)


def _git(git: str, folder: Path, *arguments: str) -> str | None:
    """Output of a git command; `None` where it fails, as in a checkout without a commit."""
    try:
        done = subprocess.run(  # noqa: S603  # a fixed command
            [git, "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=_GIT_TIMEOUT_S,
        )
    except (subprocess.SubprocessError, OSError):
        return None
    return done.stdout.strip()
