"""Under metric faults the simulator shows what the bridge's own queries would bring.

The catalogue's texts are evaluated by Prometheus itself (`promtool test rules`) over the samples
and stale markers that the faults leave of a simulated gateway's scrapes.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gatepilot.deploy_bridge.metrics.catalogue_params import CatalogueParams
from gatepilot.deploy_bridge.metrics.queries import catalogue
from gatepilot.envs.schema.fingerprint import Contract
from gatepilot.envs.schema.observation import ObservationSpec

pytest.importorskip("numba")
from gatepilot.envs.sim.faults import Fault
from gatepilot.envs.sim.metric_faults import MetricFault
from gatepilot.envs.sim.records import READY

from ...envs.sim.shown_scrapes import BOUNDS, Shown, record, seen_row, stored, visible
from ...envs.sim.sim_kit import Gateway, requests_of
from .peers import needs

pytestmark = [pytest.mark.live, pytest.mark.timeout(60)]

SCRAPE_S, TICK_S, END_S = 5.0, 15.0, 240.0
REMOVED_AT_S = 120.0
SIZES: dict[str, Any] = {"weights_gib": 40.0, "kv_gib": 30.0, "vram_gib": 80.0}
PARAMS = CatalogueParams(cluster="llm", model="m", deployment="vllm", **SIZES)
QUERIES = {
    query.name: query.text
    for query in catalogue(PARAMS, Contract(ObservationSpec()))
    if query.kind == "field" and query.name != "replicas_requested"
}
HISTOGRAMS = {
    "ttft": "time_to_first_token_seconds",
    "e2e": "e2e_request_latency_seconds",
    "prompt": "request_prompt_tokens",
}
FAULTS = {
    "gap": [MetricFault("metrics_gap", 92.0, 137.0)],
    "late": [MetricFault("metrics_late", 92.0, 170.0, 20.0)],
    "stale": [MetricFault("metrics_stale", 92.0, 158.0)],
    "reset": [MetricFault("counter_reset", 92.0)],
    "all": [
        MetricFault("counter_reset", 84.0),
        MetricFault("metrics_gap", 96.0, 108.0),
        MetricFault("metrics_stale", 118.0, 131.0),
        MetricFault("metrics_late", 140.0, 170.0, 12.0),
    ],
}


def gateway(faults: list[MetricFault]) -> Gateway:
    """Three replicas, one of them failing; the one that is taken away at 120 s is idle by then."""
    rng = np.random.default_rng(5)
    times_s = np.sort(np.concatenate([rng.uniform(0, 115, 900), rng.uniform(121, END_S, 900)]))
    rows = [(float(t), int(rng.integers(1, 300)), int(rng.integers(1, 40))) for t in times_s]
    plant = [
        Fault("replica_errors", 20.0, 200.0, 0.5),
        Fault("brown_out", 0.0, 300.0, 0.05),
    ]
    return Gateway(
        requests_of(rows),
        replicas=3,
        faults=plant,
        metric_faults=faults,
        base_s=0.02,
        kv_blocks=4000,
        cpu_idle=0.05,
        cpu_per_iteration_s=0.004,
        **SIZES,
    )


def replicas(time_s: float) -> int:
    return 2 if time_s >= REMOVED_AT_S else 3


def series_of(shown: Shown) -> dict[str, float]:
    """Every series of a scrape by its selector, under the names of Envoy, vLLM and Kubernetes."""
    envoy = 'job="envoy",instance="gw"'
    manager = f'{envoy},envoy_http_conn_manager_prefix="ingress"'
    cluster = f'{envoy},envoy_cluster_name="llm"'
    deployment = 'job="kube",namespace="default",deployment="vllm"'
    c = shown.counters
    found = {
        f"envoy_http_downstream_rq_total{{{manager}}}": c["arrived"],
        f'envoy_http_downstream_rq_xx{{{manager},envoy_response_code_class="2"}}': c["first"],
        f'envoy_http_downstream_rq_xx{{{manager},envoy_response_code_class="5"}}': c["failed"],
        f"envoy_http_downstream_rq_tx_reset{{{manager}}}": 0.0,
        f"envoy_cluster_outlier_detection_ejections_active{{{cluster}}}": shown.gauges[
            "replicas_ejected"
        ],
        f"kube_deployment_status_replicas_available{{{deployment}}}": shown.gauges[
            "replicas_ready"
        ],
        f"kube_deployment_spec_replicas{{{deployment}}}": shown.gauges["replicas_ready"]
        + shown.gauges["replicas_starting"],
        f"kube_deployment_status_terminating_replicas{{{deployment}}}": shown.gauges[
            "replicas_draining"
        ],
    }
    model = 'job="vllm",model_name="m"'
    for name, metric in HISTOGRAMS.items():  # of the whole cluster, under one replica's name
        labels = f'{model},instance="r0"'
        for b, bound in enumerate([*BOUNDS[name].tolist(), "+Inf"]):
            found[f'vllm:{metric}_bucket{{{labels},le="{bound}"}}'] = c[f"{name}/{b}"]
        found[f"vllm:{metric}_count{{{labels}}}"] = c[f"{name}/{len(BOUNDS[name])}"]
    for (place, _), replica in shown.replicas.items():
        labels = f'{model},instance="r{place}"'
        found[f"vllm:num_requests_running{{{labels}}}"] = replica.gauges["running"]
        found[f"vllm:num_requests_waiting{{{labels}}}"] = replica.gauges["waiting"]
        found[f"vllm:kv_cache_usage_perc{{{labels}}}"] = replica.gauges["kv_usage"]
        found[f"vllm:prompt_tokens_total{{{labels}}}"] = replica.counters["prompt_tokens"]
        found[f"vllm:generation_tokens_total{{{labels}}}"] = replica.counters["output_tokens"]
        pod = f'namespace="default",pod="vllm-{place}"'
        ready = replica.state == READY
        found[f'kube_pod_status_ready{{{pod},condition="true"}}'] = float(ready)
        limit = f'{pod},container="vllm",resource="cpu",unit="core"'
        found[f"kube_pod_container_resource_limits{{{limit}}}"] = 1.0
        used = f'container_cpu_usage_seconds_total{{{pod},container="vllm"}}'
        found[used] = replica.counters["cpu_s"]
        if ready:
            endpoint = f'{cluster},envoy_endpoint_address="r{place}"'
            successes, failures = replica.counters["successes"], replica.counters["failures"]
            found[f"envoy_cluster_endpoint_rq_success{{{endpoint}}}"] = successes
            found[f"envoy_cluster_endpoint_rq_error{{{endpoint}}}"] = failures
            found[f"envoy_cluster_endpoint_rq_total{{{endpoint}}}"] = successes + failures
    return found


def scripted(asked: list[tuple[float, Shown | None]]) -> list[dict[str, str]]:
    """The samples as promtool's input: a stale marker where a scrape failed or a series is gone."""
    scrapes = [None if shown is None else series_of(shown) for _, shown in asked]
    lines = []
    for selector in sorted({name for scrape in scrapes if scrape for name in scrape}):
        values, was_there = [], False
        for scrape in scrapes:
            if scrape is not None and selector in scrape:
                values.append(repr(scrape[selector]))
                was_there = True
            else:
                values.append("stale" if was_there else "_")
                was_there = False
        lines.append({"series": selector, "values": " ".join(values)})
    return lines


