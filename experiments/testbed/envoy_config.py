"""Envoy's configuration in plain data: the simulator's gateway in Envoy's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...envs.scenario_spec import GatewaySpec
from ...envs.schema.settings import THRESHOLD_STEP_PERCENT
from .binaries import LOOPBACK
from .errors import LaunchError

CLUSTER: Final = "llm"
"""Name of the upstream cluster."""
CONN_MANAGER: Final = "ingress"
"""`stat_prefix` of the HTTP connection manager."""
UPSTREAM_HEADER: Final = "x-gatepilot-upstream"
"""Answer header with the replica's address and port."""

_TYPES: Final = "type.googleapis.com/envoy."
_NO_LIMIT: Final = 1_000_000
"""For the limits of Envoy's circuit breakers, which the simulator does not have."""
_RESELECTIONS: Final = 10
"""How often a retry draws again when it drew the replica that has just failed."""
_PANIC_PERCENT: Final = 50.0
"""Envoy's default and the simulator's constant."""
_UPSTREAM_IDLE_S: Final = 300.0
"""How long an idle connection to a replica is kept."""
_POLICIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "least_outstanding": {
        "lb_policy": "LEAST_REQUEST",
        "least_request_lb_config": {"choice_count": 2},
    },
    "round_robin": {"lb_policy": "ROUND_ROBIN"},
    "random": {"lb_policy": "RANDOM"},
}
"""The simulator's routers in Envoy's words."""


def bootstrap(  # every place that Envoy is told
    gateway: GatewaySpec,
    *,
    port: int,
    admin_port: int,
    endpoints: Path,
    runtime: Path,
    ejections: Path,
    admin_calls: Path,
) -> dict[str, Any]:
    """Everything that stays while Envoy runs.

    Args:
        gateway: Routing, breaker, retries and timeouts.
        port: Where clients send requests.
        admin_port: Its administration interface.
        endpoints: File with the replicas.
        runtime: Link to the runtime tree.
        ejections: File that gets a line for each ejection.
        admin_calls: File that gets a line for each call of the administration interface.

    Raises:
        LaunchError: Envoy has no such router.
    """
    if gateway.router not in _POLICIES:
        msg = f"gateway.router {gateway.router}: Envoy has {', '.join(_POLICIES)}"
        raise LaunchError(msg)
    layer = {"name": "gatepilot", "disk_layer": {"symlink_root": str(runtime)}}
    return {
        "node": {"id": "testbed", "cluster": "testbed"},
        "admin": {**_address(admin_port), "access_log": [_admin_log(admin_calls)]},
        "layered_runtime": {"layers": [layer]},
        "cluster_manager": {"outlier_detection": {"event_log_path": str(ejections)}},
        "static_resources": {
            "listeners": [_listener(gateway, port)],
            "clusters": [_cluster(gateway, endpoints)],
        },
    }


def _admin_log(path: Path) -> dict[str, Any]:
    """Method and path of each call: shows that whoever only watches writes nothing."""
    line = "%REQ(:METHOD)% %REQ(:PATH)%\n"
    return {
        "name": "envoy.access_loggers.file",
        "typed_config": {
            "@type": f"{_TYPES}extensions.access_loggers.file.v3.FileAccessLog",
            "path": str(path),
            "log_format": {"text_format_source": {"inline_string": line}},
        },
    }


def endpoint_list(replica_ports: Sequence[int]) -> dict[str, Any]:
    """The replicas as one EDS resource."""
    assignment = {
        "@type": f"{_TYPES}config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": CLUSTER,
        "endpoints": [{"lb_endpoints": [{"endpoint": _address(port)} for port in replica_ports]}],
    }
    return {"resources": [assignment]}


