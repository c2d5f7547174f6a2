"""Replicas that fail by the script, the requests that reach them, and Envoy's own log of events.

Plain HTTP/1.1 over asyncio's streams: five scripts at once, on a machine that does other things
too, must cost next to nothing, or requests slip out of their interval.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from ..testbed.binaries import LOOPBACK
from ..testbed.envoy_config import UPSTREAM_HEADER
from .failure_script import fails

_LANES: Final = 8
"""Requests under way at once."""
_END: Final = b"\r\n\r\n"
_GOOD: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 0" + _END
_ERROR: Final = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0" + _END
_REQUEST: Final = b"GET / HTTP/1.1\r\nhost: llm" + _END


class DisturbedRunError(ValueError):
    """A run that proves nothing: this machine was too busy to keep its rhythm."""


class ScriptedReplica:
    """Answers 200 or 503, by the script."""

    def __init__(self) -> None:
        """A replica that does not listen yet and is healthy."""
        self._percent = 0
        self._answered = 0

    def begin(self, percent: int) -> None:
        """From here on this share of the answers fails, counted anew."""
        self._percent, self._answered = percent, 0

    async def listen(self, port: int, stack: AsyncExitStack) -> None:
        """Listens until the stack unwinds."""
        server = await asyncio.start_server(self._serve, LOOPBACK, port)
        stack.callback(server.close)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of Envoy's."""
        try:
            while True:
                await reader.readuntil(_END)
                self._answered += 1
                writer.write(_ERROR if fails(self._percent, self._answered) else _GOOD)
        except (asyncio.IncompleteReadError, ConnectionError):  # Envoy has closed it
            writer.close()


@dataclass(frozen=True, slots=True)
class Answer:
    """One request and what became of it."""

    sent_s: float
    """When it was sent, seconds since the epoch."""
    answered_s: float
    """When the answer was here: by then Envoy has counted it."""
    replica: int
    """Number of the replica that answered."""
    is_failure: bool
    """Whether it was an error."""


class ScriptedLoad:
    """Requests through one Envoy, over connections that stay."""

    def __init__(self, port: int, addresses: Mapping[str, int]) -> None:
        """A load without connections.

        Args:
            port: Where Envoy listens.
            addresses: Address and port of each replica, to its number.
        """
        self.answers: list[Answer] = []
        self._port = port
        self._numbers = {address.encode(): number for address, number in addresses.items()}
        self._lanes: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def connect(self, stack: AsyncExitStack) -> None:
        """Opens the connections, until the stack unwinds."""
        for _ in range(_LANES):
            lane = await asyncio.open_connection(LOOPBACK, self._port)
            stack.callback(lane[1].close)
            self._lanes.append(lane)

    async def send(self, requests: int) -> None:
        """Sends so many requests and waits for the answers."""
        shares = [len(range(lane, requests, _LANES)) for lane in range(_LANES)]
        await asyncio.gather(*map(self._send, self._lanes, shares))

    async def _send(
        self, lane: tuple[asyncio.StreamReader, asyncio.StreamWriter], requests: int
    ) -> None:
        """Some requests, one after the other."""
        reader, writer = lane
        for _ in range(requests):
            sent_s = time.time()
            writer.write(_REQUEST)
            head = await reader.readuntil(_END)
            answered_s = time.time()
            fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
            replica = self._numbers.get(fields.get(UPSTREAM_HEADER.encode(), b""))
            if replica is None:
                msg = f"Envoy answered by itself: {head[:80]!r}"
                raise DisturbedRunError(msg)
            is_failure = not head.startswith(b"HTTP/1.1 200")
            self.answers.append(Answer(sent_s, answered_s, replica, is_failure))


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """A replica taken out or let in, as Envoy logged it."""

    at_s: float
    """When, seconds since the epoch."""
    replica: int
    """Number of the replica."""
    is_out: bool
    """Whether it was taken out."""


class EventLog:
    """Envoy's log of ejections and returns, while it grows."""

    def __init__(self, path: Path, addresses: Mapping[str, int]) -> None:
        """A log that may not be there yet.

        Args:
            path: Its file.
            addresses: Address and port of each replica, to its number.
        """
        self._path = path
        self._addresses = addresses
        self._read = 0
        self._events: list[LoggedEvent] = []

    def events(self) -> Sequence[LoggedEvent]:
        """All events so far that changed something, in the order of the log."""
        if self._path.is_file():
            with self._path.open("rb") as file:
                file.seek(self._read)
                fresh = file.read()
            whole = fresh[: fresh.rfind(b"\n") + 1]
            self._read += len(whole)
            self._events += [event for line in whole.splitlines() for event in self._parsed(line)]
        return self._events

    def _parsed(self, line: bytes) -> list[LoggedEvent]:
        """The event of a line; none where Envoy only says whom it would have taken out."""
        event = json.loads(line)
        is_out = event["action"] == "EJECT"
        if is_out and not event["enforced"]:
            return []
        at_us = np.datetime64(event["timestamp"].rstrip("Z"), "us").astype(np.int64)
        return [LoggedEvent(int(at_us) / 1e6, self._addresses[event["upstream_url"]], is_out)]
