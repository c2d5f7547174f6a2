"""What a rehearsal refuses."""

from __future__ import annotations


class RehearsalError(ValueError):
    """A rehearsal that cannot be held as asked: one line that says what would be right."""
