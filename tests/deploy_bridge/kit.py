"""A gateway that a test can steer: its readings, its scripted Prometheus, its configuration."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

import yaml

from gatepilot.agents.baselines.hpa import HpaParams, MetricTarget
from gatepilot.agents.baselines.registry import make_controller
from gatepilot.agents.baselines.site import Site
from gatepilot.deploy_bridge.controller import Controller, ControllerParams
from gatepilot.deploy_bridge.metrics.catalogue_params import CatalogueParams
from gatepilot.deploy_bridge.metrics.queries import catalogue
from gatepilot.deploy_bridge.metrics.source import Problem, Reading, Sample
from gatepilot.deploy_bridge.proposals import SealedPolicy
from gatepilot.deploy_bridge.site import policy_advisor
from gatepilot.envs.schema.fields import FIELDS
from gatepilot.envs.schema.fingerprint import Contract
from gatepilot.envs.schema.settings import Limits

from .metrics.peers import Reply, ScriptedServer, said, scripted, vector
from .tiny_artifact import CONTRACT, SITE, TICK_S

LIMITS = Limits(1, 8)
START_S = 1_800_000_000.0
"""Wall time at which virtual clocks start."""
GOOD_VALUES: Mapping[str, float] = {
    "replicas_requested": 4.0,
    "replicas_ready": 4.0,
    "replicas_starting": 0.0,
    "replicas_draining": 0.0,
    "breaker_threshold": 0.5,
    "request_rate_rps": 20.0,
    "error_rate": 0.01,
    "cpu_utilization": 0.4,
    "ttft_p95_s": 0.3,
    "kv_usage": 0.3,
    "running": 12.0,
    "waiting": 1.0,
    "samples": 900.0,
}


def reading(
    *problems: Problem,
    without: tuple[str, ...] = (),
    **changes: Any,  # noqa: ANN401
) -> Reading:
    """A reading; the changes replace values, `without` leaves fields out."""
    values = {k: v for k, v in {**GOOD_VALUES, **changes}.items() if k not in without}
    samples = tuple(Sample(name, f"query of {name}", value) for name, value in values.items())
    return Reading(values, problems, samples)


BLIND = reading(Problem("stale", "gateway_up", "the target is down"))


def hpa(limits: Limits = LIMITS, tick_s: float = TICK_S) -> Any:  # noqa: ANN401
    """The incumbent of most tests: eight outstanding requests a replica."""
    params = HpaParams(metrics=(MetricTarget("outstanding", 8.0),))
    return make_controller("hpa", Site(limits, tick_s), params=params)


def make_bridge_controller(policy: SealedPolicy, **changes: Any) -> Controller:  # noqa: ANN401
    """A controller as the wiring would make it."""
    params = replace(ControllerParams(LIMITS), **changes)
    return Controller(params, policy, hpa(), policy_advisor(SITE, policy.manifest, "kit"))


class Moment(TypedDict):
    """The clocks, as `Controller.tick` takes them."""

    now_s: float
    monotonic_s: float


@dataclass
class VirtualClock:
    """Both clocks of one tick after the other."""

    now_s: float = START_S
    monotonic_s: float = 1000.0
    tick_s: float = TICK_S

    def next(self, *, jump_s: float = 0.0, ticks: float = 1.0) -> Moment:
        """The clocks `ticks` later, after the wall clock has jumped."""
        self.monotonic_s += ticks * self.tick_s
        self.now_s += ticks * self.tick_s + jump_s
        return {"now_s": self.now_s, "monotonic_s": self.monotonic_s}


@dataclass
class ScriptedSource:
    """Gives out readings in order; the last one stays."""

    readings: list[Reading] = field(default_factory=lambda: [reading()])
    at: int = 0

    def read(self, now_s: float) -> Reading:
        del now_s
        self.at += 1
        return self.readings[min(self.at, len(self.readings)) - 1]


ASKED = ("request_rate_rps", "error_rate", "replicas_requested", "replicas_ready", "waiting")
"""Fields that the scripted Prometheus is asked for: few, because each answer takes its time."""
CATALOGUE: Mapping[str, Any] = {
    "cluster": "llm",
    "model": "m",
    "deployment": "llm",
    "scrape_interval_s": 0.25,
    "overrides": {"breaker_threshold": "threshold_in_force"},
    "disabled": [
        f.name for f in FIELDS if f.name not in (*ASKED, "breaker_threshold", "time_of_day")
    ],
}


class Gateway:
    """What a scripted Prometheus says; a test changes `values`, or sets `several` or `is_mute`."""

    def __init__(self, contract: Contract) -> None:
        self.values = dict(GOOD_VALUES)
        self.several: set[str] = set()
        self.is_mute = False
        self.server: ScriptedServer | None = None
        self._queries = {q.text: q for q in catalogue(_names(), contract)}

    @property
    def url(self) -> str:
        assert self.server is not None
        return self.server.url

    def answer(self, query: str, at_s: float | None) -> Reply:
        """One query's answer."""
        if self.is_mute:
            return 503, b"going down"
        at_s = at_s or time.time()
        asked = self._queries.get(query)
        if asked is None:
            return said(vector(at_s=at_s))
        if asked.kind == "freshness":
            value: float | None = max(asked.low, min(asked.high, 1.0))
        else:
            value = self.values.get(asked.name)
        if asked.name in self.several:
            return said(vector(1.0, 2.0, at_s=at_s))
        return said(vector(*([] if value is None else [value]), at_s=at_s))


