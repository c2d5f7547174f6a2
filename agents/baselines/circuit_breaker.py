"""The circuit breaker of resilience4j: closed, open, half-open, over a count-based window.

Formula: with the outcomes of the last 100 calls, once there are 100, it opens if

    failed / calls >= 50 %   or   slow / calls >= 100 %   (slow: longer than 60 s)

Regimes:

- closed: every call is permitted and recorded; over a threshold: open;
- open: no call is permitted; the first call *after* more than 60 s makes it half-open;
- half-open: 10 calls are permitted; once 10 are recorded (or the minimum, if that is less): open
  again if over a threshold, else closed; with a longest wait set, open again after it.

Version: resilience4j/resilience4j, `resilience4j-circuitbreaker`, `internal/
CircuitBreakerStateMachine.java` (commit 1a4a7164), `internal/CircuitBreakerMetrics.java`
(a84d7d57), `CircuitBreakerConfig.java` (027f1a92); the defaults are those of release 2.

Quirks kept: a minimum above the window is silently the window's size. Every state starts an empty
window, but a result is recorded in the state that holds when it arrives, so late results of the
closed state count as half-open ones. Nothing leaves open without a call, unless the automatic
transition is on, and nothing leaves half-open while permitted calls do not come back, unless the
longest wait is set. (Upstream's rates are 32-bit floats; whole counts compare the same.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

State: TypeAlias = Literal["closed", "open", "half_open"]
"""What the breaker is."""
Outcome: TypeAlias = tuple[bool, bool]
"""Of a call: whether it failed, whether it was slow."""


@dataclass(frozen=True, slots=True)
class CircuitBreakerConfig:
    """`CircuitBreakerConfig` of upstream, count-based."""

    failure_fraction: float = 0.5
    """Failed share at or above which it opens, above 0 to 1 (`failureRateThreshold`)."""
    slow_fraction: float = 1.0
    """Slow share at or above which it opens, above 0 to 1 (`slowCallRateThreshold`)."""
    slow_s: float = 60.0
    """A call longer than this is slow, seconds (`slowCallDurationThreshold`)."""
    window_calls: int = 100
    """Calls of the window (`slidingWindowSize`)."""
    minimum_calls: int = 100
    """Calls before a share is taken; at most the window's size (`minimumNumberOfCalls`)."""
    permitted_calls: int = 10
    """Calls that half-open lets through (`permittedNumberOfCallsInHalfOpenState`)."""
    open_s: float = 60.0
    """How long it stays open (`waitDurationInOpenState`)."""
    longest_half_open_s: float = 0.0
    """How long it stays half-open; 0: without end (`maxWaitDurationInHalfOpenState`)."""
    is_automatic: bool = False
    """Whether it turns half-open without a call
    (`automaticTransitionFromOpenToHalfOpenEnabled`)."""

    def __post_init__(self) -> None:
        """Refuses what upstream's builder refuses.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        for name in ("failure_fraction", "slow_fraction"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected above 0 to 1")
        for name in ("window_calls", "minimum_calls", "permitted_calls"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 1 or more")
        for name in ("slow_s", "open_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a number above 0")
        if not self.longest_half_open_s >= 0:
            msg = f"longest_half_open_s is {self.longest_half_open_s}, expected 0 or more"
            raise ValueError(msg)


@dataclass(slots=True)
class CircuitBreaker:
    """The state machine. Times are seconds on any clock that does not run back."""

    config: CircuitBreakerConfig
    state: State = "closed"
    """What it is now."""
    since_s: float | None = None
    """When it became so; `None`: closed from the start."""
    outcomes: list[Outcome] = field(default_factory=list)
    """The calls of the window, the oldest first."""
    failed: int = 0
    """Failed ones of them."""
    slow: int = 0
    """Slow ones of them."""
    permits: int = 0
    """Calls that half-open still lets through."""

    def permits_call(self, now_s: float) -> bool:
        """Whether a call may go through, and the change from open to half-open that it causes."""
        self.time_passes(now_s)
        if self.state == "closed":
            return True
        if self.state == "open":
            if not now_s - (self.since_s or 0.0) > self.config.open_s:
                return False
            self._become("half_open", now_s)
        if self.permits == 0:
            return False
        self.permits -= 1
        return True

    def record(self, now_s: float, *, has_failed: bool, is_slow: bool = False) -> None:
        """A call has come back."""
        if self.state == "open":
            return
        is_closed = self.state == "closed"
        size = self.config.window_calls if is_closed else self.config.permitted_calls
        self._push((has_failed, is_slow), size)
        calls, config = len(self.outcomes), self.config
        if calls < min(config.minimum_calls, size):
            return
        is_over = self.failed / calls >= config.failure_fraction
        if is_over or self.slow / calls >= config.slow_fraction:
            self._become("open", now_s)
        elif not is_closed:
            self._become("closed", now_s)

    def record_calls(self, now_s: float, calls: Sequence[Outcome]) -> None:
        """Calls have come back one after another; those after a change of state are left out."""
        size = self.config.window_calls
        if self.state == "closed" and not self._could_open(calls):
            self.outcomes = [*self.outcomes, *calls][-size:]
            self.failed = sum(failed for failed, _ in self.outcomes)
            self.slow = sum(slow for _, slow in self.outcomes)
            return
        state = self.state
        for has_failed, is_slow in calls:
            self.record(now_s, has_failed=has_failed, is_slow=is_slow)
            if self.state != state:
                return

    def time_passes(self, now_s: float) -> None:
        """What happens without a call: the automatic transition, the longest wait."""
        config, passed_s = self.config, now_s - (self.since_s or 0.0)
        if self.state == "open" and config.is_automatic and passed_s >= config.open_s:
            self._become("half_open", now_s)
        elif self.state == "half_open" and 0 < config.longest_half_open_s <= passed_s:
            self._become("open", now_s)

    def _could_open(self, calls: Sequence[Outcome]) -> bool:
        """Whether all bad calls that are and come would open it; if not, no order of them does."""
        fewest = min(self.config.minimum_calls, self.config.window_calls)
        failed = self.failed + sum(failed for failed, _ in calls)
        slow = self.slow + sum(slow for _, slow in calls)
        is_over = failed / fewest >= self.config.failure_fraction
        return is_over or slow / fewest >= self.config.slow_fraction

    def _push(self, outcome: Outcome, size: int) -> None:
        self.outcomes.append(outcome)
        self.failed += outcome[0]
        self.slow += outcome[1]
        if len(self.outcomes) > size:
            has_failed, is_slow = self.outcomes.pop(0)
            self.failed -= has_failed
            self.slow -= is_slow

    def _become(self, state: State, now_s: float) -> None:
        self.state, self.since_s = state, now_s
        self.outcomes, self.failed, self.slow = [], 0, 0
        self.permits = self.config.permitted_calls if state == "half_open" else 0