def expectation(name: str, text: str, row: dict[str, float], now_s: float) -> dict[str, Any]:
    """That a query brings what the row has, or nothing where the row has nothing."""
    at = {"eval_time": f"{now_s:.0f}s"}
    if name not in row:
        return at | {"expr": f"count(({text}) == ({text}))", "exp_samples": []}
    near = f"sum(abs(({text}) - {row[name]!r}) < bool {1e-6 * (1 + abs(row[name]))!r})"
    return at | {"expr": near, "exp_samples": [{"labels": "{}", "value": 1}]}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
def test_the_row_is_what_the_catalogue_brings(faults: list[MetricFault], tmp_path: Path) -> None:
    scrapes = record(gateway([]), END_S, replicas, SCRAPE_S)
    kept = stored(scrapes, faults)
    g = gateway(faults)
    tests = []
    for tick in range(round(END_S / TICK_S)):
        g.tick(TICK_S, replicas=replicas(tick * TICK_S))
        now_s = (tick + 1) * TICK_S
        if now_s < g.params.window_s:  # a series of less than a window: known to differ
            continue
        row = seen_row(g)
        tests.append(
            {
                "interval": f"{SCRAPE_S:.0f}s",
                "input_series": scripted(visible(kept, scrapes, faults, now_s)),
                "promql_expr_test": [
                    expectation(name, text, row, now_s) for name, text in QUERIES.items()
                ],
            }
        )
    assert len(tests) > 10
    file = tmp_path / "tests.yaml"
    file.write_text(json.dumps({"rule_files": [], "evaluation_interval": "5s", "tests": tests}))
    done = subprocess.run(  # noqa: S603
        [needs("promtool"), "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
