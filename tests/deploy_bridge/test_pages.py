"""The pages show, and take no verb."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
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


def got(pages: Pages, path: str, method: str = "GET") -> tuple[int, str]:
    request = urllib.request.Request(pages.address + path, method=method)  # noqa: S310  # our own
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
