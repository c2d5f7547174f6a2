"""Envoy is told what the simulator's gateway does."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from gatepilot.envs.scenario_spec import GatewaySpec
from gatepilot.experiments.testbed.binaries import free_ports
from gatepilot.experiments.testbed.envoy import EnvoyFiles
from gatepilot.experiments.testbed.envoy_config import bootstrap
from gatepilot.experiments.testbed.errors import LaunchError

GATEWAY = GatewaySpec()


def configured(gateway: GatewaySpec = GATEWAY) -> dict[str, Any]:
    return bootstrap(
        gateway,
        port=1,
        admin_port=2,
        endpoints=Path("/e"),
        runtime=Path("/r"),
        ejections=Path("/j"),
        admin_calls=Path("/a"),
    )


def cluster(gateway: GatewaySpec = GATEWAY) -> dict[str, Any]:
    (found,) = configured(gateway)["static_resources"]["clusters"]
    return dict(found)


def route(gateway: GatewaySpec = GATEWAY) -> dict[str, Any]:
    (listener,) = configured(gateway)["static_resources"]["listeners"]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    return dict(manager["route_config"]["virtual_hosts"][0]["routes"][0]["route"])


def test_the_breaker_is_the_simulator_s() -> None:
    assert cluster()["outlier_detection"] == {
        "enforcing_consecutive_5xx": 0,
        "enforcing_consecutive_gateway_failure": 0,
        "enforcing_success_rate": 0,
        "enforcing_failure_percentage": 100,
        "interval": "10s",
        "base_ejection_time": "30s",
        "max_ejection_time": "300s",
        "max_ejection_percent": 50,
        "always_eject_one_host": False,
        "failure_percentage_threshold": 50,
        "failure_percentage_minimum_hosts": 2,
        "failure_percentage_request_volume": 10,
    }
    panic = cluster()["common_lb_config"]["healthy_panic_threshold"]["value"]
    assert panic == GatewaySpec().panic_percent


def test_retries_and_timeouts_are_the_simulator_s() -> None:
    assert route()["timeout"] == "600s"
    policy = route()["retry_policy"]
    assert (policy["retry_on"], policy["num_retries"]) == ("5xx", 1)
    assert policy["retry_back_off"]["base_interval"] == "0.025s"
    assert policy["retry_host_predicate"][0]["name"].endswith("previous_hosts")
    (limits,) = cluster()["circuit_breakers"]["thresholds"]
    assert limits["retry_budget"] == {
        "budget_percent": {"value": 20.0},
        "min_retry_concurrency": 3,
    }
    assert "retry_policy" not in route(dataclasses.replace(GATEWAY, max_retries=0))


def test_routers() -> None:
    assert cluster()["lb_policy"] == "LEAST_REQUEST"
    assert cluster()["least_request_lb_config"] == {"choice_count": 2}
    robin = dataclasses.replace(GATEWAY, router="round_robin")
    assert cluster(robin)["lb_policy"] == "ROUND_ROBIN"
    with pytest.raises(LaunchError, match=r"gateway\.router fewest_waiting: Envoy has"):
        cluster(dataclasses.replace(GATEWAY, router="fewest_waiting"))


def test_endpoints_and_threshold_are_files_of_their_own(tmp_path: Path) -> None:
    envoy = EnvoyFiles(binary=Path("envoy"), folder=tmp_path / "envoy", port=1, admin_port=2)
    envoy.write(dataclasses.replace(GATEWAY, threshold_steps=7), [5, 6])
    (resource,) = yaml.safe_load(envoy.endpoints.read_text())["resources"]
    ports = [
        entry["endpoint"]["address"]["socket_address"]["port_value"]
        for entry in resource["endpoints"][0]["lb_endpoints"]
    ]
    assert ports == [5, 6]
    assert envoy.runtime.is_symlink()
    threshold = envoy.runtime / "outlier_detection" / "failure_percentage_threshold"
    assert threshold.read_text() == "35\n"
    envoy.write(GATEWAY, [5])  # anew, over what is there
    assert threshold.read_text() == "50\n"
    assert not list(envoy.folder.rglob("*.partial"))


def test_free_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20
