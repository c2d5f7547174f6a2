"""The self-healing loop of the source documents: detect, plan, verify, keep or roll back.

Formula: (`source-systems.md`, D12)

- detect: CPU > 90 % for 60 s, and more than 5 % of the answers failed;
- plan: one replica more;
- verify for 300 s: failed share at most 5 %, P95 at most 200 + 10 ms;
- keep it if all of that time was good; any breach rolls back: one replica less.

Regimes: watching, starting (the planned replica is not ready), verifying.

Version: no upstream; the article that the project grows out of. "200 ms +- 10" is read as an upper
bound: an answer that is faster breaks nothing. Printed is a diagnosis between detecting and
planning; its only cause here is too little capacity, the one plan a gateway's settings have.

Quirks kept: it never removes a replica but its own. It plans where CPU is high *and* answers fail,
so a gateway that is merely slow is left alone. A verdict takes at least 300 s, and what happens
meanwhile starts no second plan. After a rollback it detects anew and tries the same again.

How a snapshot stands for its inputs. What it does not say is not guessed: hold.

| printed | here |
|---|---|
| CPU > 90 % for 60 s | `cpu_utilization` above 0.9 at every look of 60 s |
| 5xx | `error_rate`, time-outs and rejections included |
| P95 | of the time to the first token, or end-to-end; 0.21 s is far below what an LLM needs |
| verify from the plan on | one window after the planned replica is ready |
| 300 s | known looks only; a missing one counts neither way |

A look without a CPU share starts its time anew. Verified from the plan on, a plan would be judged
by the fault that it cures. A planned replica that never becomes ready is waited for. Only replicas
move.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from ...envs.schema.settings import GatewaySettings, Limits
from ...envs.schema.snapshot import MetricsSnapshot
from .request_sample import Latency, latency_s
from .site import Site, Suggest

_ROUNDING_S: Final = 1e-6


@dataclass(frozen=True, slots=True)
class SelfHealingParams:
    """What is a fault, and what is cured."""

    cpu_limit: float = 0.9
    """CPU share above which it is busy, 0-1."""
    busy_s: float = 60.0
    """How long it must be busy."""
    error_limit: float = 0.05
    """Failed share above which it is faulty, and above which a verification fails, 0-1."""
    latency_limit_s: float = 0.21
    """P95 above which a verification fails, seconds."""
    verify_s: float = 300.0
    """How long it must be well to keep the replica."""
    latency: Latency = "ttft"
    """Which P95."""

    def __post_init__(self) -> None:
        """Refuses what means nothing.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        for name in ("cpu_limit", "error_limit"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 0-1")
        for name in ("busy_s", "latency_limit_s", "verify_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value}, expected a number above 0")

    def make(self, site: Site, *, seed: int) -> SelfHealing:
        """A controller for one episode; the seed plays no part."""
        del seed
        return SelfHealing(self, site.limits, site.tick_s, site.window_s)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> SelfHealingParams:
        """Bounds and times."""
        del site
        return cls(
            cpu_limit=suggest.suggest_float("cpu_limit", 0.1, 1.0),
            busy_s=suggest.suggest_float("busy_s", 15.0, 300.0, log=True),
            error_limit=suggest.suggest_float("error_limit", 0.001, 0.5, log=True),
            latency_limit_s=suggest.suggest_float("latency_limit_s", 0.1, 60.0, log=True),
            verify_s=suggest.suggest_float("verify_s", 30.0, 600.0, log=True),
            latency=suggest.suggest_categorical("latency", ["ttft", "e2e"]),
        )


@dataclass(slots=True)
class SelfHealingState:
    """What changes from look to look."""

    looks: int = 0
    """Looks so far."""
    phase: Literal["watching", "starting", "verifying"] = "watching"
    """Where the loop stands."""
    busy_since_s: float | None = None
    """First of the looks in a row that were busy; `None`: the last was not."""
    planned: int = 0
    """Replicas that were asked for."""
    judged_from_s: float = 0.0
    """From when on a window holds nothing from before the replica was ready."""
    well_s: float = 0.0
    """Time that was well, of the verification."""


@dataclass(slots=True)
class SelfHealing:
    """The controller; one instance an episode. Moves replicas only."""

    params: SelfHealingParams
    limits: Limits
    tick_s: float
    window_s: float
    state: SelfHealingState = field(default_factory=SelfHealingState)

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """One step of the loop."""
        state = self.state
        now_s = state.looks * self.tick_s
        state.looks += 1
        if state.phase == "watching":
            if self._is_faulty(snapshot, now_s):
                return self._planned(settings)
        elif state.phase == "starting":
            ready = snapshot.replicas_ready
            if ready is not None and ready >= state.planned:
                state.phase, state.well_s = "verifying", 0.0
                state.judged_from_s = now_s + self.window_s
        elif now_s >= state.judged_from_s - _ROUNDING_S:
            return self._verified(snapshot, settings)
        return settings

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        state = self.state
        return {
            "looks": state.looks,
            "phase": state.phase,
            "busy_since_s": state.busy_since_s,
            "planned": state.planned,
            "judged_from_s": state.judged_from_s,
            "well_s": state.well_s,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        self.state = SelfHealingState(**saved)

    def _is_faulty(self, snapshot: MetricsSnapshot, now_s: float) -> bool:
        state, cpu = self.state, snapshot.cpu_utilization
        if cpu is None or not cpu > self.params.cpu_limit:
            state.busy_since_s = None
            return False
        if state.busy_since_s is None:
            state.busy_since_s = now_s
        if now_s - state.busy_since_s < self.params.busy_s - _ROUNDING_S:
            return False
        return snapshot.error_rate is not None and snapshot.error_rate > self.params.error_limit

    def _planned(self, settings: GatewaySettings) -> GatewaySettings:
        size = self.limits.clip(settings.replicas + 1)
        if size <= settings.replicas:
            return settings
        self.state.phase, self.state.planned = "starting", size
        return replace(settings, replicas=size)

    def _verified(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        state, seconds = self.state, latency_s(snapshot, self.params.latency)
        if seconds is None or snapshot.error_rate is None:
            return settings
        is_slow = seconds > self.params.latency_limit_s
        if is_slow or snapshot.error_rate > self.params.error_limit:
            self._watch()
            return replace(settings, replicas=self.limits.clip(settings.replicas - 1))
        state.well_s += self.tick_s
        if state.well_s >= self.params.verify_s - _ROUNDING_S:
            self._watch()
        return settings

    def _watch(self) -> None:
        self.state.phase, self.state.busy_since_s = "watching", None