def _names() -> CatalogueParams:
    return CatalogueParams(**{**CATALOGUE, "disabled": tuple(CATALOGUE["disabled"])})


@contextmanager
def gateway(contract: Contract) -> Iterator[Gateway]:
    """A gateway whose Prometheus answers on loopback."""
    made = Gateway(contract)
    with scripted(made.answer) as server:
        made.server = server
        yield made


def write_bridge(folder: Path, url: str, **changes: Any) -> Path:  # noqa: ANN401
    """A configuration for the artifact in `folder / "artifact"`."""
    content: dict[str, Any] = {
        "name": "tiny",
        "artifact": "artifact",
        "allow_unsigned": True,
        "state_dir": "state",
        "limits": {"min_replicas": LIMITS.min_replicas, "max_replicas": LIMITS.max_replicas},
        "prometheus": {"url": url, "connect_timeout_s": 0.2, "read_timeout_s": 0.3}
        | {"deadline_s": 0.4},
        "catalogue": dict(CATALOGUE),
        "incumbent": {
            "controller": "hpa",
            "params": {"metrics": [{"metric": "outstanding", "target": 8.0}]},
        },
        "serve": {"port": 0},
    }
    path = folder / "bridge.yaml"
    path.write_text(yaml.safe_dump(content | changes))
    return path


FAST = replace(CONTRACT, control_interval_s=0.5)
"""The contract of bridges that really run."""
Cli = Callable[..., tuple[int, str, str]]
"""The command line in this process: exit code, standard output, standard error."""
BRIDGE = (sys.executable, "-m", "gatepilot.deploy_bridge")


def start(*arguments: str | Path, stderr: Path) -> subprocess.Popen[bytes]:
    """`gatepilot-bridge` as a process of its own."""
    with stderr.open("wb") as log:
        return subprocess.Popen([*BRIDGE, *map(str, arguments)], stderr=log)  # noqa: S603


def finished(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`gatepilot-bridge`, run to its end in a process of its own."""
    return subprocess.run(  # noqa: S603
        [*BRIDGE, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def parsed(text: str) -> dict[str, Any]:
    """The one JSON object that a command prints."""
    assert len(text.splitlines()) == 1, text
    found = json.loads(text)
    assert isinstance(found, dict)
    return found
