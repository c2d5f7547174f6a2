"""The engine compiles itself on first use, for a minute or so: say so rather than seem to hang."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from ..envs.sim.closed_loop import compile_closed_loop
from ..envs.sim.engine import compile_engine
from ..envs.sim.kernel import is_compiled


def compile_with_notice() -> None:
    """Compiles the engine if this machine has not done so yet, with a line on standard error."""
    if not is_compiled("gateways.tick_many"):
        _compile(compile_engine)


def compile_closed_loop_with_notice() -> None:
    """The same for closed loops, which are a kernel of their own."""
    if not is_compiled("closed_loop.run_clients"):
        _compile(compile_closed_loop)


def _compile(compile_it: Callable[[], None]) -> None:
    console = Console(stderr=True)
    notice = "Compiling the engine (once on this machine; a minute or so) ..."
    if console.is_terminal:
        with console.status(notice):
            compile_it()
    else:
        console.print(notice)
        compile_it()
