"""The engine compiles itself on first use, for a minute or so: say so rather than seem to hang."""

from __future__ import annotations

from rich.console import Console

from ..envs.sim.engine import compile_engine
from ..envs.sim.kernel import is_compiled


def compile_with_notice() -> None:
    """Compiles the engine if this machine has not done so yet, with a line on standard error."""
    if is_compiled():
        return
    console = Console(stderr=True)
    notice = "Compiling the engine (once on this machine; a minute or so) ..."
    if console.is_terminal:
        with console.status(notice):
            compile_engine()
    else:
        console.print(notice)
        compile_engine()
