"""The start-up report: what each query brings, and why one brings nothing."""

from __future__ import annotations

import pytest

from gatepilot.deploy_bridge.errors import AmbiguousDataError
from gatepilot.deploy_bridge.metrics.prometheus import PrometheusSource
from gatepilot.deploy_bridge.metrics.query import Query
from gatepilot.deploy_bridge.metrics.report import ProbeReport

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
        report.refuse_ambiguous()


def test_the_report_of_a_server_that_is_not_there(queries: tuple[Query, ...]) -> None:
    source = PrometheusSource(params(f"http://127.0.0.1:{free_port()}"), queries)
    report = ProbeReport(source.probe(NOW))
    source.close()
    report.refuse_ambiguous()  # waiting may help: it is no reason to refuse the start
    assert [entry.state for entry in report.entries] == ["unreachable"]