def _listener(gateway: GatewaySpec, port: int) -> dict[str, Any]:
    virtual_host = {
        "name": CLUSTER,
        "domains": ["*"],
        "routes": [{"match": {"prefix": "/"}, "route": _route(gateway)}],
        "response_headers_to_add": [
            {"header": {"key": UPSTREAM_HEADER, "value": "%UPSTREAM_REMOTE_ADDRESS%"}}
        ],
    }
    router = {"@type": f"{_TYPES}extensions.filters.http.router.v3.Router"}
    network = "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
    manager = {
        "@type": _TYPES + network,
        "stat_prefix": CONN_MANAGER,
        "stream_idle_timeout": _duration(gateway.request_timeout_s),
        "route_config": {"name": CLUSTER, "virtual_hosts": [virtual_host]},
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
    }
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    return {"name": CONN_MANAGER, **_address(port), "filter_chains": [{"filters": filters}]}


def _cluster(gateway: GatewaySpec, endpoints: Path) -> dict[str, Any]:
    source = {"path_config_source": {"path": str(endpoints)}, "resource_api_version": "V3"}
    options = {
        "@type": f"{_TYPES}extensions.upstreams.http.v3.HttpProtocolOptions",
        "common_http_protocol_options": {"idle_timeout": _duration(_UPSTREAM_IDLE_S)},
        "explicit_http_config": {"http_protocol_options": {}},
    }
    return {
        "name": CLUSTER,
        "type": "EDS",
        "eds_cluster_config": {"eds_config": source},
        "connect_timeout": "1s",
        **_POLICIES[gateway.router],
        "common_lb_config": {"healthy_panic_threshold": {"value": _PANIC_PERCENT}},
        "track_cluster_stats": {"per_endpoint_stats": True},
        "circuit_breakers": {"thresholds": [_limits(gateway)]},
        "outlier_detection": _breaker(gateway),
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options
        },
    }


def _route(gateway: GatewaySpec) -> dict[str, Any]:
    """Timeout and retries: on another replica, after a pause drawn from 0 to the base."""
    route: dict[str, Any] = {"cluster": CLUSTER, "timeout": _duration(gateway.request_timeout_s)}
    if gateway.max_retries > 0:
        previous = "extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
        route["retry_policy"] = {
            "retry_on": "5xx",
            "num_retries": gateway.max_retries,
            "retry_host_predicate": [
                {
                    "name": "envoy.retry_host_predicates.previous_hosts",
                    "typed_config": {"@type": _TYPES + previous},
                }
            ],
            "host_selection_retry_max_attempts": _RESELECTIONS,
            "retry_back_off": {
                "base_interval": _duration(max(gateway.retry_delay_s, 0.001)),
                "max_interval": _duration(max(gateway.retry_delay_s, 0.001)),
            },
        }
    return route


def _limits(gateway: GatewaySpec) -> dict[str, Any]:
    """Envoy's limits on concurrency, which are no breaker of errors, and its retry budget."""
    return {
        "max_connections": _NO_LIMIT,
        "max_pending_requests": _NO_LIMIT,
        "max_requests": _NO_LIMIT if gateway.max_outstanding is None else gateway.max_outstanding,
        "retry_budget": {
            "budget_percent": {"value": 100.0 * gateway.retry_budget_share},
            "min_retry_concurrency": gateway.retry_budget_min,
        },
    }


def _breaker(gateway: GatewaySpec) -> dict[str, Any]:
    """Outlier detection by failure percentage alone."""
    off = dict.fromkeys(
        (
            "enforcing_consecutive_5xx",
            "enforcing_consecutive_gateway_failure",
            "enforcing_success_rate",
        ),
        0,
    )
    return {
        **off,
        "interval": _duration(gateway.breaker_interval_s),
        "base_ejection_time": _duration(gateway.base_ejection_s),
        "max_ejection_time": _duration(gateway.max_ejection_s),
        "max_ejection_percent": gateway.max_ejection_percent,
        "always_eject_one_host": False,
        "enforcing_failure_percentage": 100,
        "failure_percentage_threshold": gateway.threshold_steps * THRESHOLD_STEP_PERCENT,
        "failure_percentage_minimum_hosts": gateway.minimum_hosts,
        "failure_percentage_request_volume": gateway.request_volume,
    }


def _address(port: int) -> dict[str, Any]:
    return {"address": {"socket_address": {"address": LOOPBACK, "port_value": port}}}


def _duration(seconds: float) -> str:
    """A duration as protobuf's JSON has it."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"
