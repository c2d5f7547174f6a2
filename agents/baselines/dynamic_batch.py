"""The dynamic batch size of the source documents, as an admission limit for each replica.

Formula: with b the batch size (`source-systems.md`, B5)

- latency > 50 ms and b > 16: `b = max(8, b // 2)`;
- else, if CPU < 60 % and b < 256: `b = min(256, 2 b)`;
- else b stays. These are the regimes.

Version: no upstream; the article that the project grows out of. It looks every 200 ms and prints no
size to start with; 32 is this project's choice. The cap on doubling is our reading: printed are the
two conditions alone, and from a power of two nothing passes 256.

Quirk kept: at 16 the first condition is over whatever the latency, and a low CPU then doubles. So a
service that is slow for another reason than its CPU swings between 16 and 32 for ever.

How a snapshot stands for its inputs. A gateway cannot set an engine's batch size, so **the size is
the admission limit of one replica, times the ready ones**: `max_outstanding = b * replicas_ready`.

| printed | here |
|---|---|
| latency | P95 of the time to the first token, or end-to-end |
| CPU | `cpu_utilization` |
| every 200 ms | one evaluation a tick |

An LLM's latency is above 50 ms by nature, so the default soon stands at 16 to 32; a search may move
the bound. Without latency, CPU or ready replicas it holds. Replicas and threshold stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot
from .request_sample import Latency, latency_s
from .site import Site, Suggest

LEAST_SIZE: Final = 8
HALVED_ABOVE: Final = 16
LARGEST_SIZE: Final = 256
_START_SIZE: Final = 32


@dataclass(frozen=True, slots=True)
class DynamicBatchParams:
    """The two bounds, and where it starts."""

    latency_limit_s: float = 0.05
    """Latency above which the size is halved, seconds."""
    cpu_limit: float = 0.6
    """CPU share below which it is doubled, 0-1."""
    start_size: int = _START_SIZE
    """Size at the start, 1-256."""
    latency: Latency = "ttft"
    """Which P95 is the latency."""

    def __post_init__(self) -> None:
        """Refuses bounds that mean nothing.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        if not self.latency_limit_s > 0:
            msg = f"latency_limit_s is {self.latency_limit_s}, expected a number above 0"
            raise ValueError(msg)
        if not 0 <= self.cpu_limit <= 1:
            raise ValueError(f"cpu_limit is {self.cpu_limit}, expected 0-1")
        if not 1 <= self.start_size <= LARGEST_SIZE:
            msg = f"start_size is {self.start_size}, expected 1-{LARGEST_SIZE}"
            raise ValueError(msg)

    def make(self, site: Site, *, seed: int) -> DynamicBatch:
        """A controller for one episode; site and seed play no part."""
        del site, seed
        return DynamicBatch(self, self.start_size)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> DynamicBatchParams:
        """Both bounds, the start and the latency."""
        del site
        return cls(
            latency_limit_s=suggest.suggest_float("latency_limit_s", 0.05, 60.0, log=True),
            cpu_limit=suggest.suggest_float("cpu_limit", 0.1, 1.0),
            start_size=suggest.suggest_int("start_size", LEAST_SIZE, LARGEST_SIZE, log=True),
            latency=suggest.suggest_categorical("latency", ["ttft", "e2e"]),
        )


def next_size(params: DynamicBatchParams, size: int, seconds: float, cpu: float) -> int:
    """The batch size after one evaluation.

    Args:
        params: The bounds.
        size: The size so far.
        seconds: Latency.
        cpu: CPU share, 0-1.
    """
    if seconds > params.latency_limit_s and size > HALVED_ABOVE:
        return max(LEAST_SIZE, size // 2)
    if cpu < params.cpu_limit and size < LARGEST_SIZE:
        return min(LARGEST_SIZE, size * 2)
    return size


@dataclass(slots=True)
class DynamicBatch:
    """The controller; one instance an episode. Moves the admission limit only."""

    params: DynamicBatchParams
    size: int
    """Requests in flight that a replica may have."""

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Evaluates once; holds where anything is missing or nobody is ready."""
        seconds = latency_s(snapshot, self.params.latency)
        cpu, ready = snapshot.cpu_utilization, snapshot.replicas_ready
        if seconds is None or cpu is None or not ready:
            return settings
        self.size = next_size(self.params, self.size, seconds, cpu)
        return replace(settings, max_outstanding=self.size * round(ready))

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        return {"size": self.size}

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        self.size = saved["size"]
