"""The telemetry: a real Prometheus that scrapes gateway, replicas and cluster."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from .binaries import LOOPBACK


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusFiles:
    """One Prometheus' folder and address."""

    binary: Path
    """Its program."""
    folder: Path
    """Where its files lie."""
    port: int
    """Where it answers."""

    @property
    def config(self) -> Path:
        """The configuration."""
        return self.folder / "prometheus.yml"

    @property
    def data(self) -> Path:
        """The database."""
        return self.folder / "data"

    @property
    def command(self) -> tuple[str, ...]:
        """How it is started."""
        return (
            str(self.binary),
            f"--config.file={self.config}",
            f"--storage.tsdb.path={self.data}",
            "--storage.tsdb.retention.time=1d",
            f"--web.listen-address={LOOPBACK}:{self.port}",
            "--log.level=warn",
        )

    def write(
        self,
        scrape_interval_s: float,
        *,
        envoy_admin_port: int,
        replica_ports: Sequence[int],
        cluster_port: int,
    ) -> None:
        """Writes the configuration and forgets what an earlier testbed in this folder measured.

        Args:
            scrape_interval_s: Between two scrapes of a target.
            envoy_admin_port: Where Envoy shows its statistics.
            replica_ports: Where the replicas do.
            cluster_port: Where the launcher says what kube-state-metrics would.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.data.exists():
            shutil.rmtree(self.data)
        interval = f"{round(scrape_interval_s * 1000)}ms"
        jobs = [
            _job("envoy", "/stats/prometheus", [envoy_admin_port]),
            _job("vllm", "/metrics", replica_ports),
            _job("kube-state-metrics", "/metrics", [cluster_port]),
        ]
        content = {
            "global": {"scrape_interval": interval, "scrape_timeout": interval},
            "scrape_configs": jobs,
        }
        self.config.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def _job(name: str, path: str, ports: Sequence[int]) -> dict[str, object]:
    targets = [f"{LOOPBACK}:{port}" for port in ports]
    return {
        "job_name": name,
        "metrics_path": path,
        "static_configs": [{"targets": targets}],
    }
