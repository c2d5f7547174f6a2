"""The token stands in the request and nowhere else, whatever goes wrong."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import replace

import pytest
import requests
import urllib3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatepilot.deploy_bridge.metrics.failures import failure_words
from gatepilot.deploy_bridge.metrics.prometheus import PrometheusSource
from gatepilot.deploy_bridge.metrics.query import Query
from gatepilot.deploy_bridge.metrics.source import Reading

from .asking import NOW, good, kinds, params
from .peers import Reply, free_port, scripted

SECRET = "sEcReT-3f9a"  # noqa: S105
QUOTE = f"Invalid leading whitespace in header value: 'Bearer {SECRET}'"


def source(url: str, queries: tuple[Query, ...], token: str = SECRET) -> PrometheusSource:
    return PrometheusSource(replace(params(url), bearer_token=token), queries)


def shown(reading: Reading) -> str:
    return repr(reading)


@pytest.mark.parametrize("end", ["", "\n", "\r\n", " \n\n"])
def test_a_token_out_of_a_file_is_sent_without_its_newline(
    queries: tuple[Query, ...], end: str
) -> None:
    with scripted(good()) as server:
        asked = source(server.url, queries, SECRET + end)
        assert asked.read(NOW).problems == ()
        assert server.headers[0]["Authorization"] == f"Bearer {SECRET}"
        asked.close()


def subclasses(kind: type[BaseException]) -> set[type[BaseException]]:
    return {kind}.union(*(subclasses(one) for one in kind.__subclasses__()))


EXCEPTIONS = sorted(
    {
        kind
        for root in (requests.RequestException, OSError, ValueError, http.client.HTTPException)
        for kind in subclasses(root)
        if kind.__module__.partition(".")[0] in ("requests", "builtins", "http", "ssl", "socket")
    }
    | {
        RuntimeError,
        AttributeError,
        KeyError,
        TypeError,
        MemoryError,
        urllib3.exceptions.HTTPError,
    },
    key=lambda kind: f"{kind.__module__}.{kind.__qualname__}",
)


def made(kind: type[BaseException]) -> BaseException:
    """One that says the secret, also where the constructor wants more than a text."""
    error = kind.__new__(kind)
    error.args = (QUOTE,)
    return error


@pytest.mark.parametrize("kind", EXCEPTIONS, ids=lambda kind: kind.__name__)
def test_no_exception_s_text_reaches_a_reading(
    kind: type[BaseException], queries: tuple[Query, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise made(kind)

    monkeypatch.setattr(requests.Session, "request", fail)
    asked = source("http://127.0.0.1:9", queries)
    reading = asked.read(NOW)
    entries = asked.probe(NOW)
    assert [problem.kind for problem in reading.problems] == ["unreachable"]
    for text in (shown(reading), repr(entries)):
        assert SECRET not in text
        assert "Bearer" not in text
    assert len(reading.problems[0].detail.splitlines()) == 1


def test_what_a_server_echoes_is_quoted_without_the_token(queries: tuple[Query, ...]) -> None:
    echo = f"you sent Bearer {SECRET} \x1b[31m"
    error = {"status": "error", "errorType": "bad_data", "error": echo}
    replies: list[Reply] = [
        (400, json.dumps(error).encode()),
        (401, echo.encode()),
        (503, json.dumps(error).encode()),
        (200, echo.encode()),
    ]
    body = json.loads(good()("rate{}", NOW)[1])
    replies.append((200, json.dumps({**body, "warnings": [echo]}).encode()))
    for reply in replies:
        with scripted(good({"rate{}": reply})) as server:
            asked = source(server.url, queries)
            reading, entries = asked.read(NOW), asked.probe(NOW)
            asked.close()
        assert reading.problems
        for text in (shown(reading), repr(entries)):
            assert SECRET not in text
            assert "\\x1b" not in text


def test_a_refused_connection_is_named_by_place_and_kind(queries: tuple[Query, ...]) -> None:
    place = f"127.0.0.1:{free_port()}"
    reading = source(f"http://{place}", queries).read(NOW)
    assert kinds(reading) == [("unreachable", "gateway_up")]
    assert reading.problems[0].detail == f"{place}: Connection refused"


def test_tls_without_tls(queries: tuple[Query, ...]) -> None:
    with scripted(good()) as server:
        reading = source(server.url.replace("http:", "https:"), queries).read(NOW)
    assert kinds(reading) == [("unreachable", "gateway_up")]
    assert "no TLS connection" in reading.problems[0].detail


texts = st.text(max_size=20).map(lambda text: f"{text}{SECRET}")
leaves = st.one_of(
    st.sampled_from([OSError, ValueError, RuntimeError, http.client.BadStatusLine]).flatmap(
        texts.map
    ),
    st.tuples(st.integers(1, 130), texts).map(lambda pair: OSError(*pair)),
    texts.map(lambda text: ssl.SSLError(1, text)),
)
chains = st.recursive(
    leaves,
    lambda inner: st.tuples(inner, texts).map(
        lambda pair: requests.ConnectionError(pair[1], pair[0])
    ),
    max_leaves=4,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(error=chains)
def test_words_quote_nothing(error: Exception) -> None:
    words = failure_words(error)
    assert words
    assert SECRET not in words
