"""The gateway: a real Envoy, configured to behave like the simulator's.

`bootstrap.yaml` holds everything that stays. What a controller moves lives in two places that Envoy
watches: the endpoints in `endpoints.yaml` (EDS from a file) and the breaker's threshold in a disk
layer of its runtime, a tree behind the link `runtime/current`. There is no admin layer, so nothing
can outrank that tree.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from ...envs.scenario_spec import GatewaySpec
from ...envs.schema.settings import THRESHOLD_STEP_PERCENT
from .envoy_config import bootstrap, endpoint_list
from .errors import LaunchError

THRESHOLD_KEY: Final = "outlier_detection.failure_percentage_threshold"
"""Runtime key of the breaker's threshold."""
_LONGEST_REASON: Final = 400
"""Characters of Envoy's reason that an error quotes."""
_VALIDATION_S: Final = 60.0
"""Longest time a check of the configuration may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvoyFiles:
    """One Envoy's folder and addresses."""

    binary: Path
    """Envoy's program."""
    folder: Path
    """Where its files lie."""
    port: int
    """Where clients send requests."""
    admin_port: int
    """Its administration interface."""

    @property
    def bootstrap(self) -> Path:
        """The static configuration."""
        return self.folder / "bootstrap.yaml"

    @property
    def endpoints(self) -> Path:
        """The replicas, watched by Envoy."""
        return self.folder / "endpoints.yaml"

    @property
    def runtime(self) -> Path:
        """The link to the runtime tree in force, watched by Envoy."""
        return self.folder / "runtime" / "current"

    @property
    def ejections(self) -> Path:
        """A JSON line for each ejection and each return of a replica, as Envoy writes them."""
        return self.folder / "ejections.jsonl"

    @property
    def admin_calls(self) -> Path:
        """Method and path of each call of the administration interface, a line each."""
        return self.folder / "admin.log"

    @property
    def command(self) -> tuple[str, ...]:
        """How it is started. One worker: there are few cores, and the load is small."""
        return (
            *self._common,
            *("--concurrency", "1"),
            "--disable-hot-restart",
            *("--log-level", "warning"),
        )

    @property
    def _common(self) -> tuple[str, ...]:
        return (
            str(self.binary),
            *("-c", str(self.bootstrap)),
            "--reject-unknown-dynamic-fields",
        )

    def write(self, gateway: GatewaySpec, replica_ports: Sequence[int]) -> None:
        """Writes all files anew.

        Args:
            gateway: Routing, breaker, retries and timeouts.
            replica_ports: Where the replicas listen.

        Raises:
            LaunchError: Envoy has no such router.
        """
        content = bootstrap(
            gateway,
            port=self.port,
            admin_port=self.admin_port,
            endpoints=self.endpoints,
            runtime=self.runtime,
            ejections=self.ejections,
            admin_calls=self.admin_calls,
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        for log in (self.ejections, self.admin_calls):
            log.unlink(missing_ok=True)
        _write_yaml(self.bootstrap, content)
        self.write_endpoints(replica_ports)
        self._write_runtime(gateway.threshold_steps * THRESHOLD_STEP_PERCENT)

    def write_endpoints(self, replica_ports: Sequence[int]) -> None:
        """Puts a new list of replicas in place of the old one: Envoy only notices a rename."""
        _write_yaml(self.endpoints, endpoint_list(replica_ports))

    def check(self) -> None:
        """Lets Envoy itself check the configuration.

        Raises:
            LaunchError: It refuses it.
        """
        done = subprocess.run(  # noqa: S603
            [*self._common, "--mode", "validate", "--log-level", "error"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_VALIDATION_S,
        )
        if done.returncode != 0:
            said = " ".join((done.stderr or done.stdout).split())
            reason = said.rpartition(f"'{self.bootstrap}': ")[2]
            msg = f"envoy refuses {self.bootstrap}: {reason[:_LONGEST_REASON]}"
            raise LaunchError(msg)

    def _write_runtime(self, threshold_percent: int) -> None:
        """A tree with a file a key, and the link to it."""
        tree = self.runtime.with_name("start")
        path = tree.joinpath(*THRESHOLD_KEY.split("."))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{threshold_percent}\n", encoding="ascii")
        fresh = self.runtime.with_name(".next")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(tree.name)
        os.replace(fresh, self.runtime)


def _write_yaml(path: Path, content: dict[str, Any]) -> None:
    """Writes a file that is never seen half written."""
    temporary = path.with_name(f".{path.name}.partial")
    temporary.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    os.replace(temporary, path)
