"""The start-up report: what each query brings, and why one brings nothing."""

from __future__ import annotations

import json

import pytest

from gatepilot.deploy_bridge.errors import AmbiguousDataError, SettingsError
from gatepilot.deploy_bridge.metrics.prometheus import PrometheusSource
from gatepilot.deploy_bridge.metrics.query import Query, field_query
from gatepilot.deploy_bridge.metrics.report import ProbeEntry, ProbeReport

from .asking import NOW, good, kinds, params
from .peers import Reply, free_port, said, scripted, vector


def test_the_report_asks_everything_and_names_renamed_metrics() -> None:
    kv = Query("kv_usage", 'avg(vllm:kv_cache_usage_perc{job="a"})', "field", 0, 1, False, "KV")
    running = Query("running", 'sum(vllm:num_requests_running{job="a"})', "field", 0, 9, False, "")
    idle = Query("error_rate", 'rate(vllm:idle{job="a"})', "field", 0, 1, False, "")
    up = Query("gateway_up", 'up{job="a"}', "freshness", 1, 1, True, "")

    def answer(query: str, _: float | None) -> Reply:
        labels = [{"__name__": "vllm:gpu_cache_usage_perc"}, {"__name__": "vllm:idle"}]
        labels.append({"__name__": "vllm:num_requests_running"})
        replies = {
            'up{job="a"}': said(vector(0, at_s=NOW)),
            'group by (__name__) ({__name__=~"vllm.*"})': said(
                [{"metric": label, "value": [NOW, "1"]} for label in labels]
            ),
            'count(vllm:idle{job="a"})': said(vector(4, at_s=NOW)),
        }
        if query.startswith("group by (job"):
            return said(vector(1, at_s=NOW, labels={"job": "b"}))
        return replies.get(query, said([]))

    with scripted(answer) as server:
        source = PrometheusSource(params(server.url), (up, kv, running, idle))
        entries = {entry.name: entry for entry in source.probe(NOW)}
        source.close()
    assert entries["gateway_up"].state == "stale"
    assert entries["kv_usage"].state == "missing"
    assert "similar: vllm:gpu_cache_usage_perc" in entries["kv_usage"].hint
    assert 'has no series that matches {job="a"}, only job=b' in entries["running"].hint
    assert entries["error_rate"].hint.startswith("its series are there")
    assert not ProbeReport(tuple(entries.values())).is_good


def test_two_series_end_the_start_and_later_only_the_tick(queries: tuple[Query, ...]) -> None:
    two = said(vector(1, 1, at_s=NOW, labels={"job": "envoy"}))
    with scripted(good({"up{}": two})) as server:
        source = PrometheusSource(params(server.url), queries)
        assert kinds(source.read(NOW))[0] == ("ambiguous", "gateway_up")
        report = ProbeReport(source.probe(NOW))
        source.close()
    with pytest.raises(AmbiguousDataError, match=r"^gateway_up: 2 series where one is expected"):
        report.refuse_wrong()


def test_the_report_of_a_server_that_is_not_there(queries: tuple[Query, ...]) -> None:
    source = PrometheusSource(params(f"http://127.0.0.1:{free_port()}"), queries)
    report = ProbeReport(source.probe(NOW))
    source.close()
    report.refuse_wrong()  # waiting may help: it is no reason to refuse the start
    assert [entry.state for entry in report.entries] == ["unreachable"]


def test_a_bare_name_in_an_override_gets_its_hint() -> None:
    running = field_query("running", "sum(vllm:num_request_running)")

    def answer(query: str, _: float | None) -> Reply:
        if query.startswith("group by (__name__)"):
            name = {"__name__": "vllm:num_requests_running"}
            return said([{"metric": name, "value": [NOW, "1"]}])
        return said([])

    with scripted(answer) as server:
        source = PrometheusSource(params(server.url), (running,))
        entry = source.probe(NOW)[0]
        source.close()
    assert entry.hint == ("no metric vllm:num_request_running, similar: vllm:num_requests_running")
    assert ProbeReport((entry,)).missing == ("running",)


def test_only_what_a_tick_can_do_without_is_merely_missing() -> None:
    entries = (
        ProbeEntry("p", "request_rate_rps", "missing", True, ""),
        ProbeEntry("p", "waiting", "missing", False, ""),
        ProbeEntry("p", "running", "ok", False, "", 1.0),
        ProbeEntry("p", "kv_usage", "missing", False, ""),
    )
    assert ProbeReport(entries).missing == ("waiting", "kv_usage")


PARSE_ERROR = 'invalid parameter "query": 1:5: parse error: unexpected <eof>'
REFUSALS = {
    "bad_data": (
        (400, json.dumps({"status": "error", "errorType": "bad_data", "error": PARSE_ERROR})),
        f"Prometheus refuses the query: {PARSE_ERROR}",
    ),
    "execution": (
        (422, json.dumps({"status": "error", "errorType": "execution", "error": "too many"})),
        "Prometheus refuses the query: too many",
    ),
    "matrix": ("matrix", "brings a range of samples"),
    "scalar": ("scalar", "brings a bare number"),
    "string": ("string", "brings a text"),
}


@pytest.mark.parametrize(("wrong", "words"), REFUSALS.values(), ids=REFUSALS)
def test_a_query_that_is_wrong_ends_the_start_and_later_only_the_tick(
    queries: tuple[Query, ...], wrong: tuple[int, str] | str, words: str
) -> None:
    if isinstance(wrong, str):
        content = {"status": "success", "data": {"resultType": wrong, "result": [NOW, "1"]}}
        reply = 200, json.dumps(content).encode()
    else:
        reply = wrong[0], wrong[1].encode()
    with scripted(good({"errors{}": reply})) as server:
        source = PrometheusSource(params(server.url), queries)
        reading = source.read(NOW)
        report = ProbeReport(source.probe(NOW))
        source.close()
    assert kinds(reading) == [("refused", "error_rate")]
    assert reading.problems[0].detail.startswith(words)
    assert dict(reading.values) == {"request_rate_rps": 20.0}
    assert [entry.state for entry in report.entries] == ["ok", "ok", "ok", "refused"]
    assert not report.is_good
    with pytest.raises(SettingsError, match=r"^catalogue: error_rate: ") as caught:
        report.refuse_wrong()
    assert words in str(caught.value)
