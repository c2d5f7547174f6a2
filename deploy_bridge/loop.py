"""The controller in real time: aligned ticks on two clocks, until somebody asks it to stop.

Order of a tick: read, decide, record, and only then carry out. What cannot be recorded is not
carried out. A tick that lasts too long is followed by the next one that is still to come: ticks are
left out, never queued.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .actuators.actuator import Actuator
from .audit.journal import Journal
from .controller import Controller
from .decision import Content, Decision, Doubt
from .metrics.exporter import BridgeMetrics
from .metrics.source import Problem, Reading, SnapshotSource
from .mode import ModeState
from .status import StatusBoard

LOG = logging.getLogger("gatepilot.bridge")


class Clock(Protocol):
    """Two clocks and a way to wait."""

    def now(self) -> tuple[float, float]:
        """Wall time (seconds since the epoch) and monotonic time of one moment."""
        ...

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Waits so long, or until `stop` is set."""
        ...


class SystemClock:
    """This machine's clocks."""

    def now(self) -> tuple[float, float]:
        """Wall and monotonic time."""
        return time.time(), time.monotonic()

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Sleeps; a signal's handler that sets `stop` ends it."""
        stop.wait(seconds)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a tick needs."""

    controller: Controller
    source: SnapshotSource
    journal: Journal
    actuator: Actuator
    metrics: BridgeMetrics
    board: StatusBoard


class Loop:
    """Ticks until it is stopped."""

    def __init__(self, parts: Parts, clock: Clock, *, timer: Callable[[], float]) -> None:
        """Takes the parts.

        Args:
            parts: What a tick needs.
            clock: When it is.
            timer: Measures how long a decision takes, seconds.
        """
        self._parts, self._clock, self._timer = parts, clock, timer
        self._said: ModeState | None = None

    def run(self, stop: threading.Event, *, ticks: int | None = None) -> None:
        """Ticks at whole multiples of the control interval.

        Args:
            stop: Ends it when set.
            ticks: Ends it after so many; `None`: never.
        """
        tick_s = self._parts.controller.tick_s
        now_s, monotonic_s = self._clock.now()
        next_s = monotonic_s + tick_s - math.fmod(now_s, tick_s)
        done = 0
        while ticks is None or done < ticks:
            self._clock.wait(max(0.0, next_s - self._clock.now()[1]), stop)
            if stop.is_set():
                return
            self.tick()
            done += 1
            late_s = self._clock.now()[1] - next_s
            next_s += tick_s * (1 + max(0, math.floor(late_s / tick_s)))

    def tick(self) -> Decision | None:
        """One tick; `None` where a fault of the bridge itself prevented a decision."""
        now_s, monotonic_s = self._clock.now()
        try:
            return self._tick(now_s, monotonic_s)
        except Exception as error:  # a fault of ours: hold, record that it was, go on
            LOG.exception("fault in the bridge, held")
            reason = f"{type(error).__name__}: {error}"
            self._parts.journal.lose(f"fault in the bridge: {reason}", now_s)
            self._parts.controller.freeze(Doubt("fault", "bridge", reason))
            self._parts.board.fault(monotonic_s)
            self._parts.metrics.count_problem("fault")
            self._parts.metrics.set_mode(self._parts.controller.mode.mode)
            return None

    def _tick(self, now_s: float, monotonic_s: float) -> Decision:
        parts = self._parts
        seq, troubles = parts.journal.begin(parts.controller.saved, now_s)
        began_s = self._timer()
        reading = self._read(now_s)
        read_s = self._timer()
        decision = parts.controller.tick(
            reading, seq=seq, now_s=now_s, monotonic_s=monotonic_s, troubles=troubles
        )
        decided_s = self._timer()
        lost = parts.journal.record(decision)
        if lost is not None:
            parts.controller.freeze(lost)
        elif decision.outcome == "would_apply" and self._clock.now()[0] < decision.expires_at_s:
            parts.actuator.apply(decision)
        parts.metrics.observe_read(read_s - began_s)
        parts.metrics.observe_decision(decided_s - read_s)
        self._show(decision)
        parts.board.publish(decision, self._ledger(), duration_s=decided_s - read_s)
        return decision

    def _read(self, now_s: float) -> Reading:
        try:
            return self._parts.source.read(now_s)
        except Exception as error:  # sources promise not to raise; one that does is blind
            LOG.exception("a source failed")
            detail = f"it raised {type(error).__name__}"  # no text of it: that may hold a secret
            return Reading({}, (Problem("unreachable", "source", detail),))

    def _ledger(self) -> Content:
        journal = self._parts.journal
        seq, head = journal.head
        return {
            "entries": journal.entries,
            "seq": seq,
            "head": head,
            "trouble": journal.trouble,
        }

    def _show(self, decision: Decision) -> None:
        """Puts the tick into the metrics and, where something changed, into the log."""
        metrics, mode = self._parts.metrics, self._parts.controller.mode
        metrics.set_mode(mode.mode)
        result = "blind" if decision.is_blind else "good" if decision.is_good else "doubtful"
        metrics.count_tick(result, decision.at_s)
        for doubt in decision.doubts:
            metrics.count_problem(doubt.kind)
        metrics.clear_settings()
        if decision.counts and decision.final is not None:
            final = decision.final
            metrics.set_proposal(final.replicas, final.threshold)
        if decision.incumbent is not None:
            metrics.set_incumbent(decision.incumbent.replicas, decision.incumbent.threshold)
        metrics.set_ledger(self._parts.journal.entries)
        if self._said is None or (mode.mode, mode.reason) != (self._said.mode, self._said.reason):
            LOG.info("%s%s", mode.mode, f": {mode.reason}" if mode.reason else "")
            self._said = mode
