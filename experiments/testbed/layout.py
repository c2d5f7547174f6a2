"""Where everything of one testbed lies and listens."""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ..files import check_folder, writing
from .binaries import LOOPBACK, find_binary, free_ports
from .envoy import EnvoyFiles
from .errors import LaunchError
from .prometheus import PrometheusFiles

_LOCK: Final = ".lock"
"""Held while a testbed runs in the folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Folder, ports and programs of one testbed."""

    folder: Path
    """Holds everything that it writes."""
    envoy: EnvoyFiles
    """The gateway."""
    prometheus: PrometheusFiles
    """The telemetry."""
    replica_ports: tuple[int, ...]
    """Where the replicas listen."""
    cluster_port: int
    """Where the launcher says what kube-state-metrics would."""

    @classmethod
    def choose(cls, folder: Path, replicas: int) -> Self:
        """Finds the programs, free ports and a folder.

        Raises:
            LaunchError: A program is missing.
            OutputError: The folder cannot be written to.
        """
        envoy, prometheus = find_binary("envoy"), find_binary("prometheus")
        check_folder(folder)
        folder = folder.absolute()
        with writing(folder):
            for name in ("logs", "replicas"):
                (folder / name).mkdir(parents=True, exist_ok=True)
        gateway, admin, telemetry, cluster, *rest = free_ports(4 + replicas)
        return cls(
            folder=folder,
            envoy=EnvoyFiles(binary=envoy, folder=folder / "envoy", port=gateway, admin_port=admin),
            prometheus=PrometheusFiles(
                binary=prometheus, folder=folder / "prometheus", port=telemetry
            ),
            replica_ports=tuple(rest),
            cluster_port=cluster,
        )

    @property
    def pods(self) -> tuple[str, ...]:
        """Names of the replicas."""
        return tuple(f"llm-{i}" for i in range(len(self.replica_ports)))

    @property
    def urls(self) -> dict[str, str]:
        """What can be called."""
        ports = {
            "gateway": self.envoy.port,
            "envoy_admin": self.envoy.admin_port,
            "prometheus": self.prometheus.port,
            "cluster_metrics": self.cluster_port,
            **dict(zip(self.pods, self.replica_ports, strict=True)),
        }
        return {name: f"http://{LOOPBACK}:{port}" for name, port in ports.items()}

    @property
    def replicas_by_address(self) -> dict[str, str]:
        """Address and port to name."""
        return {
            f"{LOOPBACK}:{port}": pod
            for pod, port in zip(self.pods, self.replica_ports, strict=True)
        }

    @property
    def requests(self) -> Path:
        """One row a request of the load."""
        return self.folder / "requests.csv"

    @property
    def load_trace(self) -> Path:
        """What is replayed, as a plain trace."""
        return self.folder / "load.csv"

    @property
    def description(self) -> Path:
        """Urls, process ids and files of the running testbed, as JSON."""
        return self.folder / "testbed.json"

    @property
    def bridge(self) -> Path:
        """A configuration for the bridge."""
        return self.folder / "bridge.yaml"

    def replica_config(self, pod: str) -> Path:
        """Configuration file of a replica."""
        return self.folder / "replicas" / f"{pod}.json"

    def log(self, part: str) -> Path:
        """Log file of a part."""
        return self.folder / "logs" / f"{part}.log"

    def lock(self, stack: ExitStack) -> None:
        """Takes the folder for this process, until the stack unwinds.

        Raises:
            LaunchError: Another testbed runs in it.
            OutputError: It cannot be written to.
        """
        with writing(self.folder):
            handle = stack.enter_context((self.folder / _LOCK).open("w"))
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            msg = f"{self.folder}: another testbed runs in this folder; choose another --out"
            raise LaunchError(msg) from None
        os.set_inheritable(handle.fileno(), False)
