"""The command `gatepilot`. One-line errors; exit code 0: good, 1: the answer is no, 2: wrong usage.

Only the module of the command that is called is loaded: training brings torch, tracking MLflow.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

import typer

COMMANDS: Final[dict[str, str]] = {
    "demo": "The whole story in a few minutes: train, compare, report.",
    "evaluate": "Compare policies and baselines over the same windows of traffic.",
    "export": "Seal a trained policy: ONNX, manifest, golden vectors, signature.",
    "fetch": "Bring a sealed policy from the registry to a folder.",
    "rehearse": "Watch a policy in shadow: the real bridge beside the simulated gateway.",
    "simulate": "Run a trace or a scenario through the simulated gateway.",
    "testbed": "A real Envoy and Prometheus around emulated replicas, on this machine.",
    "train": "Train a policy; everything is logged to MLflow.",
}
"""Command to its line in the help; `commands/<name>.py` holds a function or group of its name."""

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
        arguments: Everything behind `gatepilot`.

    Returns:
        The exit code.
    """
    command = next((word for word in arguments if not word.startswith("-")), None)
    name = f"gatepilot {command}" if command in COMMANDS else "gatepilot"
    try:
        code = build(command)(list(arguments), prog_name="gatepilot", standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
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
        help="Tunes an LLM gateway: trains policies, and shows whether they are better.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    for name, line in COMMANDS.items():
        loaded = _loaded(name) if name == command else _not_loaded
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=name, short_help=line)
        else:
            app.command(name, short_help=line)(loaded)
    return app


def _loaded(name: str) -> Callable[..., None] | typer.Typer:
    loaded: Callable[..., None] | typer.Typer
    loaded = getattr(import_module(f".commands.{name}", __package__), name)
    return loaded


def _not_loaded() -> None:
    """Stands in the list of commands for one that is not called."""


def _one_line(error: Exception) -> str | None:
    """What to tell the user, nothing where the help was shown; `None` for faults of ours.

    Each `ValueError` that says what the user can change has a class of the project's own.
    """
    if isinstance(error, _CLICK_ERROR):
        message = str(error.format_message())  # type: ignore[attr-defined]
        return message.removeprefix("Invalid value: ").replace("\n", " ")
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        missing = error.name.split(".")[0]
        if missing != "gatepilot":
            extra = "testbed" if missing == "aiohttp" else "train"
            return f"{missing} is missing: install gatepilot with its extra, gatepilot[{extra}]"
    ours = type(error).__module__.startswith("gatepilot.")
    return str(error) if isinstance(error, ValueError) and ours else None
