"""What both console scripts are: commands loaded by name, one-line errors, exit codes.

Exit code 0: good, 1: the answer is no, 2: wrong usage. Only the module of the command that is
called is loaded: training brings torch, and `status` needs no network in memory.
"""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Final, TypeAlias

import typer

GOOD, NO, WRONG_USAGE = 0, 1, 2
INTERNAL_ERROR: Final = 70
"""A fault of ours, with a traceback: neither "no" nor wrong usage (`EX_SOFTWARE` of sysexits.h)."""
INTERRUPTED: Final = 130
"""Ctrl-C, as shells have it."""

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What the operating system says of a place that takes no more."""
_CLICK_ERROR: Final = typer.BadParameter.__mro__[2]
"""`ClickException`, which every wrong usage derives from; Typer does not export it."""
Command: TypeAlias = Callable[..., None] | typer.Typer
"""A command's function, or a group of commands."""


@dataclass(frozen=True)
class CommandLine:
    """One console script."""

    program: str
    """Its name."""
    help: str
    """What it is for, in a line."""
    package: str
    """Package whose `commands/<name>.py` holds a function or group of its name."""
    commands: Mapping[str, str]
    """Command to its line in the help."""
    explain: Callable[[Exception], str | None]
    """What to tell the user of an error; `None` for faults of ours."""

    def run(self, arguments: Sequence[str]) -> int:
        """Runs a command line.

        Args:
            arguments: Everything behind the program's name.

        Returns:
            The exit code.
        """
        command = next((word for word in arguments if not word.startswith("-")), None)
        name = f"{self.program} {command}" if command in self.commands else self.program
        try:
            return self._run(name, command, arguments)
        except BrokenPipeError:
            _give_up_output()
            return GOOD
        except SystemExit as end:  # Typer's and Rich's answer to a closed pipe
            if not isinstance(end.__context__, BrokenPipeError):
                raise
            _give_up_output()
            return GOOD

    def _run(self, name: str, command: str | None, arguments: Sequence[str]) -> int:
        try:
            app = self.build(command)
            code = app(list(arguments), prog_name=self.program, standalone_mode=False)
            if sys.stdout is not None:
                sys.stdout.flush()  # what cannot be written is found out here, not at exit
        except (typer.Abort, KeyboardInterrupt):
            return INTERRUPTED
        except BrokenPipeError:
            raise
        except Exception as error:
            message = self._one_line(error)
            with suppress(OSError):  # nobody reads: the exit code says it
                if message is None:
                    traceback.print_exc()
                elif message:
                    typer.echo(f"{name}: {message}", err=True)
            return INTERNAL_ERROR if message is None else WRONG_USAGE
        return code if isinstance(code, int) else GOOD

    def build(self, command: str | None) -> typer.Typer:
        """The application with the function of one command loaded, the others by name only."""
        app = typer.Typer(
            help=self.help,
            no_args_is_help=True,
            add_completion=False,
            pretty_exceptions_enable=False,
        )
        for name, line in self.commands.items():
            loaded = self._loaded(name) if name == command else _not_loaded
            if isinstance(loaded, typer.Typer):
                app.add_typer(loaded, name=name, short_help=line)
            else:
                app.command(name, short_help=line)(loaded)
        return app

    def _loaded(self, name: str) -> Command:
        loaded: Command = getattr(import_module(f".commands.{name}", self.package), name)
        return loaded

    def _one_line(self, error: Exception) -> str | None:
        """What to tell the user, nothing where the help was shown; `None` for faults of ours."""
        if isinstance(error, _CLICK_ERROR):
            given = str(error.format_message())  # type: ignore[attr-defined]
            message: str | None = given.removeprefix("Invalid value: ")
        elif isinstance(error, OSError) and error.errno in _NO_ROOM:
            _give_up_output()
            message = f"{error.filename or 'the output'}: cannot be written ({error.strerror})"
        elif isinstance(error, MemoryError):
            message = f"not enough memory: {error}"
        else:
            message = self.explain(error)
        return None if message is None else " ".join(message.splitlines())


def _give_up_output() -> None:
    """Standard output cannot be written: do not fail again at exit."""
    sys.stdout = None


def _not_loaded() -> None:
    """Stands in the list of commands for one that is not called."""
