"""The threshold in force, against scripted admin interfaces and a real Envoy."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import requests

from gatepilot.deploy_bridge.errors import SettingsError
from gatepilot.deploy_bridge.metrics.catalogue_params import CatalogueParams
from gatepilot.deploy_bridge.metrics.envoy_admin import (
    RUNTIME_KEY,
    EnvoyAdminParams,
    EnvoyAdminSource,
)
from gatepilot.deploy_bridge.metrics.queries import catalogue
from gatepilot.deploy_bridge.metrics.source import Reading
from gatepilot.envs.schema.fingerprint import Contract
from gatepilot.envs.schema.observation import ObservationSpec

from .asking import NEVER_S
from .peers import Reply, free_port, needs, raw_server, scripted

NOW = 1_700_000_000.0


def source(url: str, cluster: str = "llm") -> EnvoyAdminSource:
    return EnvoyAdminSource(EnvoyAdminParams(url=url, cluster=cluster, deadline_s=0.5))


def runtime(value: object = None) -> Reply:
    entries = {} if value is None else {RUNTIME_KEY: {"final_value": value, "layer_values": []}}
    return 200, json.dumps({"entries": entries, "layers": ["static"]}).encode()


def dump(*clusters: object) -> Reply:
    return 200, json.dumps({"configs": [{"cluster": cluster} for cluster in clusters]}).encode()


EMPTY = dump()


def read(runtime_reply: Reply, static: Reply = EMPTY, dynamic: Reply = EMPTY) -> Reading:
    def answer(path: str, _: float | None) -> Reply:
        if path.startswith("/runtime"):
            return runtime_reply
        return static if "static_clusters" in path else dynamic

    with scripted(answer) as server:
        reading = source(server.url).read(NOW)
        assert {method for method, _ in server.asked} == {"GET"}
    return reading


DETECTING = {"name": "llm", "outlier_detection": {"failure_percentage_threshold": 40}}
OTHER = {"name": "llm-2", "outlier_detection": {"failure_percentage_threshold": 7}}


@pytest.mark.parametrize(("text", "value"), [("35", 0.35), ("5", 0.05), ("100", 1.0), ("0", 0.0)])
def test_the_runtime_s_value_is_in_force(text: str, value: float) -> None:
    reading = read(runtime(text), dump(DETECTING))
    assert dict(reading.values) == {"breaker_threshold": value}
    assert reading.problems == ()
    assert reading.samples[0].query == "GET /runtime?format=json"


@pytest.mark.parametrize(
    ("static", "dynamic", "value"),
    [
        (dump(OTHER, DETECTING), dump(), 0.4),
        (dump(OTHER), dump(DETECTING), 0.4),
        (dump({"name": "llm", "outlier_detection": {}}), dump(), 0.85),
    ],
)
def test_without_it_the_cluster_s_own_is(static: Reply, dynamic: Reply, value: float) -> None:
    reading = read(runtime(), static, dynamic)
    assert dict(reading.values) == {"breaker_threshold": value}
    assert "config_dump" in reading.samples[0].query


@pytest.mark.parametrize(
    ("replies", "kind", "words"),
    [
        ((runtime("101"),), "out_of_range", "expected 0 to 100"),
        ((runtime("fifty"), dump(DETECTING)), "warning", "silently ignores"),
        ((runtime("50.5"), dump(DETECTING)), "warning", "silently ignores"),
        ((runtime("-5"), dump(DETECTING)), "warning", "silently ignores"),
        ((runtime(""), dump(DETECTING)), "warning", "silently ignores"),
        ((runtime(),), "missing", "no cluster 'llm'"),
        ((runtime(), dump({"name": "llm"})), "missing", "no breaker"),
        ((runtime(), (500, b"")), "unreachable", "status 500"),
        (((404, b""),), "unreachable", "status 404"),
        (((200, b"<html>"),), "unreachable", "no JSON"),
        (((200, b"[]"),), "unreachable", "no entries"),
        (((200, b"[" * 100_000),), "unreachable", "no JSON"),
        (((200, b'{"entries": 3}'),), "unreachable", "no entries"),
    ],
)
def test_what_is_no_threshold_is_missing(replies: list[Reply], kind: str, words: str) -> None:
    reading = read(*replies)
    assert reading.values == {}
    assert [problem.kind for problem in reading.problems] == [kind]
    assert words in reading.problems[0].detail
    assert [sample.value for sample in reading.samples] == [None]


def test_nobody_listens_and_nobody_answers() -> None:
    reading = source(f"http://127.0.0.1:{free_port()}").read(NOW)
    assert [problem.kind for problem in reading.problems] == ["unreachable"]

    def silent(_: socket.socket, end: threading.Event) -> None:
        end.wait()

    with raw_server(silent) as url:
        begun = time.monotonic()
        reading = source(url).read(NOW)
        assert time.monotonic() - begun < NEVER_S
    assert reading.problems[0].kind in ("unreachable", "deadline")
    assert reading.values == {}


def test_the_report_is_the_reading() -> None:
    with scripted(lambda *_: runtime("35")) as server:
        entry = source(server.url).probe(NOW)[0]
        assert (entry.state, entry.value, entry.is_critical) == ("ok", 0.35, True)
    entry = source(server.url).probe(NOW)[0]
    assert (entry.state, entry.value) == ("unreachable", None)


@pytest.mark.parametrize("url", ["127.0.0.1:9901", "https://127.0.0.1", "http://a:b@host"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match=r"envoy_admin: url: expected http://host:port"):
        EnvoyAdminParams(url=url, cluster="llm")


def envoy_config(admin_port: int, port: int, runtime_layer: dict[str, object]) -> str:
    """Envoy takes JSON as YAML."""
    prefix = "type.googleapis.com/envoy.extensions.filters"
    router = {"@type": f"{prefix}.http.router.v3.Router"}
    manager = {
        "@type": f"{prefix}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "ingress",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "llm"}}],
                }
            ]
        },
        "http_filters": [{"name": "router", "typed_config": router}],
    }

    def address(number: int) -> dict[str, object]:
        return {"socket_address": {"address": "127.0.0.1", "port_value": number}}

    cluster = {
        "name": "llm",
        "type": "STATIC",
        "track_cluster_stats": {"per_endpoint_stats": True},
        "outlier_detection": {"failure_percentage_threshold": 40},
        "load_assignment": {
            "cluster_name": "llm",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(1)}}]}],
        },
    }
    filters = [{"name": "manager", "typed_config": manager}]
    listener = {"address": address(port), "filter_chains": [{"filters": filters}]}
    return json.dumps(
        {
            "admin": {"address": address(admin_port)},
            "layered_runtime": {"layers": [{"name": "static", "static_layer": runtime_layer}]},
            "static_resources": {"listeners": [listener], "clusters": [cluster]},
        }
    )


@contextmanager
def real_envoy(folder: Path, runtime_layer: dict[str, object]) -> Iterator[str]:
    program = needs("envoy")
    admin_port = free_port()
    config = envoy_config(admin_port, free_port(), runtime_layer)
    command = [program, "--config-yaml", config, "--disable-hot-restart", "--concurrency", "1"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603
        try:
            url = f"http://127.0.0.1:{admin_port}"
            for _ in range(200):
                with suppress(requests.RequestException):
                    if requests.get(f"{url}/ready", timeout=1).ok:
                        break
                time.sleep(0.05)
            else:
                pytest.fail((folder / "log").read_text()[-2000:])
            yield url
        finally:
            process.kill()
            process.wait()


@pytest.mark.live
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("layer", "value"),
    [
        ({}, 0.4),
        ({RUNTIME_KEY: 35}, 0.35),
        ({"outlier_detection": {"failure_percentage_threshold": 65}}, 0.65),
    ],
)
def test_a_real_envoy_says_what_is_in_force(
    layer: dict[str, object], value: float, tmp_path: Path
) -> None:
    with real_envoy(tmp_path, layer) as url:
        before = requests.get(f"{url}/config_dump", timeout=5).json()
        reading = source(url).read(NOW)
        assert requests.get(f"{url}/config_dump", timeout=5).json() == before
    assert reading.problems == ()
    assert dict(reading.values) == {"breaker_threshold": value}


@pytest.mark.live
@pytest.mark.timeout(60)
def test_a_real_envoy_exports_every_series_that_the_catalogue_reads(tmp_path: Path) -> None:
    params = CatalogueParams(cluster="llm", model="m", replica_counts="envoy")
    queries = catalogue(params, Contract(ObservationSpec()))
    selectors = {s for query in queries for s in query.selectors if s.startswith("envoy_")}
    with real_envoy(tmp_path, {}) as url:
        exported = requests.get(f"{url}/stats/prometheus", timeout=5).text
    missing = set()
    for selector in selectors:
        name, _, labels = selector.removesuffix("}").partition("{")
        own = [label for label in labels.split(",") if label.startswith("envoy_")]
        lines = [line for line in exported.splitlines() if line.startswith(f"{name}{{")]
        if not any(all(label in line for label in own) for line in lines):
            missing.add(name)
    assert missing == {"envoy_cluster_upstream_rq"}  # a code's series is born with its first answer
