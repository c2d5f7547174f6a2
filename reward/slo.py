"""What was promised to users, and whether a moment of the gateway kept it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ..envs.schema.fields import FIELD_INDEX, Rows

Latency: TypeAlias = Literal["ttft_p95_s", "e2e_p95_s"]
"""The P95 a promise can be about: to the first token, or to the last."""

_IDLE_WITHOUT: Final[dict[str, tuple[str, ...]]] = {
    "ttft_p95_s": ("request_rate_rps", "waiting", "samples"),
    "e2e_p95_s": ("request_rate_rps", "waiting", "running"),
    "error_rate": ("request_rate_rps", "waiting"),
}
"""Per quantity: what must be *known to be 0* before its absence may be called "no traffic"."""


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits on latency and on errors; the defaults are the source document's.

    Missing data never turns into success. A missing latency or error rate is excused only where the
    same snapshot shows that there was nothing to measure:

    | missing | excused if all of these are known to be 0 |
    |---|---|
    | `ttft_p95_s` | `request_rate_rps`, `waiting`, `samples` |
    | `e2e_p95_s` | `request_rate_rps`, `waiting`, `running` |
    | `error_rate` | `request_rate_rps`, `waiting` |

    So arrivals without an answer, requests that wait since before the window, and a snapshot that
    cannot tell whether there was traffic all count as violations.
    """

    latency_limit_s: float = 0.8
    """Largest P95 that keeps the promise, in seconds. Document: "P95 > 800 ms" is a violation."""
    error_rate_limit: float = 0.02
    """Largest failed share of answers that keeps the promise. Document: "> 0.02" is a violation."""
    latency: Latency = "ttft_p95_s"
    """Which P95. To the first token: the end-to-end P95 of an LLM answer is seconds by nature."""

    def __post_init__(self) -> None:
        """Refuses limits that mean nothing.

        Raises:
            ValueError: A limit is out of range or the latency is unknown: it names the value.
        """
        if not (math.isfinite(self.latency_limit_s) and self.latency_limit_s > 0):
            msg = f"latency_limit_s is {self.latency_limit_s}, expected a number above 0"
            raise ValueError(msg)
        if not 0 <= self.error_rate_limit <= 1:
            msg = f"error_rate_limit is {self.error_rate_limit}, expected 0-1"
            raise ValueError(msg)
        if self.latency not in get_args(Latency):
            msg = f"latency is {self.latency!r}, expected one of {', '.join(get_args(Latency))}"
            raise ValueError(msg)

    def breaches(self, rows: Rows) -> NDArray[np.bool_]:
        """Where a *known* value is over its limit: `(..., F)` to `(...)`. At the limit is kept."""
        latency_s = rows[..., FIELD_INDEX[self.latency]]
        error_rate = rows[..., FIELD_INDEX["error_rate"]]
        over: NDArray[np.bool_] = (latency_s > self.latency_limit_s) | (
            error_rate > self.error_rate_limit
        )
        return over

    def unanswered(self, rows: Rows) -> NDArray[np.bool_]:
        """Where a value is missing though there was, or may have been, traffic."""
        return _missing_with_traffic(rows, self.latency) | _missing_with_traffic(rows, "error_rate")

    def violates(self, rows: Rows) -> NDArray[np.bool_]:
        """Where the promise is broken: rows `(..., F)`, NaN = missing, to `(...)`.

        One violation a moment, also where both limits are broken.
        """
        return self.breaches(rows) | self.unanswered(rows)


def _missing_with_traffic(rows: Rows, name: str) -> NDArray[np.bool_]:
    columns = [FIELD_INDEX[quiet] for quiet in _IDLE_WITHOUT[name]]
    idle = (rows[..., columns] == 0).all(axis=-1)
    missing: NDArray[np.bool_] = np.isnan(rows[..., FIELD_INDEX[name]]) & ~idle
    return missing
