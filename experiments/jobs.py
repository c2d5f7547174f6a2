"""Jobs spread over processes; in this one where there is one worker.

What a job finds must not depend on who does it: results come back in the order of the jobs. A job
keeps its own result on disk, so that what is done stays done when the rest is not: a failure names
its job and ends the others, Ctrl-C ends them all.

Processes are spawned: a fork would copy the engine's threads in whatever state they are. One job
after the other goes to whoever is free.
"""

from __future__ import annotations

import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, Final, Literal, Protocol, TypeVar

from ..agents.evaluation import Progress
from ..agents.tuning import Reporter
from .job_watcher import Watcher

_TOLD_EVERY_S: Final = 0.2
"""Seconds between two reports of a worker's ticks."""
_GRACE_S: Final = 10.0
"""Seconds that a worker has to leave; an iteration of the engine's loop takes far less."""

Done_co = TypeVar("Done_co", covariant=True)
Done = TypeVar("Done")


class Job(Protocol[Done_co]):
    """A piece of work that can be sent to another process."""

    @property
    def label(self) -> str:
        """Its name, for progress and errors."""
        ...

    def run(self, reporter: Reporter, threads: int | None) -> Done_co:
        """Does it.

        Args:
            reporter: Shows progress.
            threads: Threads for the engine; `None`: one a core.
        """
        ...


class JobRefusedError(ValueError):
    """A job met what the user can change: one line that names the job."""


class JobFailedError(RuntimeError):
    """A job met a fault of ours, or its process died; the message names the job."""


def run_jobs(jobs: Sequence[Job[Done]], *, workers: int, watcher: Watcher) -> list[Done]:
    """Does jobs.

    Args:
        jobs: What to do, in the order in which it is begun.
        workers: Processes to spread it over; with 1 this process does it all, on all its threads.
        watcher: Shows progress.

    Returns:
        Their results, in the order of the jobs.

    Raises:
        JobRefusedError: A job met what the user can change.
        JobFailedError: A job met something else, or its process died.
        MemoryError: A job found too little memory.
    """
    workers = min(workers, len(jobs))
    watcher.begin(len(jobs), workers)
    if workers > 1:
        return _spread(jobs, workers, watcher)
    return [_done_here(job, watcher) for job in jobs]


def _done_here(job: Job[Done], watcher: Watcher) -> Done:
    watcher.started(0, job.label)
    try:
        done = job.run(_Here(watcher), None)
    except Exception as error:
        raise _Failure.of(error).named(job.label) from error
    watcher.finished(0, job.label)
    return done


@dataclass(frozen=True)
class _Here:
    """Reports a job that is done in this process."""

    watcher: Watcher

    def start(self, what: str, ticks: int) -> Progress:
        self.watcher.piece(0, what, ticks)

        def advance(ticks: int) -> None:
            self.watcher.advanced(0, ticks)

        return advance


def _spread(jobs: Sequence[Job[Done]], workers: int, watcher: Watcher) -> list[Done]:
    results: dict[int, Done] = {}
    waiting = deque(enumerate(jobs))
    crew: list[_Worker] = []
    try:
        with _interrupts_ignored():  # those who are born now must not die of a Ctrl-C
            for number in range(workers):
                crew.append(_Worker(number, watcher))
        for worker in crew:
            worker.take(*waiting.popleft())
        while busy := {worker.connection: worker for worker in crew if worker.job is not None}:
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]  # only these were waited for
                place = worker.place
                if worker.has_done():
                    results[place] = worker.result
                    if waiting:
                        worker.take(*waiting.popleft())
    except BaseException:
        for worker in crew:
            worker.process.terminate()
        raise
    finally:
        for worker in crew:
            worker.dismiss()
    return [results[place] for place in range(len(jobs))]


class _Worker:
    """A process that does one job after the other, as its parent sees it."""

    def __init__(self, number: int, watcher: Watcher) -> None:
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.job: Job[Any] | None = None
        self.place = -1
        self.result: Any = None
        self._number = number
        self._watcher = watcher

    def take(self, place: int, job: Job[Any]) -> None:
        """Gives it a job, the one at a place among all."""
        self.place, self.job = place, job
        self._watcher.started(self._number, job.label)
        with suppress(BrokenPipeError):  # it has died: reading will tell
            self.connection.send(job)

    def has_done(self) -> bool:
        """Reads what it says next; whether that is its job's result.

        Raises:
            JobRefusedError: As in `run_jobs`, like the others.
        """
        label = "" if self.job is None else self.job.label
        try:
            kind, *content = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join(_GRACE_S)
            msg = f"{label}: its process died (exit code {self.process.exitcode})"
            raise JobFailedError(msg) from None
        match kind:
            case "piece":
                self._watcher.piece(self._number, *content)
            case "ticks":
                self._watcher.advanced(self._number, *content)
            case "failed":
                raise content[0].named(label)
            case _:
                self.job, (self.result,) = None, content
                self._watcher.finished(self._number, label)
                return True
        return False

    def dismiss(self) -> None:
        """Lets it go; one that does not leave in time is killed."""
        with suppress(OSError):
            self.connection.send(None)
        self.process.join(_GRACE_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.connection.close()


def _work(connection: Connection) -> None:
    """A worker's life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and says what to do
    signal.signal(signal.SIGTERM, _leave)
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the parent is gone
        while (job := connection.recv()) is not None:
            reporter = _Remote(connection)
            try:
                answer = ("done", job.run(reporter, 1))
            except (BrokenPipeError, ConnectionResetError):
                raise
            except Exception as error:
                answer = ("failed", _Failure.of(error))
            reporter.tell()
            connection.send(answer)


def _leave(number: int, frame: FrameType | None) -> None:
    """Ends a worker in the middle of its job, through whatever has to be tidied up."""
    del frame
    raise SystemExit(128 + number)


class _Remote:
    """Reports to the parent process, not too often."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._untold = 0
        self._told_at = time.monotonic()

    def start(self, what: str, ticks: int) -> Progress:
        self.tell()
        self._connection.send(("piece", what, ticks))
        return self._advance

    def tell(self) -> None:
        """Sends what has not been told yet."""
        if self._untold:
            self._connection.send(("ticks", self._untold))
        self._untold, self._told_at = 0, time.monotonic()

    def _advance(self, ticks: int) -> None:
        self._untold += ticks
        if time.monotonic() - self._told_at > _TOLD_EVERY_S:
            self.tell()


@dataclass(frozen=True)
class _Failure:
    """An error as it can be sent to another process."""

    kind: Literal["refused", "memory", "fault"]
    text: str

    @classmethod
    def of(cls, error: Exception) -> _Failure:
        """Ours say in one line what the user can change; of others the traceback is needed."""
        if isinstance(error, MemoryError):
            return cls("memory", str(error))
        if isinstance(error, ValueError) and type(error).__module__.startswith("gatepilot."):
            return cls("refused", str(error))
        return cls("fault", "".join(traceback.format_exception(error)))

    def named(self, label: str) -> Exception:
        """The error to raise, with the job's name in it."""
        if self.kind == "refused":
            return JobRefusedError(f"{label}: {self.text}")
        if self.kind == "memory":
            return MemoryError(f"{label}: {self.text}")
        return JobFailedError(f"{label}:\n{self.text}")


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Processes that are born meanwhile ignore Ctrl-C from their first moment on."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
