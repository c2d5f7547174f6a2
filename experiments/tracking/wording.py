"""What MLflow says, in one line."""

from __future__ import annotations


def first_line(error: Exception) -> str:
    """The first line of an error."""
    return str(error).splitlines()[0]
