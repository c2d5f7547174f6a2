"""A gateway and its replicas as exporters whose counters grow exactly as told."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial

from .peers import Exporter

TTFT_BOUNDS = (0.1, 0.25, 0.5, 1.0)


@dataclass
class Replica:
    """What one replica exports. Counters are rates x the time since the world began."""

    tokens_per_s: float = 300.0
    running: float = 6.0
    waiting: float = 1.0
    kv_usage: float = 0.4
    cpu_cores: float = 1.0
    ttft_per_s: tuple[float, ...] = (2.0, 4.0, 3.0, 1.0)
    """First tokens a second in each of the buckets of `TTFT_BOUNDS`."""
    kv_name: str = "kv_cache_usage_perc"
    exporter: Exporter = field(default_factory=lambda: Exporter(str))
    """Where it listens; the text comes from its world."""

    @property
    def address(self) -> str:
        return self.exporter.address


class World:
    """One Envoy, replicas, and what kube-state-metrics and cAdvisor say of them."""

    def __init__(self, replicas: int = 2) -> None:
        self.begun = time.monotonic()
        self.arrivals_per_s = 20.0
        self.answers_per_s = {"2": 18.0, "4": 0.5, "5": 1.0}
        self.broken_per_s = 0.25
        self.too_many_per_s: float | None = 0.25
        self.endpoint_failures_per_s = [4.0] + [1.0] * (replicas - 1)
        self.endpoint_successes_per_s = 16.0
        self.ejected = 1.0
        self.spec, self.available = replicas + 1.0, float(replicas)
        self.terminating: float | None = 2.0
        self.pods = replicas + 3
        self.replicas = [Replica() for _ in range(replicas)]
        for replica in self.replicas:
            replica.exporter.text = partial(self.replica_text, replica)
        self.endpoints = list(self.replicas)
        self.envoy = Exporter(self.envoy_text)
        self.kube = Exporter(self.kube_text)

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.begun

    def close(self) -> None:
        for exporter in (self.envoy, self.kube, *(r.exporter for r in self.replicas)):
            exporter.close()

    def envoy_text(self) -> str:
        t = self.age_s
        http = 'envoy_http_conn_manager_prefix="ingress"'
        llm = 'envoy_cluster_name="llm"'
        lines = [f"envoy_http_downstream_rq_total{{{http}}} {self.arrivals_per_s * t}"]
        for code in "12345":
            count = self.answers_per_s.get(code, 0.0) * t
            labels = f'{http},envoy_response_code_class="{code}"'
            lines.append(f"envoy_http_downstream_rq_xx{{{labels}}} {count}")
        lines.append(f"envoy_http_downstream_rq_tx_reset{{{http}}} {self.broken_per_s * t}")
        if self.too_many_per_s is not None:
            labels = f'{llm},envoy_response_code="429"'
            lines.append(f"envoy_cluster_upstream_rq{{{labels}}} {self.too_many_per_s * t}")
        for replica, failures in zip(self.endpoints, self.endpoint_failures_per_s, strict=False):
            labels = f'{llm},envoy_endpoint_address="{replica.address}"'
            successes = self.endpoint_successes_per_s
            for name, rate in (
                ("error", failures),
                ("success", successes),
                ("total", failures + successes),
            ):
                lines.append(f"envoy_cluster_endpoint_rq_{name}{{{labels}}} {rate * t}")
        for name, value in (
            ("outlier_detection_ejections_active", self.ejected),
            ("membership_total", len(self.endpoints)),
            ("membership_healthy", len(self.endpoints) - self.ejected),
        ):
            lines.append(f"envoy_cluster_{name}{{{llm}}} {value}")
        return "\n".join(lines) + "\n"

    def replica_text(self, replica: Replica) -> str:
        t = self.age_s
        model = 'model_name="m"'
        lines = [
            f"vllm:num_requests_running{{{model}}} {replica.running}",
            f"vllm:num_requests_waiting{{{model}}} {replica.waiting}",
            f"vllm:{replica.kv_name}{{{model}}} {replica.kv_usage}",
            f"vllm:prompt_tokens_total{{{model}}} {replica.tokens_per_s * 0.75 * t}",
            f"vllm:generation_tokens_total{{{model}}} {replica.tokens_per_s * 0.25 * t}",
        ]
        for name, bounds in (
            ("time_to_first_token_seconds", TTFT_BOUNDS),
            ("e2e_request_latency_seconds", tuple(10 * bound for bound in TTFT_BOUNDS)),
            ("request_prompt_tokens", tuple(1000 * bound for bound in TTFT_BOUNDS)),
        ):
            total = 0.0
            for bound, rate in zip((*bounds, "+Inf"), (*replica.ttft_per_s, 0.0), strict=True):
                total += rate * t
                lines.append(f'vllm:{name}_bucket{{{model},le="{bound}"}} {total}')
            lines.append(f"vllm:{name}_count{{{model}}} {total}")
        return "\n".join(lines) + "\n"

    def kube_text(self) -> str:
        t = self.age_s
        which = 'namespace="default",deployment="vllm"'
        lines = [
            f"kube_deployment_spec_replicas{{{which}}} {self.spec}",
            f"kube_deployment_status_replicas{{{which}}} {self.spec}",
            f"kube_deployment_status_replicas_available{{{which}}} {self.available}",
        ]
        if self.terminating is not None:
            lines.append(
                f"kube_deployment_status_terminating_replicas{{{which}}} {self.terminating}"
            )
        for i in range(self.pods):
            pod = f'namespace="default",pod="vllm-{i}"'
            lines.append(f'kube_pod_status_phase{{{pod},phase="Running"}} 1')
            lines.append(f'kube_pod_status_phase{{{pod},phase="Pending"}} 0')
            is_ready = i < len(self.replicas)
            lines.append(f'kube_pod_status_ready{{{pod},condition="true"}} {int(is_ready)}')
            limit = f'{pod},container="vllm",resource="cpu",unit="core"'
            lines.append(f"kube_pod_container_resource_limits{{{limit}}} 4")
            cores = self.replicas[i].cpu_cores if is_ready else 4.0
            labels = f'{pod},container="vllm"'
            lines.append(f"container_cpu_usage_seconds_total{{{labels}}} {cores * t}")
            lines.append(f"DCGM_FI_DEV_FB_USED{{{pod}}} 30000")
            lines.append(f"DCGM_FI_DEV_FB_FREE{{{pod}}} 10000")
        return "\n".join(lines) + "\n"
