"""Where in a Prometheus one gateway and its replicas are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ...envs.schema.fields import FIELD_INDEX
from ..errors import SettingsError
from .query import CRITICAL_FIELDS


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueParams:
    """Names and labels that the queries select by. One gateway is one Envoy."""

    cluster: str
    """Envoy's cluster of the replicas (label `envoy_cluster_name`)."""
    model: str
    """Model name in the replicas' metrics (label `model_name`)."""
    conn_manager: str = "ingress"
    """Stat prefix of Envoy's HTTP connection manager."""
    gateway_job: str = "envoy"
    """Prometheus job that scrapes Envoy."""
    gateway_instance: str = ".+"
    """Anchored regular expression for the gateway's instance; it must match one."""
    rate_limit_prefix: str | None = None
    """Stat prefix of Envoy's local rate limiter, whose 429 count as failed answers."""
    replica_job: str = "vllm"
    """Prometheus job that scrapes the replicas."""
    endpoint_label: str | None = "instance"
    """Label of the replicas' series that equals Envoy's endpoint address, which needs Envoy's
    per-endpoint statistics. It tells replicas that take requests from starting and draining ones.
    `None`: all targets count, and all must be up."""
    request_volume: int = 10
    """Answers in the window below which a replica's failure share says nothing: the breaker's
    `failure_percentage_request_volume`."""
    replica_counts: Literal["kubernetes", "envoy"] = "kubernetes"
    """Where replicas are counted: kube-state-metrics, or the cluster's membership."""
    namespace: str = "default"
    """Kubernetes namespace of the replicas."""
    deployment: str | None = None
    """Kubernetes deployment of the replicas; needed for `kubernetes`."""
    pod: str | None = None
    """Anchored regular expression for the replicas' pods; by default from the deployment's name."""
    weights_gib: float | None = None
    """Weights in a replica's accelerator memory, GiB. With the next two: VRAM use is computed."""
    kv_gib: float | None = None
    """KV cache of a replica, GiB."""
    vram_gib: float | None = None
    """Accelerator memory of a replica, GiB."""
    scrape_interval_s: float = 5.0
    """Scrape interval of the gateway and of the replicas."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Field of the contract to the query that replaces the catalogue's."""
    disabled: tuple[str, ...] = ()
    """Fields that are not asked for, and so are missing."""

    def __post_init__(self) -> None:
        """Refuses what cannot be turned into queries.

        Raises:
            SettingsError: It names the key and what would be right.
        """
        for name in ("cluster", "model", "conn_manager", "gateway_job", "replica_job"):
            if not getattr(self, name):
                msg = f"catalogue: {name} is empty, expected a name"
                raise SettingsError(msg)
        if self.replica_counts == "kubernetes" and not self.deployment:
            msg = "catalogue: deployment is needed, or replica_counts: envoy without Kubernetes"
            raise SettingsError(msg)
        if not self.scrape_interval_s > 0:
            msg = f"catalogue: scrape_interval_s is {self.scrape_interval_s}, expected more than 0"
            raise SettingsError(msg)
        if self.request_volume < 1:
            msg = f"catalogue: request_volume is {self.request_volume}, expected 1 or more"
            raise SettingsError(msg)
        self._check_sizes()
        self._check_fields()

    def _check_sizes(self) -> None:
        sizes = (self.weights_gib, self.kv_gib, self.vram_gib)
        given = [size for size in sizes if size is not None]
        if given and (len(given) < len(sizes) or min(given) < 0 or given[-1] <= 0):
            shown = ", ".join(str(size) for size in sizes)
            msg = (
                f"catalogue: weights_gib, kv_gib, vram_gib are {shown}; "
                "expected all three as sizes in GiB, or none"
            )
            raise SettingsError(msg)

    def _check_fields(self) -> None:
        for key, names in (("overrides", self.overrides), ("disabled", self.disabled)):
            for name in names:
                if name not in FIELD_INDEX:
                    msg = f"catalogue: {key}: {name!r} is no field of the contract"
                    raise SettingsError(msg)
        if "time_of_day" in self.overrides:
            msg = "catalogue: overrides: time_of_day is missing in training, so it is here"
            raise SettingsError(msg)
        for name in self.disabled:
            if name in CRITICAL_FIELDS:
                msg = f"catalogue: disabled: without {name} nothing is ever decided"
                raise SettingsError(msg)

    @property
    def pod_pattern(self) -> str | None:
        """Regular expression for the replicas' pods; `None`: nothing is known of pods."""
        return self.pod or (f"{self.deployment}-.+" if self.deployment else None)
