"""What kube-state-metrics would say of the replicas, from the launcher's processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .replica_metrics import CONTAINER

NAMESPACE: Final = "gatepilot"
"""Namespace of the deployment and its pods."""
DEPLOYMENT: Final = "llm"
"""Name of the deployment; pods are `llm-0`, `llm-1`, ..."""
CPU_LIMIT_CORES: Final = 1.0
"""CPU limit of a pod: the profile's CPU model speaks of shares of it."""


class ClusterMetrics(Collector):
    """One deployment."""

    def __init__(self, pods: Sequence[str], is_ready: Callable[[str], bool]) -> None:
        """Metrics of a deployment that asks for exactly these pods.

        Args:
            pods: Their names.
            is_ready: Whether one takes requests now.
        """
        self._pods = tuple(pods)
        self._is_ready = is_ready

    def collect(self) -> Iterator[Metric]:
        """The values of this moment."""
        ready = {pod: self._is_ready(pod) for pod in self._pods}
        requested, available = len(ready), sum(ready.values())
        values = {
            "kube_deployment_spec_replicas": ("Pods asked for.", requested),
            "kube_deployment_status_replicas": ("Pods there are.", requested),
            "kube_deployment_status_replicas_ready": ("Pods that are ready.", available),
            "kube_deployment_status_replicas_available": ("Pods that take requests.", available),
            "kube_deployment_status_replicas_unavailable": (
                "Pods that do not.",
                requested - available,
            ),
        }
        for name, (meaning, value) in values.items():
            gauge = GaugeMetricFamily(name, meaning, labels=["namespace", "deployment"])
            gauge.add_metric([NAMESPACE, DEPLOYMENT], value)
            yield gauge
        limits = GaugeMetricFamily(
            "kube_pod_container_resource_limits",
            "Limits of the pods' containers.",
            labels=["namespace", "pod", "container", "resource", "unit"],
        )
        states = GaugeMetricFamily(
            "kube_pod_status_ready",
            "Whether pods are ready.",
            labels=["namespace", "pod", "condition"],
        )
        phases = GaugeMetricFamily(
            "kube_pod_status_phase", "Phases of pods.", labels=["namespace", "pod", "phase"]
        )
        for pod, is_ready in ready.items():
            limits.add_metric([NAMESPACE, pod, CONTAINER, "cpu", "core"], CPU_LIMIT_CORES)
            states.add_metric([NAMESPACE, pod, "true"], is_ready)
            states.add_metric([NAMESPACE, pod, "false"], not is_ready)
            phases.add_metric([NAMESPACE, pod, "Running"], 1)  # a dead container is restarted
        yield from (limits, states, phases)
