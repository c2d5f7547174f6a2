"""Work that must be over in time, whatever a peer does.

Socket timeouts bound a single wait, not an answer that comes byte by byte or a name server that
says nothing. So the work runs in a thread, and who is late is left behind: it may end by itself,
its result is thrown away, and until it has ended nothing new is begun.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class LateError(Exception):
    """The time was over before the work was."""


class _Outcome(Generic[T]):
    """What the thread leaves."""

    value: T
    error: Exception | None = None


class Deadline:
    """Runs one piece of work at a time, each with the same time.

    Args:
        name: Name of the thread.
        seconds: Time for one piece of work.
    """

    def __init__(self, name: str, seconds: float) -> None:
        self._name = name
        self._seconds = seconds
        self._left_behind: threading.Thread | None = None

    def run(self, work: Callable[[threading.Event], T]) -> T:
        """Returns what the work returns, or raises what it raises.

        Args:
            work: Gets an event that is set when nobody waits any more.

        Raises:
            LateError: The time is over, or the work before this one has not ended yet.
        """
        if self._left_behind is not None and self._left_behind.is_alive():
            msg = f"an earlier read has not ended yet; each has {self._seconds:g} s"
            raise LateError(msg)
        outcome: _Outcome[T] = _Outcome()
        given_up = threading.Event()

        def body() -> None:
            try:
                outcome.value = work(given_up)
            except Exception as error:  # raised again where it is waited for
                outcome.error = error

        thread = threading.Thread(target=body, name=self._name, daemon=True)
        thread.start()
        thread.join(self._seconds)
        if thread.is_alive():
            given_up.set()
            self._left_behind = thread
            msg = f"no complete answer within {self._seconds:g} s"
            raise LateError(msg)
        if outcome.error is not None:
            raise outcome.error
        return outcome.value
