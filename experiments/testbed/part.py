"""One part of a testbed: a process with a log file, tied to the launcher's life."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from .errors import LaunchError

_TIED: Final = Path(__file__).with_name("tied.py")
_POLL_S: Final = 0.05
"""Between two looks at whether a part is ready."""
_PROBE_S: Final = 1.0
"""Longest time one look may take."""
_KILLED_WITHIN_S: Final = 10.0
"""Time a killed process takes to be gone at most."""
_LONGEST_LINE: Final = 200
"""Characters of a log line that an error quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSpec:
    """What a part runs and how it shows that it is ready."""

    name: str
    """What messages call it."""
    command: tuple[str, ...]
    """Program and arguments."""
    log: Path
    """Where its output goes, errors included."""
    ready_url: str | None = None
    """Answers 200 once it is ready; None: ready at once."""
    ready_within_s: float = 30.0
    """Time it has for that."""
    grace_s: float = 5.0
    """Time it has to end by itself when it is told to."""
    is_piped: bool = False
    """Whether its standard output is read by the launcher rather than logged."""


class Part:
    """A process that ends with the launcher, even if that is killed."""

    def __init__(self, spec: PartSpec) -> None:
        """A part that is not started yet."""
        self.spec = spec
        self.is_ready = False
        self._process: asyncio.subprocess.Process | None = None

    @property
    def process(self) -> asyncio.subprocess.Process:
        """The process.

        Raises:
            LaunchError: It was never started.
        """
        if self._process is None:
            msg = f"{self.spec.name} has not been started"
            raise LaunchError(msg)
        return self._process

    @property
    def is_running(self) -> bool:
        """Whether there is a process that has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Starts the process in a session of its own: Ctrl-C reaches the launcher alone."""
        self.is_ready = False
        tied = (sys.executable, "-I", "-S", str(_TIED), str(os.getpid()))
        with self.spec.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *tied,
                *self.spec.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if self.spec.is_piped else log,
                stderr=log,
                start_new_session=True,
            )

    async def wait_ready(self, session: aiohttp.ClientSession) -> None:
        """Waits until it answers.

        Raises:
            LaunchError: It ended before, or takes too long.
        """
        if self.spec.ready_url is not None:
            deadline_s = asyncio.get_running_loop().time() + self.spec.ready_within_s
            while not await _answers(session, self.spec.ready_url):
                if not self.is_running:
                    raise LaunchError(self.obituary)
                if asyncio.get_running_loop().time() > deadline_s:
                    msg = (
                        f"{self.spec.name} is not ready after {self.spec.ready_within_s:g} s; "
                        f"log: {self.spec.log}"
                    )
                    raise LaunchError(msg)
                await asyncio.sleep(_POLL_S)
        self.is_ready = True

    async def stop(self) -> None:
        """Ends the process: asked first, killed after its grace."""
        self.is_ready = False
        if not self.is_running:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.process.wait(), self.spec.grace_s)
        except TimeoutError:
            self.process.kill()
            await asyncio.wait_for(self.process.wait(), _KILLED_WITHIN_S)

    @property
    def obituary(self) -> str:
        """How it ended, in one line with its log file; its last words unless a signal ended it."""
        code = self.process.returncode
        how = f"with {code}" if code is None or code >= 0 else f"by {signal.Signals(-code).name}"
        lines = self.spec.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        said = f": {lines[-1][:_LONGEST_LINE]}" if lines and (code or 0) > 0 else ""
        return f"{self.spec.name} ended {how}{said}; log: {self.spec.log}"

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the running process so far, 0 where there is none."""
        if not self.is_running:
            return 0.0
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii")
        except OSError:  # it ended just now
            return 0.0
        user, system = fields.rpartition(")")[2].split()[11:13]  # proc(5): utime, stime
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=_PROBE_S)) as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
