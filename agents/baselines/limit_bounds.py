"""Between which numbers a concurrency limit may move."""

from __future__ import annotations

from typing import Final

LARGEST_LIMIT: Final = 4096
"""Largest upper bound that a search may try, requests in flight."""


def check_limits(initial_limit: int, min_limit: int, max_limit: int) -> None:
    """Refuses a start or bounds that no limit can have.

    Raises:
        ValueError: One of them is below 1, or the bounds cross: it names all three.
    """
    if not 1 <= min_limit <= max_limit or initial_limit < 1:
        msg = (
            f"initial_limit {initial_limit}, min_limit {min_limit}, max_limit "
            f"{max_limit}: expected 1 or more, and min_limit <= max_limit"
        )
        raise ValueError(msg)
