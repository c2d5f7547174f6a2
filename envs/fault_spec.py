"""Faults of a scenario: what goes wrong, how badly, when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict, Field

from .scenario_numbers import MOST_LOAD_S, SPEC_CONFIG, FaultSeconds, LoadSeconds, Share

FaultKind = Literal[
    "replica_errors",
    "brown_out",
    "slow_replica",
    "sick_replica",
    "flapping",
    "hang",
    "crash",
    "failed_start",
    "surge",
    "metrics_gap",
    "metrics_late",
    "metrics_stale",
    "counter_reset",
]

_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "replica_errors": ("duration_s", "error_share"),
    "brown_out": ("duration_s", "error_share"),
    "slow_replica": ("duration_s", "factor"),
    "sick_replica": ("duration_s", "error_share", "factor"),
    "flapping": ("duration_s", "error_share", "period_s"),
    "hang": ("duration_s",),
    "crash": (),
    "failed_start": ("duration_s",),
    "surge": ("duration_s", "factor"),
    "metrics_gap": ("duration_s",),
    "metrics_late": ("duration_s", "delay_s"),
    "metrics_stale": ("duration_s",),
    "counter_reset": (),
}
"""The keys each kind needs; it takes no other of them."""

METRIC_KINDS: Final = ("metrics_gap", "metrics_late", "metrics_stale", "counter_reset")
"""Kinds that blind the policy and leave the plant alone."""
MOST_FAULTS: Final = 20_000
"""Most faults in an episode: each looks at all of them when it begins and ends."""
_LEAST_PERIOD_S: Final = 1.0
"""A shorter one would be lost in the rounding of a clock that has run for weeks."""


@dataclass(frozen=True)
class FaultSpec:
    """One kind of fault, at a fixed time of the episode or at random times."""

    __pydantic_config__: ClassVar[ConfigDict] = SPEC_CONFIG

    kind: FaultKind
    """One ready replica, drawn at the onset: `replica_errors`, `slow_replica`, `sick_replica` (slow
    and failing), `flapping` (failing half of each period), `hang` (answers nothing), `crash` (dies
    with its requests, starts anew). The plant: `brown_out` (all replicas fail alike, so ejecting is
    wrong), `failed_start` (replicas ordered meanwhile start only afterwards), `surge` (more of the
    workload). What is measured: `metrics_gap` (scrapes fail), `metrics_late`, `metrics_stale` (old
    values under new times), `counter_reset`."""
    duration_s: FaultSeconds | None = None
    """How long a fault lasts; not given for `crash` and `counter_reset`."""
    start_s: LoadSeconds | None = None
    """Onset in seconds from the episode's start; None: random onsets."""
    mean_interval_s: FaultSeconds | None = None
    """Mean time between random onsets (exponential); None: one onset at start_s."""
    error_share: tuple[Share, Share] | None = None
    """Bounds of the share of requests that fail, drawn anew for each onset."""
    factor: (
        tuple[Annotated[float, Field(ge=1, le=100)], Annotated[float, Field(ge=1, le=100)]] | None
    ) = None
    """Bounds of how many times longer an iteration takes, or how many times more requests come."""
    period_s: Annotated[float, Field(ge=_LEAST_PERIOD_S, le=MOST_LOAD_S)] | None = None
    """Of `flapping`: failing and healthy time together."""
    delay_s: FaultSeconds | None = None
    """Of `metrics_late`: how old the newest visible scrape is at least."""

    def __post_init__(self) -> None:
        """Checks what concerns more than one key."""
        if (self.start_s is None) == (self.mean_interval_s is None):
            raise ValueError("start_s: give either start_s or mean_interval_s")
        for key in ("duration_s", "error_share", "factor", "period_s", "delay_s"):
            given = getattr(self, key) is not None
            if given and key not in _KEYS[self.kind]:
                wanted = ", ".join(_KEYS[self.kind]) or "none of them"
                raise ValueError(f"{key}: {self.kind} takes {wanted}")
            if not given and key in _KEYS[self.kind]:
                raise ValueError(f"{key}: missing key, {self.kind} needs it")
        for key in ("error_share", "factor"):
            bounds = getattr(self, key)
            if bounds is not None and bounds[0] > bounds[1]:
                raise ValueError(f"{key}: [{bounds[0]}, {bounds[1]}] must be [lowest, highest]")

    @property
    def is_instant(self) -> bool:
        """Whether it happens at its onset and is over."""
        return self.duration_s is None

    def most_onsets(self, episode_s: float) -> int:
        """Most onsets in an episode: those that last, back to back, and no more than by chance.

        Random onsets are at most a Poisson number, which in practice never lies ten standard
        deviations above its mean.
        """
        if self.mean_interval_s is None:
            return 1
        mean = episode_s / self.mean_interval_s
        by_chance = math.ceil(mean + 10.0 * math.sqrt(mean)) + 10
        if self.duration_s is None:
            return by_chance
        return min(int(episode_s // self.duration_s) + 1, by_chance)


def check_onsets(faults: Sequence[FaultSpec], episode_s: float) -> None:
    """Checks that an episode is not crowded with faults.

    Raises:
        ValueError: It may hold more than the engine can follow; the message starts with the key.
    """
    for i, fault in enumerate(faults):
        most = fault.most_onsets(episode_s)
        if most > MOST_FAULTS:
            raise ValueError(
                f"faults.{i}.mean_interval_s: {fault.mean_interval_s} makes up to {most:,} faults "
                f"in {episode_s:g} s; at most {MOST_FAULTS:,}"
            )
