"""The command `gatepilot-bridge`, for operators.

Exit code 0: good, 1: the answer is no, 2: wrong usage, configuration or artifact. What is wrong
stands in one line on standard error.

Only the module of the command that is called is loaded: `status` needs no network in memory.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

import typer

from ..agents.artifact.errors import ArtifactError
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

GOOD, NO, WRONG_USAGE = 0, 1, 2
INTERNAL_ERROR: Final = 70
"""A fault of ours, with a traceback: neither "no" nor wrong usage (`EX_SOFTWARE` of sysexits.h)."""
INTERRUPTED: Final = 130
"""Ctrl-C, as shells have it."""

_CLICK_ERROR: Final = typer.BadParameter.__mro__[2]
"""`ClickException`, which every wrong usage derives from; Typer does not export it."""


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
    command = next((word for word in arguments if not word.startswith("-")), None)
    name = f"gatepilot-bridge {command}" if command in COMMANDS else "gatepilot-bridge"
    try:
        code = build(command)(list(arguments), prog_name="gatepilot-bridge", standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        sys.stdout = None  # nobody reads: do not fail again at exit
        return GOOD
    except Exception as error:
        message = _one_line(error)
        if message is None:
            traceback.print_exc()
            return INTERNAL_ERROR
        if message:
            typer.echo(f"{name}: {message}", err=True)
        return WRONG_USAGE
    return code if isinstance(code, int) else GOOD


def build(command: str | None) -> typer.Typer:
    """The application with the function of one command loaded, the others by name only."""
    app = typer.Typer(
        help="Carries a sealed policy to a live gateway. In this version it only watches.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    for name, line in COMMANDS.items():
        function = _loaded(name) if name == command else _not_loaded
        app.command(name, short_help=line)(function)
    return app


def _loaded(name: str) -> Callable[..., None]:
    function: Callable[..., None] = getattr(import_module(f".commands.{name}", __package__), name)
    return function


def _not_loaded() -> None:
    """Stands in the list of commands for one that is not called."""


def _one_line(error: Exception) -> str | None:
    """What to tell the user, nothing where the help was shown; `None` for faults of ours."""
    if isinstance(error, _CLICK_ERROR):
        message = str(error.format_message())  # type: ignore[attr-defined]
        return message.removeprefix("Invalid value: ").replace("\n", " ")
    if isinstance(error, (BridgeError, ArtifactError)):
        return " ".join(str(error).split())
    return None
