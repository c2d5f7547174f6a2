"""The control socket: how an operator's command reaches a running bridge.

A Unix socket with mode 0600 beside the ledger. One JSON line each way. The operator is whom the
kernel names as the peer (SO_PEERCRED): the bridge's own user or root, nobody else. One thread hears
all connections at once, so that idle ones keep nobody waiting.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .decision import Content
from .errors import BridgeError, ControlError

_LOG: Final = logging.getLogger("gatepilot.bridge")
_OWNER_ONLY: Final = 0o600
_PATIENCE_S: Final = 2.0
"""Seconds for one request or answer."""
_IDLE_S: Final = 1.0
"""Seconds until a connection's whole request is there, or it is closed."""
_PAUSE_S: Final = 0.05
"""Seconds until the next try, where a connection could not be had."""
_MOST_CONNECTIONS: Final = 64
"""At once; where more come, the oldest is closed: the loop needs file descriptors too."""
_MOST_BYTES: Final = 1 << 20
"""Of a request or an answer."""
_PART_BYTES: Final = 1 << 16
_CREDENTIALS: Final = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class Peer:
    """Who asks."""

    pid: int
    uid: int


Answerer = Callable[[Mapping[str, Any], Peer], Content]
"""Answers one verb; raises BridgeError to refuse."""


@dataclass(slots=True)
class _Asking:
    """A connection whose request is not all there yet."""

    connection: socket.socket
    until_s: float
    """Monotonic time at which it is closed."""
    received: bytes = b""


class ControlServer:
    """Answers operators in a thread of its own: whose request is there first is answered first."""

    def __init__(self, path: Path, verbs: Mapping[str, Answerer]) -> None:
        """Binds the socket. A stale one of a bridge that was killed is replaced.

        Args:
            path: The socket; the caller holds the writer's lock of its folder.
            verbs: What can be asked.

        Raises:
            ControlError: The socket cannot be made.
        """
        self._path, self._verbs = path, verbs
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            path.unlink(missing_ok=True)
            with _short(path) as short:
                self._socket.bind(short)
            path.chmod(_OWNER_ONLY)  # before listen: nobody can have connected
            self._socket.listen()
        except OSError as error:
            self._socket.close()
            raise ControlError(f"{path}: cannot be made ({error.strerror or error})") from error
        self._is_stopping = threading.Event()
        self._asking: dict[int, _Asking] = {}
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stops answering and removes the socket."""
        self._is_stopping.set()
        with suppress(OSError):  # nobody was waiting
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
        if self._thread.is_alive():
            self._thread.join()
        self._selector.close()
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def _serve(self) -> None:
        self._socket.setblocking(False)
        self._selector.register(self._socket, selectors.EVENT_READ)
        while not self._is_stopping.is_set():
            for key, _ in self._selector.select(_IDLE_S):
                if key.fileobj is self._socket:
                    self._accept()
                elif key.fd in self._asking:  # not closed in this round
                    self._hear(self._asking[key.fd])
            now_s = time.monotonic()
            for one in [one for one in self._asking.values() if one.until_s <= now_s]:
                self._drop(one)
        for one in list(self._asking.values()):
            self._drop(one)

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:
            if self._asking:  # out of descriptors, perhaps: make room
                self._drop(next(iter(self._asking.values())))
            self._is_stopping.wait(_PAUSE_S)
            return  # or the socket was shut down, or the peer has gone
        connection.setblocking(False)
        if len(self._asking) >= _MOST_CONNECTIONS:
            self._drop(next(iter(self._asking.values())))
        asking = _Asking(connection, time.monotonic() + _IDLE_S)
        self._asking[connection.fileno()] = asking
        self._selector.register(connection, selectors.EVENT_READ)

    def _hear(self, asking: _Asking) -> None:
        try:
            part = asking.connection.recv(_PART_BYTES)
            asking.received += part
            whole = asking.received.endswith(b"\n")
            if not whole and part and len(asking.received) <= _MOST_BYTES:
                return
            asking.connection.settimeout(_PATIENCE_S)
            self._answer(asking.connection, asking.received if whole else b"")
        except BlockingIOError:
            return
        except OSError:
            pass  # a peer that left or does not read
        self._drop(asking)

    def _drop(self, asking: _Asking) -> None:
        del self._asking[asking.connection.fileno()]
        self._selector.unregister(asking.connection)
        asking.connection.close()

    def _answer(self, connection: socket.socket, line: bytes) -> None:
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(raw)
        try:
            if uid not in (0, os.geteuid()):
                raise ControlError(f"user {uid} is neither root nor the bridge's own")
            request = _parsed(line)
            verb = request.get("verb")
            if not isinstance(verb, str) or verb not in self._verbs:
                known = ", ".join(self._verbs)
                raise ControlError(f"verb {verb!r}: expected one of {known}")
            answer: Content = {"answer": self._verbs[verb](request, Peer(pid, uid))}
        except BridgeError as error:
            answer = {"refused": str(error)}
        except Exception as error:  # a fault of ours: the next one is answered all the same
            _LOG.exception("fault in an answer")
            answer = {"refused": f"fault in the bridge: {type(error).__name__}: {error}"}
        connection.sendall(json.dumps(answer, allow_nan=False).encode() + b"\n")


def ask(path: Path, verb: str, **arguments: object) -> Content:
    """Asks a running bridge.

    Args:
        path: The socket.
        verb: What is asked.
        **arguments: Of the verb, as JSON content.

    Raises:
        ControlError: No bridge answers there, or it refuses.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, _short(path) as short:
            connection.settimeout(_PATIENCE_S)
            connection.connect(short)
            connection.sendall(json.dumps({"verb": verb, **arguments}).encode() + b"\n")
            answer = _parsed(_line(connection))
    except OSError as error:
        msg = f"{path}: no bridge answers ({error.strerror or error})"
        raise ControlError(msg) from error
    if "refused" in answer:
        raise ControlError(str(answer["refused"]))
    content = answer.get("answer")
    if not isinstance(content, dict):
        raise ControlError(f"{path}: not a bridge's answer")
    return content


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """The socket's path through its open folder: a socket's name must have under 108 bytes."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _line(connection: socket.socket) -> bytes:
    received = b""
    while not received.endswith(b"\n"):
        part = connection.recv(_PART_BYTES)
        received += part
        if not part or len(received) > _MOST_BYTES:
            raise ControlError("expected one line of JSON")
    return received


def _parsed(line: bytes) -> Content:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ControlError("expected one line of JSON") from error
    if not isinstance(content, dict):
        raise ControlError("expected a JSON object")
    return content
