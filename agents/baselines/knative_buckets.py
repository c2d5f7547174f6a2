"""Knative's average over a window.

Rule of knative/serving: `TimedFloat64Buckets` in `pkg/autoscaler/aggregation/bucketing.go` (the
tree of 2020 and later, which has the weighted average beside it), the linear algorithm, which is
the default. Upstream has a bucket a second; here a bucket is a tick.

Regimes, with the last bucket written d buckets ago:

- d = 0: the sum over the window / the buckets since the first write, at most the whole window;
- 0 < d, less than a window ago: the sum over what is left of the window / its buckets;
- later: 0; more than a window ago the window counts as empty and the autoscaler gets no average.

Quirks kept: a bucket that nothing was written to between two others counts as 0; exactly one
window after the last write the average is 0 though the window is not empty yet; averages are cut
to six decimals. Upstream keeps a running sum, whose binary noise is not copied.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from .look_back import LookBack, whole_ticks

_PRECISION: Final = 1e6
_DECIMALS: Final = 9
"""Takes the binary noise off a difference of two durations."""


@dataclass(slots=True)
class Buckets:
    """One window."""

    window_s: float
    """Its length, seconds."""
    tick_s: float
    """Length of a bucket, seconds."""
    kept: LookBack
    """What was written."""
    first: int | None = None
    """Tick of the first write, or of the first after a window without one."""

    @classmethod
    def of(cls, window_s: float, tick_s: float) -> Buckets:
        """An empty window."""
        return cls(window_s, tick_s, LookBack(whole_ticks(window_s, tick_s)))

    def record(self, tick: int, value: float) -> None:
        """Writes the bucket of a tick; ticks come in order."""
        last = self._last()
        if last is None or tick - last >= self.kept.ticks:
            self.first = tick
        self.kept.record(tick, value)

    def is_empty(self, tick: int) -> bool:
        """Whether nothing was written for more than a window."""
        last = self._last()
        return last is None or round((tick - last) * self.tick_s - self.window_s, _DECIMALS) > 0

    def average(self, tick: int) -> float:
        """The average at a tick."""
        last = self._last()
        if last is None or self.first is None:
            return 0.0
        age = tick - last
        if age >= self.kept.ticks:
            return 0.0
        buckets = min(last - self.first + 1, self.kept.ticks - age)
        return math.floor(sum(self.kept.values(tick)) / buckets * _PRECISION) / _PRECISION

    def saved(self) -> dict[str, Any]:
        """What was written, as JSON content."""
        return {"first": self.first, "kept": self.kept.saved()}

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another one of the same length was told."""
        self.first = saved["first"]
        self.kept.restore(saved["kept"])

    def _last(self) -> int | None:
        return self.kept.samples[-1][0] if self.kept.samples else None
