"""The pages show, and take no verb."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import pytest

from gatepilot.deploy_bridge.errors import ControlError
from gatepilot.deploy_bridge.pages import Pages, Shown


@dataclass
class Told:
    """What the pages are given."""

    alive: bool = True


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def pages(told: Told) -> Iterator[Pages]:
    shown = Shown(lambda: b"up 1\n", "text/plain", lambda: {"mode": "NORMAL"}, lambda: told.alive)
    made = Pages("127.0.0.1", 0, shown)
    made.start()
    yield made
    made.stop()


def got(
    pages: Pages, path: str, method: str = "GET", headers: Mapping[str, str] | None = None
) -> tuple[int, str]:
    address = pages.address + path
    request = urllib.request.Request(address, method=method, headers=dict(headers or {}))  # noqa: S310  # our own
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_what_they_show(pages: Pages, told: Told) -> None:
    assert got(pages, "/metrics") == (200, "up 1\n")
    assert got(pages, "/healthz") == (200, "ok\n")
    status, text = got(pages, "/state?x=1")
    assert (status, json.loads(text)) == (200, {"mode": "NORMAL"})
    told.alive = False
    assert got(pages, "/healthz")[0] == 503
    assert got(pages, "/")[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_they_take_no_verb(pages: Pages, method: str) -> None:
    for path in ("/state", "/metrics", "/healthz"):
        assert got(pages, path, method)[0] == 501


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9109", "127.0.0.1", "127.0.0.1:80", "127.9.9.9", "[::1]:9109"]
)
def test_loopback_names_are_answered(pages: Pages, host: str) -> None:
    assert got(pages, "/metrics", headers={"Host": host}) == (200, "up 1\n")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:9109",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "10.0.0.1",
        "0.0.0.0",  # noqa: S104  # refused
        "127.0.0.1@evil.example",
        "evil.example@127.0.0.1",
        "[::1",
        "",
    ],
)
def test_a_name_that_was_bent_to_this_machine_is_refused(pages: Pages, host: str) -> None:
    for path in ("/metrics", "/healthz", "/state", "/"):
        status, text = got(pages, path, headers={"Host": host})
        assert (status, text) == (403, "Host should be 127.0.0.1, [::1] or localhost\n")


@pytest.mark.parametrize("hosts", ["", "Host: localhost\r\nHost: evil.example\r\n"])
def test_a_request_names_one_host(pages: Pages, hosts: str) -> None:
    port = int(pages.address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(f"GET /state HTTP/1.0\r\n{hosts}\r\n".encode())
        assert b" 403 " in connection.recv(1 << 16).splitlines()[0]


def test_idle_connections_are_bounded(pages: Pages) -> None:
    port = int(pages.address.rpartition(":")[2])
    with ExitStack() as held:
        for _ in range(200):
            held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        time.sleep(0.2)
        assert threading.active_count() < 80
    end_s = time.monotonic() + 5
    while time.monotonic() < end_s:
        with suppress(OSError):
            assert got(pages, "/healthz") == (200, "ok\n")
            return
    raise AssertionError("no answer after the idle ones have gone")


def test_a_taken_port_is_named(pages: Pages) -> None:
    port = int(pages.address.rpartition(":")[2])
    shown = Shown(lambda: b"", "text/plain", dict, lambda: True)
    with pytest.raises(ControlError, match=f"serve: 127.0.0.1:{port}: Address already in use"):
        Pages("127.0.0.1", port, shown)


def test_a_stop_before_a_start_frees_the_port() -> None:
    shown = Shown(lambda: b"", "text/plain", dict, lambda: True)
    made = Pages("127.0.0.1", 0, shown)
    port = int(made.address.rpartition(":")[2])
    made.stop()
    again = Pages("127.0.0.1", port, shown)
    again.stop()
