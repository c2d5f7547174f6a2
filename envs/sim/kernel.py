"""How the engine's functions are compiled and where the compiled code is kept."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])
_config: Any = numba.config  # it makes its attributes on import, unseen by type checkers


@cache
def cache_folder() -> Path:
    """The folder of the compiled engine, named by a hash of all its sources.

    Numba's own check looks at the file of the called function alone: an edit in a file that it
    calls would go unseen. A hash over all sources cannot miss one.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return _cache_home() / digest.hexdigest()[:16]


def _cache_home() -> Path:
    """A folder of the user's that can be written to; else one of the machine's temporary ones."""
    home = Path.home() / ".cache" / "gatepilot" / "engine"
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.gettempdir()) / "gatepilot-engine"
    return home


def is_compiled(name: str) -> bool:
    """Whether compiled code of a kernel and these very sources lies in the cache.

    Args:
        name: Module and kernel, e.g. "gateways.tick_many".
    """
    return any(cache_folder().rglob(f"{name}-*.nbi"))


def kernel(function: F) -> F:
    """Compiles on first use, releases the GIL, and keeps the result in `cache_folder`.

    Reference counting is off: it cost nine tenths of the time. So a kernel cannot make arrays;
    what needs room uses the scratch arrays of the state.
    """
    return _compiled(function, inline="never", _nrt=False)


def inlined_kernel(function: F) -> F:
    """The same, inlined into its callers: for what Numba cannot return (a tuple of records)."""
    return _compiled(function, inline="always", _nrt=False)


def _compiled(function: F, **options: Any) -> F:
    before = _config.CACHE_DIR
    _config.CACHE_DIR = str(cache_folder())
    try:
        compiled: F = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    finally:
        _config.CACHE_DIR = before
    return compiled
