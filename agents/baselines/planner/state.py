"""What the planner remembers of n gateways, openly: it can be copied, written down and put back."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .forecast import Floats, ForecastState

Counts: TypeAlias = NDArray[np.int64]

P50, P95, PROMPT, OUTPUT = range(4)
"""Columns of `PlannerState.mix`."""
UNKNOWN: Final = -1
"""Of a count."""
_BEYOND: Final = np.iinfo(np.int64).max
"""Fills slots beyond a gateway's own ring: no minimum is larger."""
PEAK_TICKS: Final = 30
"""Ticks of which a plan names the highest work: seven minutes at 15 s, a few cold starts."""


@dataclass(slots=True)
class PlannerState:
    """Arrays of plain numbers; the first axis is the gateway."""

    forecast: ForecastState
    mix: Floats
    """`(n, 4)`: median and P95 of prompts, mean prompt, mean output, tokens; 0 until known."""
    bias: Floats
    """`(n,)`: log of measured over expected latency."""
    peak: Floats
    """`(n,)`: remembered peak of work."""
    recent: Floats
    """`(n, PEAK_TICKS)`: ring of the last work; NaN where it was not known."""
    mean: Floats
    """`(n,)`: mean work, the newest counting for most."""
    needs: Counts
    """`(n, longest hold + 1)`: rings of the last needs, each as long as its gateway holds; 0 beyond
    a ring's end."""
    absent: Counts
    """`(n, longest patience)`: rings of the replicas asked for and not ready, each as long as its
    gateway is patient; `UNKNOWN` where not known, and beyond a ring's end no number of replicas."""
    behind: Counts
    """`(n, window)`: ring of 1 where more waits than can be taken in at once, else 0."""
    backlog: Floats
    """`(n,)`: work that waits."""
    ticks: Counts
    """`(n,)`: ticks seen."""

    @classmethod
    def start(
        cls,
        *,
        error_priors: Floats,
        longest_hold_ticks: int,
        window_ticks: int,
        longest_ahead_ticks: int,
        longest_patience_ticks: int,
        patience_ticks: Counts,
    ) -> PlannerState:
        """Gateways of which nothing has been seen.

        Args:
            error_priors: Error of each forecast to be expected before any was seen, `(n,)`.
            longest_hold_ticks: Most ticks for which a need is kept up.
            window_ticks: Ticks that a snapshot's window spans.
            longest_ahead_ticks: How far ahead is looked for any gateway, 1 or more.
            longest_patience_ticks: The longest patience there can be.
            patience_ticks: Ticks after which a replica that has not come is lost, `(n,)`; no fewer
                than a window's.
        """
        n = len(patience_ticks)
        is_slot = np.arange(longest_patience_ticks) < patience_ticks[:, None]
        return cls(
            forecast=ForecastState.start(error_priors, longest_ahead_ticks),
            mix=np.zeros((n, 4)),
            bias=np.zeros(n),
            peak=np.zeros(n),
            recent=np.full((n, PEAK_TICKS), np.nan),
            mean=np.zeros(n),
            needs=np.zeros((n, longest_hold_ticks + 1), np.int64),
            absent=np.where(is_slot, UNKNOWN, _BEYOND),
            behind=np.zeros((n, window_ticks), np.int64),
            backlog=np.zeros(n),
            ticks=np.zeros(n, np.int64),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Every array by name."""
        inner = {
            f"forecast_{f.name}": getattr(self.forecast, f.name) for f in fields(self.forecast)
        }
        outer = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "forecast"}
        return inner | outer

    def copy_rows(self, sources: Counts, targets: Counts, origin: PlannerState) -> None:
        """Makes gateway `targets[k]` what gateway `sources[k]` of another state is, `(k,)` each."""
        theirs = origin.arrays()
        for name, array in self.arrays().items():
            array[targets] = theirs[name][sources]

    def saved(self) -> dict[str, Any]:
        """The arrays as JSON content; NaN as null."""
        return {name: _content(array) for name, array in self.arrays().items()}

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what another state of the same shape has saved."""
        for name, array in self.arrays().items():
            array[:] = np.array(saved[name], array.dtype)


def _content(array: NDArray[Any]) -> list[Any]:
    content = array.astype(object)
    content[np.isnan(array)] = None
    listed: list[Any] = content.tolist()
    return listed
