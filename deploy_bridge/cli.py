"""The command `gatepilot-bridge`, for operators.

Exit code 0: good, 1: the answer is no, 2: wrong usage, configuration or artifact. What is wrong
stands in one line on standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from ..agents.artifact.errors import ArtifactError
from .command_line import CommandLine
from .errors import BridgeError

COMMANDS: Final[dict[str, str]] = {
    "verify": "Check an artifact: files, signature, contract, golden vectors.",
    "check": "Check a configuration and ask every source once.",
    "run": "Run the control loop, in shadow.",
    "status": "Show what the running bridge does.",
    "why": "Explain a decision, or why there was none.",
    "history": "List what the ledger holds.",
    "replay": "Recompute every recorded decision, bit for bit.",
}
"""Command to its line in the help; `commands/<name>.py` holds a function of that name."""


def main() -> None:
    """Runs the command line and ends the process."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs a command line.

    Args:
        arguments: Everything behind `gatepilot-bridge`.

    Returns:
        The exit code.
    """
    return _LINE.run(arguments)


def _explained(error: Exception) -> str | None:
    """What is wrong with what the operator gave, in one line; `None` for faults of ours."""
    if isinstance(error, (BridgeError, ArtifactError)):
        return " ".join(str(error).split())
    return None


_LINE: Final = CommandLine(
    program="gatepilot-bridge",
    help="Carries a sealed policy to a live gateway. In this version it only watches.",
    package=__package__ or "",
    commands=COMMANDS,
    explain=_explained,
)
