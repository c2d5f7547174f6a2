"""Writes every file of a testbed before anything starts."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.csv

from .binaries import LOOPBACK
from .bridge_file import bridge_yaml
from .cluster_metrics import NAMESPACE
from .errors import LaunchError
from .layout import Layout
from .load import LoadConfig
from .plan import Plan
from .replica_config import ReplicaConfig

DRAIN_S: Final = 60.0
"""What requests under way get once the load is over."""


def write_files(plan: Plan, layout: Layout) -> None:
    """Writes the configurations and the load; what an earlier testbed left behind is replaced.

    Raises:
        LaunchError: Envoy cannot do what the scenario's gateway does.
    """
    for log in layout.folder.joinpath("logs").glob("*.log"):
        log.unlink()
    layout.envoy.write(plan.scenario.gateway, layout.replica_ports)
    layout.prometheus.write(
        plan.scenario.telemetry.scrape_interval_s,
        envoy_admin_port=layout.envoy.admin_port,
        replica_ports=layout.replica_ports,
        cluster_port=layout.cluster_port,
    )
    for number, (pod, port) in enumerate(zip(layout.pods, layout.replica_ports, strict=True)):
        ReplicaConfig(
            name=pod,
            namespace=NAMESPACE,
            model=plan.model,
            host=LOOPBACK,
            port=port,
            seed=plan.seed * len(layout.pods) + number,
            step=plan.step,
            cpu=plan.cpu,
        ).write(layout.replica_config(pod))
    if plan.requests is not None:
        columns = ("arrival_s", "prompt_tokens", "output_tokens")
        table = pa.table({name: getattr(plan.requests, name) for name in columns})
        options = pyarrow.csv.WriteOptions(quoting_header="none")
        pyarrow.csv.write_csv(table, layout.load_trace, options)
    layout.bridge.write_text(bridge_yaml(plan, layout), encoding="utf-8")


def load_config(plan: Plan, layout: Layout) -> LoadConfig:
    """What the load generator is told.

    Raises:
        LaunchError: The plan has no load.
    """
    if plan.requests is None:
        msg = "there is no load"
        raise LaunchError(msg)
    return LoadConfig(
        url=layout.urls["gateway"],
        model=plan.model,
        trace=str(layout.load_trace),
        span_s=plan.requests.span_s,
        seconds=plan.seconds,
        drain_s=DRAIN_S,
        out=str(layout.requests),
        replicas=layout.replicas_by_address,
    )
