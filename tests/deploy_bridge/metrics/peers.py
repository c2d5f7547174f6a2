"""Peers on loopback: a scripted server in Prometheus' place, exporters, and a real Prometheus."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

Reply = tuple[int, bytes]
"""Status and body."""


def vector(*values: object, at_s: float, labels: dict[str, str] | None = None) -> object:
    """`data.result` of an instant vector."""
    return [
        {"metric": {"n": str(i)} | (labels or {}), "value": [at_s, str(value)]}
        for i, value in enumerate(values)
    ]


def said(result: object, **more: object) -> Reply:
    """A success in Prometheus' shape."""
    data = {"resultType": "vector", "result": result}
    return 200, json.dumps({"status": "success", "data": data, **more}).encode()


class ScriptedServer:
    """Answers each GET with what a function of query and time says, and notes what was asked."""

    def __init__(self, answer: Callable[[str, float | None], Reply], port: int = 0) -> None:
        self.asked: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.connections: list[socket.socket] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # one packet an answer: two of them wait 40 ms for an acknowledgement

            def setup(self) -> None:
                super().setup()
                server.connections.append(self.request)

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                given = parse_qs(parts.query)
                query = given.get("query", [self.path])[0]
                server.asked.append((self.command, self.path))
                server.headers.append(dict(self.headers))
                at_s = float(given["time"][0]) if "time" in given else None
                status, body = answer(query, at_s)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def scripted(
    answer: Callable[[str, float | None], Reply], port: int = 0
) -> Iterator[ScriptedServer]:
    server = ScriptedServer(answer, port)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def raw_server(serve: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """Accepts, and leaves all the rest to a function that gets the socket and the end's event."""
    end = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []
    sockets: list[socket.socket] = []

    def accept() -> None:
        while not end.is_set():
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            sockets.append(peer)
            threads.append(threading.Thread(target=serve, args=(peer, end)))
            threads[-1].start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        end.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join()
        for peer in sockets:
            peer.close()
        for thread in threads:
            thread.join()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Exporter:
    """Serves lines of Prometheus' text format that a function makes anew for every scrape."""

    def __init__(self, text: Callable[[], str]) -> None:
        self.text = text
        self._server = ScriptedServer(lambda *_: (200, self.text().encode()))
        self.address = urlsplit(self._server.url).netloc

    def close(self) -> None:
        self._server.close()


def needs(program: str) -> str:
    """Path of a program beside this Python or on the PATH; without it the test is skipped."""
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    path = shutil.which(program, path=os.pathsep.join(places))
    if path is None:
        pytest.skip(f"{program} is neither beside {sys.executable} nor on the PATH")
    return path


class RealPrometheus:
    """A Prometheus of its own in a folder; each job's targets may be added to."""

    SCRAPE_S = 0.5

    def __init__(self, folder: Path, targets: dict[str, list[str]]) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self._folder = folder
        self._log = (folder / "log").open("wb")
        jobs = []
        for job, addresses in targets.items():
            self.add_targets(job, [])
            found = [{"files": [f"{folder}/{job}.json"]}]
            static = [{"targets": addresses}]
            jobs.append({"job_name": job, "static_configs": static, "file_sd_configs": found})
        config = {
            "global": {"scrape_interval": "500ms", "scrape_timeout": "400ms"},
            "scrape_configs": jobs,
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))
        self.process = subprocess.Popen(  # noqa: S603
            [
                needs("prometheus"),
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address={self.url.removeprefix('http://')}",
            ],
            stdout=self._log,
            stderr=self._log,
        )
        self._wait_ready()

    def add_targets(self, job: str, addresses: list[str]) -> None:
        fresh = self._folder / f"{job}.tmp"
        fresh.write_text(json.dumps([{"targets": addresses}]))
        fresh.rename(self._folder / f"{job}.json")

    def ask(self, query: str) -> list[dict[str, Any]]:
        """`data.result`, past the code under test."""
        text = requests.get(f"{self.url}/api/v1/query", {"query": query}, timeout=5).text
        result: list[dict[str, Any]] = json.loads(text)["data"]["result"]
        return result

    def wait_for(self, query: str) -> None:
        """Waits until a query has a sample."""
        for _ in range(150):
            if self.ask(query):
                return
            time.sleep(0.05)
        pytest.fail(f"still no sample: {query}")

    def _wait_ready(self) -> None:
        for _ in range(200):
            with suppress(requests.RequestException):
                if requests.get(f"{self.url}/-/ready", timeout=1).ok:
                    return
            time.sleep(0.05)
        self.close()
        pytest.fail((self._folder / "log").read_text()[-2000:])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._log.close()
