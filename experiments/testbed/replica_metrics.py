"""What a replica shows Prometheus: the names of vLLM, and its pod's CPU as cAdvisor names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ...envs.sim.series import E2E_BOUNDS_S, PROMPT_BOUNDS, TTFT_BOUNDS_S
from .step_engine import Sequence

CONTAINER: Final = "vllm"
"""Name of the pods' container."""
LAG_BOUNDS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Bucket bounds of how late iterations end."""

Readings: TypeAlias = Callable[[], "ReplicaReadings"]


class ReplicaReadings:
    """What is read at each scrape rather than counted."""

    __slots__ = ("cpu_used_s", "evictions", "kv_usage", "running", "waiting")

    def __init__(
        self, *, running: int, waiting: int, kv_usage: float, evictions: int, cpu_used_s: float
    ) -> None:
        """Requests in the batch and before it, share of the KV cache, totals since the start."""
        self.running = running
        self.waiting = waiting
        self.kv_usage = kv_usage
        self.evictions = evictions
        self.cpu_used_s = cpu_used_s


class ReplicaMetrics(Collector):
    """The metrics of one replica in a registry of their own."""

    def __init__(self, *, model: str, pod: str, namespace: str) -> None:
        """Metrics at zero; `read` must be set before the first scrape."""
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.read: Readings | None = None
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.finished = 0
        self._model = model
        self._pod = (namespace, pod, CONTAINER)

        def histogram(name: str, meaning: str, bounds: tuple[float, ...]) -> Histogram:
            made = Histogram(name, meaning, ["model_name"], registry=self.registry, buckets=bounds)
            return made.labels(model)

        self._ttft = histogram(
            "vllm:time_to_first_token_seconds", "Time to first token.", tuple(TTFT_BOUNDS_S)
        )
        self._e2e = histogram(
            "vllm:e2e_request_latency_seconds", "End-to-end latency.", tuple(E2E_BOUNDS_S)
        )
        self._prompt = histogram(
            "vllm:request_prompt_tokens", "Prompt tokens of finished ones.", tuple(PROMPT_BOUNDS)
        )
        self.lag = Histogram(
            "gatepilot_emulation_lag_seconds",
            "How late iterations ended: the machine's fault, not the model's.",
            registry=self.registry,
            buckets=LAG_BOUNDS_S,
        )
        self.registry.register(self)

    def token(self, sequence: Sequence, now_s: float) -> None:
        """Counts one output token."""
        self.generation_tokens += 1
        if sequence.emitted == 1:
            self.prompt_tokens += sequence.prompt_tokens
            self._ttft.observe(now_s - sequence.arrival_s)
        if sequence.is_finished:
            self.finished += 1
            self._e2e.observe(now_s - sequence.arrival_s)
            self._prompt.observe(sequence.prompt_tokens)

    def collect(self) -> Iterator[Metric]:
        """The values of this moment."""
        if self.read is None:
            return
        now = self.read()
        gauges = {
            "num_requests_running": ("Requests in the batch.", now.running),
            "num_requests_waiting": ("Requests waiting for the batch.", now.waiting),
            "kv_cache_usage_perc": ("Share of the KV cache in use, 0-1.", now.kv_usage),
        }
        for name, (meaning, value) in gauges.items():
            gauge = GaugeMetricFamily(f"vllm:{name}", meaning, labels=["model_name"])
            gauge.add_metric([self._model], value)
            yield gauge
        counters = {
            "prompt_tokens": ("Prompt tokens prefilled.", self.prompt_tokens),
            "generation_tokens": ("Tokens generated.", self.generation_tokens),
            "num_preemptions": ("Evictions from the KV cache.", now.evictions),
        }
        for name, (meaning, total) in counters.items():
            counter = CounterMetricFamily(f"vllm:{name}", meaning, labels=["model_name"])
            counter.add_metric([self._model], total)
            yield counter
        success = CounterMetricFamily(
            "vllm:request_success", "Finished requests.", labels=["model_name", "finished_reason"]
        )
        success.add_metric([self._model, "length"], self.finished)
        yield success
        cpu = CounterMetricFamily(
            "container_cpu_usage_seconds",
            "CPU time, by the serving profile's model.",
            labels=["namespace", "pod", "container"],
        )
        cpu.add_metric(list(self._pod), now.cpu_used_s)
        yield cpu
