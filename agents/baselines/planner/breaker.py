"""The breaker's threshold: low while one replica fails more than the rest, else where it rests.

Formula: `failing_steps` where the highest failure share of a replica lies at least `spread` above
the median (`replica_error_spread`), else `sound_steps`. The two faults have opposite cures: a
replica that fails alone is to be ejected soon, and where all fail alike, ejecting takes capacity
away and cures nothing. Both can fail at the same rate; the spread alone tells them apart. Where it
is not known, nothing is asked for.

Version: ours, no upstream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from ....envs.schema.fields import FIELD_INDEX, Rows
from ....envs.schema.settings import MAX_THRESHOLD_STEPS, MIN_THRESHOLD_STEPS
from .forecast import PARAMS_CONFIG
from .table import Table


@dataclass(frozen=True, slots=True)
class BreakerParams:
    """Where the threshold stands."""

    __pydantic_config__: ClassVar[ConfigDict] = PARAMS_CONFIG

    failing_steps: int = 2
    """While one replica fails alone, in steps of 0.05: sensitive, and not upset by one failure in
    ten."""
    sound_steps: int = 10
    """Otherwise: the documented start, 0.5."""
    spread: float = 0.08
    """Distance that tells one failing replica from all; some 80 answers of a replica in a window of
    which a tenth fails lie half as far apart by chance."""

    def __post_init__(self) -> None:
        """Refuses what no gateway can be set to.

        Raises:
            ValueError: A threshold or the spread is out of range: it names the value.
        """
        for name in ("failing_steps", "sound_steps"):
            value, low, high = getattr(self, name), MIN_THRESHOLD_STEPS, MAX_THRESHOLD_STEPS
            if not low <= value <= high:
                raise ValueError(f"{name} is {value}, expected {low}-{high}")
        if not 0 < self.spread <= 1:
            raise ValueError(f"spread is {self.spread}, expected above 0 and at most 1")


def threshold_steps(rows: Rows, params: Table) -> NDArray[np.float64]:
    """The threshold to set, in steps, `(n, F)` to `(n,)`; NaN where nothing is asked for.

    Args:
        rows: Scraped rows `(n, F)`; NaN: missing.
        params: Of each gateway, `(n,)`, with the fields of `BreakerParams`.
    """
    spread = rows[:, FIELD_INDEX["replica_error_spread"]]
    is_failing = spread >= params["spread"]
    steps = np.where(is_failing, params["failing_steps"], params["sound_steps"])
    return np.where(np.isnan(spread), np.nan, steps)
