"""The source against a server that says everything a server can say wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatepilot.deploy_bridge.metrics.query import Query

from .asking import NOW, good, kinds, read
from .peers import Reply, ScriptedServer, said, scripted, vector


def test_a_good_read(queries: tuple[Query, ...]) -> None:
    with scripted(good()) as server:
        reading, _ = read(server.url, queries)
        assert dict(reading.values) == {"request_rate_rps": 20.0, "error_rate": 0.02}
        assert reading.problems == ()
        assert [(s.name, s.query, s.value) for s in reading.samples] == [
            ("gateway_up", "up{}", 1.0),
            ("gateway_age_s", "age{}", 3.5),
            ("request_rate_rps", "rate{}", 20.0),
            ("error_rate", "errors{}", 0.02),
        ]
        assert len(server.connections) == 1
        assert {method for method, _ in server.asked} == {"GET"}


def test_all_queries_are_evaluated_at_the_first_answer_s_instant(
    queries: tuple[Query, ...],
) -> None:
    with scripted(good()) as server:
        read(server.url, queries)
        assert ["time=" in path for _, path in server.asked] == [False, True, True, True]
        assert all(f"time={NOW:.3f}" in path for _, path in server.asked[1:])


def test_a_failed_check_of_freshness_ends_the_belief(queries: tuple[Query, ...]) -> None:
    with scripted(good({"up{}": "0"})) as server:
        reading, _ = read(server.url, queries)
        assert reading.values == {}
        assert kinds(reading) == [("stale", "gateway_up")]
        assert len(server.asked) == 2  # both checks, no field


@pytest.mark.parametrize("empty", ["up{}", "age{}"])
def test_a_prometheus_of_another_gateway(queries: tuple[Query, ...], empty: str) -> None:
    with scripted(good({empty: said([])})) as server:
        reading, _ = read(server.url, queries)
    assert reading.values == {}
    assert [problem.kind for problem in reading.problems] == ["missing"]
    assert "this gateway?" in reading.problems[0].detail


@pytest.mark.parametrize(
    ("query", "reply", "expected"),
    [
        ("rate{}", said([]), [("missing", "request_rate_rps")]),
        ("errors{}", said([]), []),
        ("rate{}", said(vector("NaN", at_s=NOW)), [("not_finite", "request_rate_rps")]),
        ("errors{}", said(vector("NaN", at_s=NOW)), []),
        ("errors{}", said(vector("+Inf", at_s=NOW)), []),
        ("errors{}", said(vector(0, 1, at_s=NOW)), [("ambiguous", "error_rate")]),
        ("errors{}", said(vector("1.2", at_s=NOW)), [("out_of_range", "error_rate")]),
        ("errors{}", said(vector("0.1", at_s=NOW - 60)), [("stale", "error_rate")]),
        ("errors{}", said(None), [("unreachable", "error_rate")]),
        ("errors{}", (200, b'{"status":"success"}'), [("unreachable", "error_rate")]),
        ("errors{}", (200, b'{"data":null}'), [("unreachable", "error_rate")]),
        ("errors{}", (200, b"[]"), [("unreachable", "error_rate")]),
        ("errors{}", (200, b"3"), [("unreachable", "error_rate")]),
        ("errors{}", (200, b"<html>"), [("unreachable", "error_rate")]),
        ("errors{}", (200, b""), [("unreachable", "error_rate")]),
        ("errors{}", (200, b"\xff\xfe\x00"), [("unreachable", "error_rate")]),
        ("errors{}", (200, b"[" * 100_000), [("unreachable", "error_rate")]),
        ("errors{}", (200, b"0" * (1 << 21)), [("unreachable", "error_rate")]),
        ("errors{}", (302, b""), [("unreachable", "error_rate")]),
        ("errors{}", (400, b"parse error"), [("unreachable", "error_rate")]),
        ("errors{}", (401, b""), [("unreachable", "error_rate")]),
        ("errors{}", (500, b"no"), [("unreachable", "error_rate")]),
        ("errors{}", (503, b"starting"), [("unreachable", "error_rate")]),
    ],
)
def test_one_bad_answer(
    queries: tuple[Query, ...], query: str, reply: Reply, expected: list[tuple[str, str]]
) -> None:
    with scripted(good({query: reply})) as server:
        reading, _ = read(server.url, queries)
    assert kinds(reading) == expected
    wanted = {"request_rate_rps": 20.0, "error_rate": 0.02}
    wanted.pop("request_rate_rps" if query == "rate{}" else "error_rate")
    assert dict(reading.values) == wanted
    assert all("\n" not in problem.detail for problem in reading.problems)


def test_a_bad_query_leaves_the_others_asked_and_a_bad_server_does_not(
    queries: tuple[Query, ...],
) -> None:
    with scripted(good({"rate{}": (422, b"too many samples")})) as server:
        read(server.url, queries)
        assert len(server.asked) == 4
    with scripted(good({"rate{}": (502, b"")})) as server:
        read(server.url, queries)
        assert len(server.asked) == 3


def test_warnings_are_a_problem_and_infos_are_not(queries: tuple[Query, ...]) -> None:
    doubtful = said(vector("20", at_s=NOW), warnings=["a remote read failed"], infos=["a name"])
    with scripted(good({"rate{}": doubtful})) as server:
        reading, _ = read(server.url, queries)
    assert [(p.kind, p.what, p.detail) for p in reading.problems] == [
        ("warning", "request_rate_rps", "a remote read failed")
    ]


def test_a_warning_belongs_to_its_own_query(queries: tuple[Query, ...]) -> None:
    doubtful = said(vector("20", at_s=NOW), warnings=["doubt"])
    with scripted(good({"rate{}": doubtful, "errors{}": (200, b"{}")})) as server:
        reading, _ = read(server.url, queries)
    assert kinds(reading) == [("warning", "request_rate_rps"), ("unreachable", "error_rate")]


@pytest.mark.parametrize("off_s", [-60.0, 60.0])
def test_a_clock_that_differs_or_an_answer_out_of_a_cache(
    queries: tuple[Query, ...], off_s: float
) -> None:
    with scripted(good({"up{}": said(vector(1, at_s=NOW + off_s))})) as server:
        reading, _ = read(server.url, queries)
    assert reading.values == {}
    assert ("stale", "clock") in kinds(reading)


replies = st.one_of(
    st.sampled_from(["1", "0.5", "0", "-1", "NaN", "+Inf", "1e400", "x", ""]).map(
        lambda text: said(vector(text, at_s=NOW))
    ),
    st.sampled_from(
        [
            said([]),
            said(vector(0, 1, at_s=NOW)),
            said(vector("0.5", at_s=NOW - 100)),
            said(vector("0.5", at_s=NOW), warnings=["doubt"]),
            said(None),
            (200, b"{}"),
            (200, b"garbage"),
            (404, b""),
            (422, b""),
            (500, b""),
        ]
    ),
)


@pytest.fixture(scope="module")
def script() -> dict[str, Reply]:
    return {}


@pytest.fixture(scope="module")
def server(script: dict[str, Reply]) -> Iterator[ScriptedServer]:
    with scripted(lambda query, _: script[query]) as running:
        yield running


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(answers=st.tuples(replies, replies, replies, replies))
def test_no_sequence_of_answers_makes_a_missing_value_a_number(
    answers: tuple[Reply, ...],
    queries: tuple[Query, ...],
    script: dict[str, Reply],
    server: ScriptedServer,
) -> None:
    script.update(zip((query.text for query in queries), answers, strict=True))
    reading, _ = read(server.url, queries)
    given_values = {}
    for query, (status, body) in zip(queries, answers, strict=True):
        try:
            result = json.loads(body)["data"]["result"] if status == 200 else []
        except (ValueError, KeyError):
            continue
        if result and len(result) == 1 and query.kind == "field":
            given_values[query.name] = result[0]["value"][1]
    for name, value in reading.values.items():
        assert value == float(given_values[name])
    if not reading.problems:  # then all checks held, and what is critical is there
        assert [script["up{}"], "request_rate_rps" in reading.values] == [
            said(vector("1", at_s=NOW)),
            True,
        ]
