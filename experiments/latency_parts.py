"""Where the slowest requests of a run have spent their time."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..envs.sim.outcomes import HEAT_BOUNDS_S, LATENCY_PARTS, TIMEOUT, Outcomes

HEAT_CLASSES: Final = ("cool", "warm", "hot", "burning")
"""Names of the heat classes of a first token, below and between `HEAT_BOUNDS_S`."""
TAIL_QUANTILES: Final = (95, 99)


def tail_shares(outcomes: Outcomes) -> dict[str, dict[str, float] | None]:
    """For P95 and P99: the share of each part in what the requests at or beyond it have waited.

    Requests that timed out without a first token belong to the tail, as `timeout`; `None` where
    nothing was answered and nothing timed out.
    """
    answered = outcomes[~np.isnan(outcomes.ttft_s)]
    lost = outcomes[np.isnan(outcomes.ttft_s) & (outcomes.status == TIMEOUT)]
    waits_s = np.concatenate([answered.ttft_s, lost.e2e_s])
    names = [name.removesuffix("_s") for name in LATENCY_PARTS.names or ()]
    found: dict[str, dict[str, float] | None] = {}
    for quantile in TAIL_QUANTILES:
        if waits_s.sum() == 0:
            found[f"p{quantile}"] = None
            continue
        bound_s = np.quantile(waits_s, quantile / 100, method="inverted_cdf")
        tail = answered[answered.ttft_s >= bound_s]
        parts_s = {name: float(tail[f"{name}_s"].sum(dtype=float)) for name in names}
        parts_s["timeout"] = float(lost.e2e_s[lost.e2e_s >= bound_s].sum())
        total_s = sum(parts_s.values())
        found[f"p{quantile}"] = {name: part_s / total_s for name, part_s in parts_s.items()}
    return found


def heat_counts(outcomes: Outcomes) -> dict[str, Any]:
    """First tokens by heat class."""
    ttft_s = outcomes.ttft_s[~np.isnan(outcomes.ttft_s)]
    classes = np.searchsorted(np.array(HEAT_BOUNDS_S), ttft_s, side="right")
    counts = np.bincount(classes, minlength=len(HEAT_CLASSES)).tolist()
    return dict(zip(HEAT_CLASSES, counts, strict=True))
