"""The failure breaker of the source documents: more than five failures, and half of the calls.

Formula: over the calls of the last 60 s (`source-systems.md`, D3),

    trip if  failures > 5  and  consecutive failures / calls > 0.5

then open for 3 s: nothing is let in, and fallbacks answer (cached for 10 s, rules, a default).

Regimes: closed, open. There is no half-open: after 3 s all is let in again.

Version: no upstream; the article that the project grows out of.

Quirk kept: consecutive failures over all calls. A single success in between starts the run anew, so
99 failures of 100 calls do not trip it if the one success came in the middle. Whether they trip it
again at once after it has opened for them is left open; here, as in most breakers, opening forgets
them.

How a snapshot stands for the calls:

| printed | here |
|---|---|
| calls of 60 s | `request_rate_rps` * 60 |
| failures | `error_rate` of them |
| consecutive ones | all failures, as if they came in a row: it trips earlier than printed |
| 3 s open | one tick, the least there is, or as many as cover it |
| fallbacks | none: the gateway answers 429 |

Its own rejections count as failures in the telemetry window. So a look whose window reaches back
into shedding is not judged: it is blind for one window after it has opened. Without a rate or a
share it holds. Open sets `max_outstanding = 0`, closed gives back what was; replicas and threshold
stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

from ...envs.schema.settings import GatewaySettings
from ...envs.schema.snapshot import MetricsSnapshot
from .site import Site, Suggest
from .taken_limit import TakenLimit

_WINDOW_S: Final = 60.0
_ROUNDING_S: Final = 1e-6


@dataclass(frozen=True, slots=True)
class FailureBreakerParams:
    """What trips it, and for how long."""

    failures: int = 5
    """More than so many failures trip it, of a window of 60 s."""
    share: float = 0.5
    """More than this share of the calls trips it, 0-1."""
    open_s: float = 3.0
    """How long it stays open."""

    def __post_init__(self) -> None:
        """Refuses what could never trip or never end.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        if self.failures < 0:
            raise ValueError(f"failures is {self.failures}, expected 0 or more")
        if not 0 <= self.share < 1:
            raise ValueError(f"share is {self.share}, expected 0 to below 1")
        if not (math.isfinite(self.open_s) and self.open_s > 0):
            raise ValueError(f"open_s is {self.open_s}, expected a number above 0")

    def make(self, site: Site, *, seed: int) -> FailureBreaker:
        """A controller for one episode; the seed plays no part."""
        del seed
        return FailureBreaker(self, site.tick_s, site.window_s)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> FailureBreakerParams:
        """All three."""
        del site
        return cls(
            failures=suggest.suggest_int("failures", 1, 200, log=True),
            share=suggest.suggest_float("share", 0.05, 0.95),
            open_s=suggest.suggest_float("open_s", 3.0, 120.0, log=True),
        )


def trips(params: FailureBreakerParams, failures: float, consecutive: float, calls: float) -> bool:
    """Whether the calls of a window trip the breaker.

    Args:
        params: What trips it.
        failures: Failed calls.
        consecutive: Failed calls in a row, up to the last call.
        calls: All calls.
    """
    return failures > params.failures and consecutive / calls > params.share


@dataclass(slots=True)
class FailureBreakerState:
    """What changes from look to look."""

    looks: int = 0
    """Looks so far."""
    opened_at_s: float | None = None
    """When it opened last; `None`: never."""
    clear_from_s: float = 0.0
    """From when on a window holds no shedding of its own."""
    limit: TakenLimit = field(default_factory=TakenLimit)
    """The admission limit, while it is open."""


@dataclass(slots=True)
class FailureBreaker:
    """The controller; one instance an episode. Moves the admission limit only."""

    params: FailureBreakerParams
    tick_s: float
    window_s: float
    state: FailureBreakerState = field(default_factory=FailureBreakerState)

    def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
        """Opens, stays open or closes; holds while closed and where nothing is known."""
        state = self.state
        now_s = state.looks * self.tick_s
        state.looks += 1
        if state.limit.is_taken and state.opened_at_s is not None:
            if now_s - state.opened_at_s < self.params.open_s - _ROUNDING_S:
                return state.limit.take(settings, 0)
            state.clear_from_s = now_s + self.window_s
            return state.limit.give_back(settings)
        rate, share = snapshot.request_rate_rps, snapshot.error_rate
        if rate is None or share is None or now_s < state.clear_from_s - _ROUNDING_S:
            return settings
        failures = rate * _WINDOW_S * share
        if not trips(self.params, failures, failures, rate * _WINDOW_S):
            return settings
        state.opened_at_s = now_s
        return state.limit.take(settings, 0)

    def saved(self) -> dict[str, Any]:
        """What it remembers, as JSON content."""
        state = self.state
        return {
            "looks": state.looks,
            "opened_at_s": state.opened_at_s,
            "clear_from_s": state.clear_from_s,
            "limit": state.limit.saved(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one remembered."""
        limit = TakenLimit(**saved["limit"])
        self.state = FailureBreakerState(
            saved["looks"], saved["opened_at_s"], saved["clear_from_s"], limit
        )
