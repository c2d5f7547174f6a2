"""What keeps a testbed from starting or from going on."""

from __future__ import annotations


class LaunchError(ValueError):
    """A part that cannot be started, or that ended: one line naming it and its log file."""
