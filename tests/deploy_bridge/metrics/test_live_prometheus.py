"""The catalogue asked of a real Prometheus that scrapes counters of known growth."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepilot.deploy_bridge.errors import AmbiguousDataError
from gatepilot.deploy_bridge.metrics.catalogue_params import CatalogueParams
from gatepilot.deploy_bridge.metrics.client import PrometheusParams
from gatepilot.deploy_bridge.metrics.prometheus import PrometheusSource
from gatepilot.deploy_bridge.metrics.queries import catalogue
from gatepilot.deploy_bridge.metrics.report import ProbeReport
from gatepilot.deploy_bridge.metrics.source import Reading
from gatepilot.envs.schema.fingerprint import Contract
from gatepilot.envs.schema.observation import ObservationSpec

from .asking import NEVER_S
from .gateway_world import Replica, World
from .peers import RealPrometheus

pytestmark = [pytest.mark.live, pytest.mark.timeout(60)]

WINDOW_S = 4.0
CONTRACT = Contract(ObservationSpec(), window_s=WINDOW_S, minimum_samples=20)
SIZES = {"weights_gib": 16.0, "kv_gib": 20.0, "vram_gib": 48.0}
SCRAPE_S = RealPrometheus.SCRAPE_S


def source(prometheus: RealPrometheus, **more: object) -> PrometheusSource:
    names = {"cluster": "llm", "model": "m", "deployment": "vllm", "scrape_interval_s": SCRAPE_S}
    params = CatalogueParams(**(names | SIZES | more))  # type: ignore[arg-type]
    return PrometheusSource(PrometheusParams(url=prometheus.url), catalogue(params, CONTRACT))


def read(prometheus: RealPrometheus, **more: object) -> Reading:
    asked = source(prometheus, **more)
    reading = asked.read(time.time())
    asked.close()
    return reading


def kinds(reading: Reading) -> set[tuple[str, str]]:
    return {(problem.kind, problem.what) for problem in reading.problems}


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


@pytest.fixture
def prometheus(world: World, tmp_path: Path) -> Iterator[RealPrometheus]:
    running = RealPrometheus(
        tmp_path,
        {
            "envoy": [world.envoy.address],
            "vllm": [replica.address for replica in world.replicas],
            "kube": [world.kube.address],
        },
    )
    for job, targets in (("envoy", 1), ("vllm", len(world.replicas)), ("kube", 1)):
        running.wait_for(f'count(up{{job="{job}"}} == 1) >= {targets}')
    time.sleep(WINDOW_S + SCRAPE_S)
    yield running
    running.close()


def test_every_field_has_its_known_value(world: World, prometheus: RealPrometheus) -> None:
    world.replicas[0].kv_usage, world.replicas[1].cpu_cores = 0.8, 3.0
    time.sleep(WINDOW_S + 2 * SCRAPE_S)
    reading = read(prometheus)
    assert reading.problems == ()
    counted = 18.0 + 0.5 + 1.0 + 0.25
    # A replica's ten first tokens a second: 2 up to 0.1 s, 4 to 0.25 s, 3 to 0.5 s, 1 to 1 s.
    expected = {
        "request_rate_rps": 20.0,
        "error_rate": (1.0 + 0.25 + 0.25) / counted,
        "replicas_ejected": 1.0,
        "replica_error_spread": 4 / 20 - (4 / 20 + 1 / 17) / 2,
        "ttft_p95_s": 0.75,
        "e2e_p95_s": 7.5,
        "prompt_tokens_p50": 1000 * (0.1 + 0.15 * 3 / 4),
        "prompt_tokens_p95": 750.0,
        "samples": 20.0 * WINDOW_S,
        "prompt_token_rate_tps": 450.0,
        "output_token_rate_tps": 150.0,
        "running": 12.0,
        "waiting": 2.0,
        "kv_usage": 0.6,
        "vram_utilization": (16 + 20 * 0.6) / 48,
        "replicas_requested": 3.0,
        "replicas_ready": 2.0,
        "replicas_starting": 1.0,
        "replicas_draining": 2.0,
    }
    for name, value in expected.items():
        assert reading.values[name] == pytest.approx(value, rel=0.03), name
    # The second pod's cores went from 1 to 3 of 4, at a moment between two scrapes.
    assert 0.25 < reading.values["cpu_utilization"] <= 1.0
    assert set(reading.values) == {*expected, "cpu_utilization"}


def test_cpu_is_the_mean_over_ready_pods(world: World, prometheus: RealPrometheus) -> None:
    assert read(prometheus).values["cpu_utilization"] == pytest.approx(1 / 4, rel=0.03)


def test_other_names_and_other_sources(world: World, prometheus: RealPrometheus) -> None:
    world.terminating = None
    world.replicas[0].kv_name = "gpu_cache_usage_perc"
    time.sleep(2 * SCRAPE_S)
    values = read(prometheus, weights_gib=None, kv_gib=None, vram_gib=None).values
    assert values["replicas_draining"] == 2.0  # five pods, of which the deployment counts three
    assert values["kv_usage"] == pytest.approx(0.4)
    assert values["vram_utilization"] == pytest.approx(0.75)
    envoy = read(prometheus, replica_counts="envoy", deployment=None).values
    assert (envoy["replicas_requested"], envoy["replicas_ready"]) == (2.0, 2.0)


def test_healthy_is_zero_and_idle_is_missing(world: World, prometheus: RealPrometheus) -> None:
    world.answers_per_s, world.broken_per_s, world.too_many_per_s = {"2": 20.0}, 0.0, None
    world.endpoint_failures_per_s = [0.0, 0.0]
    world.begun = time.monotonic()  # all counters start anew, as after a restart
    time.sleep(WINDOW_S + 2 * SCRAPE_S)
    values = read(prometheus).values
    assert (values["error_rate"], values["replica_error_spread"]) == (0.0, 0.0)
    world.answers_per_s, world.arrivals_per_s = {}, 0.0
    world.endpoint_successes_per_s = 0.0
    for replica in world.replicas:
        replica.ttft_per_s, replica.tokens_per_s = (0.0,) * 4, 0.0
    time.sleep(WINDOW_S + 2 * SCRAPE_S)
    reading = read(prometheus)
    assert reading.problems == ()
    for name in ("request_rate_rps", "prompt_token_rate_tps", "output_token_rate_tps", "samples"):
        assert reading.values[name] == 0.0
    for name in ("error_rate", "ttft_p95_s", "e2e_p95_s", "prompt_tokens_p50"):
        assert name not in reading.values
    assert "replica_error_spread" not in reading.values


def test_rates_speak_on_after_the_gateway_has_died_and_are_not_believed(
    world: World, prometheus: RealPrometheus
) -> None:
    world.envoy.close()
    time.sleep(2 * SCRAPE_S)
    rates = [s for s in prometheus.ask("rate(envoy_http_downstream_rq_total[4s])") if s]
    assert float(rates[0]["value"][1]) > 0  # still there, and still plausible
    reading = read(prometheus)
    assert reading.values == {}
    assert {("stale", "gateway_up"), ("missing", "gateway_age_s")} <= kinds(reading)


def test_a_dead_replica_is_blindness_and_a_removed_one_is_not(
    world: World, prometheus: RealPrometheus
) -> None:
    victim = world.replicas[1]
    victim.exporter.close()
    time.sleep(2 * SCRAPE_S)
    reading = read(prometheus)
    assert reading.values == {}
    assert ("stale", "replicas_up") in kinds(reading)
    world.endpoints.remove(victim)  # the gateway sends it nothing more: a target on its way out
    time.sleep(2 * SCRAPE_S)
    reading = read(prometheus)
    assert reading.problems == ()
    assert reading.values["running"] == 6.0


def test_a_starting_replica_is_no_blindness_and_no_part_of_means(
    world: World, prometheus: RealPrometheus
) -> None:
    world.replicas[1].kv_usage = 0.0
    world.endpoints.pop()
    prometheus.add_targets("vllm", ["127.0.0.1:1"])
    prometheus.wait_for('up{job="vllm",instance="127.0.0.1:1"}')
    time.sleep(2 * SCRAPE_S)
    reading = read(prometheus)
    assert reading.problems == ()
    assert reading.values["kv_usage"] == pytest.approx(0.4)
    strict = read(prometheus, endpoint_label=None)
    assert kinds(strict) == {("stale", "replicas_up")}


def test_an_endpoint_without_a_target_counts_as_down(
    world: World, prometheus: RealPrometheus
) -> None:
    world.endpoints.append(Replica(exporter=world.kube))
    world.endpoint_failures_per_s.append(0.0)
    time.sleep(2 * SCRAPE_S)
    assert ("stale", "replicas_up") in kinds(read(prometheus))


def test_two_gateways_are_ambiguous_and_one_is_chosen_by_name(
    world: World, prometheus: RealPrometheus
) -> None:
    other = World(1)
    prometheus.add_targets("envoy", [other.envoy.address])
    prometheus.wait_for('count(up{job="envoy"} == 1) == 2')
    time.sleep(3 * SCRAPE_S)
    assert ("ambiguous", "gateway_up") in kinds(read(prometheus))
    report = ProbeReport(source(prometheus).probe(time.time()))
    other.close()
    with pytest.raises(AmbiguousDataError, match=r"gateway_up.*request_rate_rps.*: 2 series"):
        report.refuse_wrong()
    chosen = read(prometheus, gateway_instance=world.envoy.address.replace(".", r"\."))
    assert chosen.problems == ()


def test_the_report_tells_another_gateway_from_a_renamed_metric(
    world: World, prometheus: RealPrometheus
) -> None:
    for replica in world.replicas:
        replica.kv_name = "kv_cache_used_perc"
    time.sleep(2 * SCRAPE_S)
    entries = {entry.name: entry for entry in source(prometheus).probe(time.time())}
    assert entries["kv_usage"].state == "missing"
    assert "similar: vllm:kv_cache_used_perc" in entries["kv_usage"].hint
    assert entries["running"].state == "ok"
    other = {e.name: e for e in source(prometheus, conn_manager="egress").probe(time.time())}
    assert other["request_rate_rps"].state == "missing"
    assert "envoy_http_conn_manager_prefix=ingress" in other["request_rate_rps"].hint
    blind = read(prometheus, conn_manager="egress")
    assert kinds(blind) == {("missing", "gateway_age_s")}
    assert blind.values == {}


def test_a_stopped_and_a_killed_prometheus(prometheus: RealPrometheus) -> None:
    asked = source(prometheus)
    assert asked.read(time.time()).problems == ()
    os.kill(prometheus.process.pid, signal.SIGSTOP)
    begun = time.monotonic()
    reading = asked.read(time.time())
    assert time.monotonic() - begun < NEVER_S
    assert [problem.kind for problem in reading.problems] == ["unreachable"]
    os.kill(prometheus.process.pid, signal.SIGCONT)
    time.sleep(3 * SCRAPE_S)
    assert asked.read(time.time()).problems == ()
    prometheus.process.kill()
    prometheus.process.wait()
    assert kinds(asked.read(time.time())) == {("unreachable", "gateway_up")}
    asked.close()
