"""The source against silence, resets, endless answers and servers that come and go."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable

import pytest

from gatepilot.deploy_bridge.metrics.prometheus import PrometheusSource
from gatepilot.deploy_bridge.metrics.query import Query

from .asking import NEVER_S, NOW, good, kinds, params, read
from .peers import Reply, free_port, raw_server, scripted


def test_nobody_listens(queries: tuple[Query, ...]) -> None:
    reading, _ = read(f"http://127.0.0.1:{free_port()}", queries)
    assert kinds(reading) == [("unreachable", "gateway_up")]
    assert reading.problems[0].detail.endswith("Connection refused")


def silent(_: socket.socket, end: threading.Event) -> None:
    end.wait()


def drips(head: bytes) -> Callable[[socket.socket, threading.Event], None]:
    """A byte at a time, each in time for every socket timeout, for ever."""

    def serve(peer: socket.socket, end: threading.Event) -> None:
        try:
            peer.sendall(head)
            while not end.wait(0.05):
                peer.sendall(b" ")
        except OSError:
            pass

    return serve


LONG = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"


def test_a_black_hole_is_left_in_time(queries: tuple[Query, ...]) -> None:
    with raw_server(silent) as url:
        reading, took_s = read(url, queries)
        assert kinds(reading) == [("unreachable", "gateway_up")]
        assert took_s < NEVER_S
        reading, took_s = read(url, queries, 2 * NEVER_S)
        assert kinds(reading) == [("deadline", "prometheus")]
        assert took_s < NEVER_S


def test_a_reset_is_not_tried_again(queries: tuple[Query, ...]) -> None:
    tries = []

    def reset(peer: socket.socket, _: threading.Event) -> None:
        tries.append(peer)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()

    with raw_server(reset) as url:
        reading, _ = read(url, queries)
    assert kinds(reading) == [("unreachable", "gateway_up")]
    assert len(tries) == 1


@pytest.mark.parametrize("head", [LONG, b"HTTP/1.1 200 OK\r\nX: "], ids=["body", "headers"])
def test_an_answer_byte_by_byte_is_left_in_time(queries: tuple[Query, ...], head: bytes) -> None:
    with raw_server(drips(head)) as url:
        source = PrometheusSource(params(url), queries)
        for _ in range(2):  # the second is not even begun
            begun = time.monotonic()
            reading = source.read(NOW)
            assert time.monotonic() - begun < NEVER_S
            assert kinds(reading) == [("deadline", "prometheus")]
            assert reading.values == {}
        assert sum(thread.name == "prometheus" for thread in threading.enumerate()) == 1
        source.close()
    wait_for_threads()


def wait_for_threads() -> None:
    """The thread that was left behind ends with its connection."""
    for _ in range(100):
        if not any(thread.name == "prometheus" for thread in threading.enumerate()):
            return
        time.sleep(0.02)
    pytest.fail("a thread outlives its server")


def test_a_slow_server_is_trusted_again_when_it_is_quick(queries: tuple[Query, ...]) -> None:
    slow = threading.Event()

    def answer(query: str, at_s: float | None) -> Reply:
        if not slow.is_set():
            time.sleep(0.3)
        return good()(query, at_s)

    with scripted(answer) as server:
        source = PrometheusSource(params(server.url), queries)
        assert kinds(source.read(NOW)) == [("deadline", "prometheus")]
        slow.set()
        time.sleep(0.4)
        assert source.read(NOW).problems == ()
        source.close()


def test_a_server_that_comes_back_is_found_again(queries: tuple[Query, ...]) -> None:
    with scripted(good()) as server:
        source = PrometheusSource(params(server.url), queries)
        assert source.read(NOW).problems == ()
        port = int(server.url.rpartition(":")[2])
    assert kinds(source.read(NOW)) == [("unreachable", "gateway_up")]
    with scripted(good(), port):
        assert source.read(NOW).problems == ()
    source.close()
