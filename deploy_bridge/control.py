"""The control socket: how an operator's command reaches a running bridge.

A Unix socket with mode 0600 beside the ledger. One JSON line each way. The operator is whom the
kernel names as the peer (SO_PEERCRED): the bridge's own user or root, nobody else.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .decision import Content
from .errors import BridgeError, ControlError

_OWNER_ONLY: Final = 0o600
_PATIENCE_S: Final = 2.0
"""Seconds for one request or answer."""
_MOST_BYTES: Final = 1 << 20
_CREDENTIALS: Final = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class Peer:
    """Who asks."""

    pid: int
    uid: int


Answerer = Callable[[Mapping[str, Any], Peer], Content]
"""Answers one verb; raises BridgeError to refuse."""


class ControlServer:
    """Answers operators in a thread of its own, one after the other."""

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
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stops answering and removes the socket."""
        self._is_stopping.set()
        with suppress(OSError):  # nobody was waiting
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes accept
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def _serve(self) -> None:
        while not self._is_stopping.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                continue  # the socket was shut down, or the peer has gone
            with connection:
                connection.settimeout(_PATIENCE_S)
                try:
                    self._answer(connection)
                except OSError:
                    continue  # a peer that left or fell silent

    def _answer(self, connection: socket.socket) -> None:
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(raw)
        try:
            if uid not in (0, os.geteuid()):
                raise ControlError(f"user {uid} is neither root nor the bridge's own")
            request = _parsed(_line(connection))
            verb = request.get("verb")
            if not isinstance(verb, str) or verb not in self._verbs:
                known = ", ".join(self._verbs)
                raise ControlError(f"verb {verb!r}: expected one of {known}")
            answer: Content = {"answer": self._verbs[verb](request, Peer(pid, uid))}
        except BridgeError as error:
            answer = {"refused": str(error)}
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
        part = connection.recv(1 << 16)
        received += part
        if not part or len(received) > _MOST_BYTES:
            raise ControlError("expected one line of JSON")
    return received


def _parsed(line: bytes) -> Content:
    try:
        content = json.loads(line)
    except ValueError as error:
        raise ControlError("expected one line of JSON") from error
    if not isinstance(content, dict):
        raise ControlError("expected a JSON object")
    return content
