"""The bridge's own pages on loopback: /metrics, /healthz, /state. They show; they take no verb.

A page of the web that has its own name resolved to this machine (DNS rebinding) could read them in
an operator's browser. Its requests name it in `Host`, so only loopback names are answered.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from .errors import ControlError
from .values import is_loopback

_PATIENCE_S: Final = 2.0
"""Seconds a client may be idle before its request is there."""
_MOST_CONNECTIONS: Final = 64
"""At once; more are closed, because each takes a thread and a file descriptor from the loop."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What the pages show, asked anew for each request."""

    metrics: Callable[[], bytes]
    """Prometheus' text format."""
    metrics_type: str
    """Its content type."""
    state: Callable[[], dict[str, Any]]
    """What `status` shows."""
    is_alive: Callable[[], bool]
    """Whether ticks are happening."""


class Pages:
    """The server; it runs in threads of its own."""

    def __init__(self, host: str, port: int, shown: Shown) -> None:
        """Binds, so that a taken port is known before the first tick.

        Raises:
            ControlError: The port is taken or not allowed.
        """
        try:
            self._server = _Server((host, port), _handler(shown))
        except OSError as error:
            msg = f"serve: {host}:{port}: {error.strerror}; set another port, or 0 for a free one"
            raise ControlError(msg) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="pages", daemon=True
        )

    @property
    def address(self) -> str:
        """Where they are, e.g. `http://127.0.0.1:9109`."""
        host, port = self._server.server_address[:2]
        name = host.decode() if isinstance(host, bytes) else host
        return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stops answering and frees the port."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = _MOST_CONNECTIONS

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._room = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  # as the library has it
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  # as the library has it
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401  # as the library has it
        if not isinstance(sys.exception(), OSError):  # a client that left is no fault of ours
            super().handle_error(request, client_address)


def _handler(shown: Shown) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE_S
        server_version = "gatepilot-bridge"
        sys_version = ""

        def do_GET(self) -> None:  # the name that the library calls
            if not _names_loopback(self.headers.get_all("Host", [])):
                text = b"Host should be 127.0.0.1, [::1] or localhost\n"
                self._send(HTTPStatus.FORBIDDEN, "text/plain; charset=utf-8", text)
                return
            match self.path.partition("?")[0]:
                case "/metrics":
                    self._send(HTTPStatus.OK, shown.metrics_type, shown.metrics())
                case "/healthz":
                    alive = shown.is_alive()
                    status = HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE
                    text = b"ok\n" if alive else b"no tick for too long\n"
                    self._send(status, "text/plain; charset=utf-8", text)
                case "/state":
                    text = json.dumps(shown.state(), allow_nan=False).encode()
                    self._send(HTTPStatus.OK, "application/json", text)
                case _:
                    self._send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"not found\n")

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not logged."""

        def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _names_loopback(hosts: list[str]) -> bool:
    """Whether the one `Host` of a request names this machine alone; the port does not matter."""
    if len(hosts) != 1 or "@" in hosts[0]:
        return False
    try:
        return is_loopback(urlsplit(f"//{hosts[0]}").hostname or "")
    except ValueError:
        return False
