"""What the bridge says of itself while it runs: one place that the loop writes and others read."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from .controller import Controller
from .decision import Content, Decision
from .explanation import explained, headline

_DURATIONS: Final = 1000
"""Decisions whose durations are kept: 80 minutes at a tick of 5 s."""
_LATE_TICKS: Final = 3
"""Ticks without a tick after which the loop counts as stuck."""


class StatusBoard:
    """The newest decision and the counts so far.

    The loop's thread alone writes; each write replaces whole values, so readers need no lock.
    """

    def __init__(self, controller: Controller, *, started_s: float) -> None:
        """Starts before the first tick.

        Args:
            controller: Whose mode is shown.
            started_s: Wall time of the start, seconds since the epoch.
        """
        self._standing: Content = {}
        self._controller = controller
        self._started_s = started_s
        self._latest: Decision | None = None
        self._ledger: Content = {}
        self._ticks: Counter[str] = Counter(all=0, good=0, blind=0, counted=0, faults=0)
        self._outcomes: Counter[str] = Counter(would_apply=0, unchanged=0, held=0)
        self._agreement: Counter[str] = Counter(compared=0, same=0)
        self._durations_s: deque[float] = deque(maxlen=_DURATIONS)
        self._last_tick_s: float | None = None

    def stand(self, standing: Mapping[str, Any]) -> None:
        """Takes what does not change while this process runs, as JSON content."""
        self._standing = dict(standing)

    def publish(self, decision: Decision, ledger: Content, *, duration_s: float) -> None:
        """Notes a tick.

        Args:
            decision: Its decision.
            ledger: State of the ledger, as JSON content.
            duration_s: How long the decision took.
        """
        self._ticks += Counter(
            all=1,
            good=int(decision.is_good),
            blind=int(decision.is_blind),
            counted=int(decision.counts),
        )
        self._outcomes += Counter({decision.outcome: 1})
        if decision.counts and decision.final is not None and decision.incumbent is not None:
            final, rule = decision.final, decision.incumbent
            same = (final.replicas, final.threshold_steps) == (rule.replicas, rule.threshold_steps)
            self._agreement += Counter(compared=1, same=int(same))
        self._durations_s.append(duration_s)
        self._ledger = ledger
        self._last_tick_s = decision.monotonic_s
        self._latest = decision

    def fault(self, monotonic_s: float) -> None:
        """Notes a tick that failed by a fault of the bridge itself."""
        self._ticks += Counter(all=1, faults=1)
        self._last_tick_s = monotonic_s

    def is_alive(self, monotonic_s: float) -> bool:
        """Whether ticks are happening; until the first one has, it is said to be so."""
        tick_s = self._controller.tick_s
        last = self._last_tick_s
        return last is None or monotonic_s - last <= _LATE_TICKS * tick_s

    def status(self, now_s: float) -> Content:
        """Everything at a glance, as JSON content."""
        mode = self._controller.mode
        latest = self._latest
        durations_s = list(self._durations_s)
        return {
            **self._standing,
            "mode": mode.mode,
            "reason": mode.reason,
            "since_s": mode.since_s,
            "good_ticks": mode.good_ticks,
            "started_s": self._started_s,
            "uptime_s": now_s - self._started_s,
            "ticks": _counts(self._ticks, "all", "good", "blind", "counted", "faults"),
            "outcomes": _counts(self._outcomes, "would_apply", "unchanged", "held"),
            "agreement": _counts(self._agreement, "compared", "same"),
            "decision_p99_s": float(np.quantile(durations_s, 0.99)) if durations_s else None,
            "ledger": self._ledger,
            "latest": None if latest is None else _summary(latest),
        }

    def why(self) -> Content | None:
        """The newest decision and its explanation; `None` before the first tick."""
        latest = self._latest
        if latest is None:
            return None
        content = latest.content()
        texts = {one.key: one.query for one in latest.evidence}
        return {"decision": content, "queries": texts, "why": explained(content, texts)}


def _counts(counter: Counter[str], *names: str) -> dict[str, int]:
    return {name: counter[name] for name in names}


def _summary(decision: Decision) -> Content:
    content = decision.content()
    keys = ("seq", "at_s", "outcome", "reason", "in_force", "proposal", "final", "incumbent")
    return {**{key: content[key] for key in keys}, "values": content["values"]} | {
        "headline": headline(content)
    }
