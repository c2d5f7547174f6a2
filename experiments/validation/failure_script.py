"""Which replicas fail how often and when: one script for a real Envoy and for the engine.

Nothing is drawn. A replica that fails a share of its answers fails evenly: of its first n answers
of an interval exactly floor(n x share) are errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...envs.scenario_spec import GatewaySpec
from ...envs.schema.settings import THRESHOLD_STEP_PERCENT

THRESHOLDS_PERCENT: Final = (10, 25, 40, 60, 85)
"""Each is one run of the whole script."""
REPLICAS: Final = 6
"""So that a cap of 50 % lets three out."""
INTERVAL_S: Final = 1.2
"""Of the breaker: short, so that the whole takes a minute."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Some intervals under the same conditions."""

    intervals: int
    """How many."""
    percent: tuple[int, ...]
    """Failing answers in percent, one a replica."""
    requests: int = 120
    """Sent in each interval; Envoy spreads them evenly over the replicas that are in."""


_HEALTHY: Final = (0,) * REPLICAS
BEGIN: Final = 8
"""Intervals before the first phase, in which Envoy's order of hosts is learned: all fail, the first
half of that order is taken out; once it is back the rest fails alone. Then all stay healthy until
no multiplier is left."""
BEGIN_REQUESTS: Final = 120
"""Sent in each of these intervals."""
SECOND_HALF: Final = 4
"""Interval in which the second half fails: the first is back at the end of the third."""
PHASES: Final = (
    # Apart from each other: each threshold finds others guilty, the lower ones more than the cap
    # lets out at once.
    Phase(3, (95, 70, 50, 30, 15, 5)),
    Phase(4, _HEALTHY),
    # Three go on failing: out for longer each time they are back, up to the longest time.
    Phase(8, (0, 0, 90, 0, 65, 45)),
    Phase(8, _HEALTHY),
    # To the percent at a threshold, and just below the lowest one.
    Phase(3, (10, 9, 25, 60, 40, 85)),
    Phase(4, _HEALTHY),
    # Fewer answers than are judged, 9 each; then just enough of them.
    Phase(2, (0, 0, 100, 0, 100, 0), requests=54),
    Phase(1, (0, 0, 100, 0, 100, 0), requests=60),
    Phase(4, _HEALTHY),
    # All fail, where ejecting is wrong: the cap alone stops it.
    Phase(3, (90, 45, 90, 45, 90, 90)),
    Phase(3, _HEALTHY),
)
"""The script. Two things in it are no accident: an ejection's time is no multiple of the interval,
and whoever is taken out again has either come back in the interval before or has been in for
longer than its multiplier. At both points Envoy compares times that are equal but for the
milliseconds by which its timer is late."""
INTERVALS: Final = BEGIN + sum(phase.intervals for phase in PHASES)
"""Intervals in all."""


def gateway(threshold_percent: int) -> GatewaySpec:
    """The breaker under test: the project's defaults but for its clock.

    Args:
        threshold_percent: One of `THRESHOLDS_PERCENT`.
    """
    return GatewaySpec(
        router="round_robin",
        threshold_steps=threshold_percent // THRESHOLD_STEP_PERCENT,
        breaker_interval_s=INTERVAL_S,
        base_ejection_s=1.4 * INTERVAL_S,
        max_ejection_s=3.6 * INTERVAL_S,
        max_retries=0,
        request_timeout_s=10.0,
    )


def fails(percent: int, answer: int) -> bool:
    """Whether a replica's answer is an error.

    Args:
        percent: Share of its answers that are.
        answer: Number of the answer in the interval, from 1.
    """
    return answer * percent // 100 > (answer - 1) * percent // 100


def phase_of_each_interval() -> list[Phase]:
    """The script interval by interval, after the beginning."""
    return [phase for phase in PHASES for _ in range(phase.intervals)]
