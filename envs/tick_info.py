"""What a tick has counted, and where its slowest requests waited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from numpy.typing import NDArray

from .sim.engine import COUNTERS
from .sim.outcomes import PARTS

_COUNTED: Final = tuple(name for name in COUNTERS if name not in ("billed_s", "first_tokens"))
_SHARES: Final = {
    f"{quantile}_{part}": (q, k)
    for q, quantile in enumerate(("p95", "p99"))
    for k, part in enumerate(PARTS)
}
"""Names of the latency shares, and where they stand in the engine's attribution."""


def tick_info(
    before: Mapping[str, NDArray[Any]],
    after: Mapping[str, NDArray[Any]],
    attribution: NDArray[Any],
) -> dict[str, NDArray[Any]]:
    """The part of a tick's info that comes from the engine.

    Args:
        before: The engine's counters when the tick began, `(n,)` each.
        after: The same at its end.
        attribution: `(n, 2, 5)`: shares of `PARTS` in the tail beyond P95 and P99.

    Returns:
        `(n,)` each: `billed_replica_s`; this tick's counts `arrived`, `ok`, `error`, `timeout`,
        `shed`, `prompt_tokens` and of these `prefix_hit_tokens`, first tokens by heat class `cool`
        (< 0.1 s), `warm` (< 0.5 s), `hot` (< 2 s), `burning`; `p95_queue`, `p95_prefill`,
        `p95_cold_start`, `p95_retry`, `p95_timeout` and the same for `p99`: shares in what the tail
        of this tick's latency waited, NaN without any.
    """
    counted = {name: after[name] - before[name] for name in _COUNTED}
    shares = {name: attribution[:, q, part].copy() for name, (q, part) in _SHARES.items()}
    return {"billed_replica_s": after["billed_s"] - before["billed_s"], **counted, **shares}
