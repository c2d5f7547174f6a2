"""The adaptive limiter of the source documents, as an admission limit.

Formula: `allowed RPS = max RPS (1 - 2 error rate)`, not below 0 (`source-systems.md`, D13). A
gateway's limit counts requests in flight, not a second, so Little's law turns one into the other:

    max_outstanding = max(1, floor(allowed RPS * latency))

Regimes: no error: the full rate; up to half of the answers failed: linearly less; from half on: 0,
of which one request in flight is left, so that it can be seen whether things are well again.

Version: no upstream; the article that the project grows out of. It prints no rate; 2 requests a
second for each ready replica is this project's choice, and a search may move it.

Quirk kept: the full rate is a constant, so a gateway that could do more is held to it. **It locks
itself in**: rejections count as errors in a snapshot, which the printed rule, fed by its backends,
does not have. Once it sheds half of what arrives it takes that for failures and sheds the rest, and
comes back only when so little arrives that even one request in flight is not full.

How a snapshot stands for its inputs:

| printed | here |
|---|---|
| error rate | `error_rate`, rejections included |
| mean time in the system (Little's law) | end-to-end P95: longer, so the limit is generous |

Without error rate, latency or ready replicas it holds. Replicas and threshold stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot
from .request_sample import latency_s
from .site import Site, Suggest


@dataclass(frozen=True, slots=True)
class AdaptiveLimiterParams:
    """The full rate."""

    replica_rps: float = 2.0
    """Requests a second that one ready replica is let have without errors."""

    def __post_init__(self) -> None:
        """Refuses a rate that lets nothing in.

        Raises:
            ValueError: It is not a number above 0.
        """
        if not (math.isfinite(self.replica_rps) and self.replica_rps > 0):
            raise ValueError(f"replica_rps is {self.replica_rps}, expected a number above 0")

    def make(self, site: Site, *, seed: int) -> AdaptiveLimiter:
        """A controller for one episode; site and seed play no part."""
        del site, seed
        return AdaptiveLimiter(self)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> AdaptiveLimiterParams:
        """The full rate."""
        del site
        return cls(suggest.suggest_float("replica_rps", 0.05, 100.0, log=True))


def allowed_rps(full_rps: float, error_rate: float) -> float:
    """The rate that is let in.

    Args:
        full_rps: Without errors, requests a second.
        error_rate: Failed share, 0-1.
    """
    return full_rps * max(0.0, 1 - 2 * error_rate)


def outstanding_limit(rate_rps: float, seconds: float) -> int:
    """Requests in flight at this rate and time in the system, at least one."""
    return max(1, math.floor(rate_rps * seconds))


@dataclass(frozen=True, slots=True)
class AdaptiveLimiter:
    """The controller. It has no state."""

    params: AdaptiveLimiterParams

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """The limit of this look; holds where anything is missing or nobody is ready."""
        seconds, ready = latency_s(snapshot, "e2e"), snapshot.replicas_ready
        if seconds is None or snapshot.error_rate is None or not ready:
            return settings
        rate_rps = allowed_rps(self.params.replica_rps * ready, snapshot.error_rate)
        return replace(settings, max_outstanding=outstanding_limit(rate_rps, seconds))
