"""Faults of a scenario: what goes wrong, how badly, when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict, Field

from .scenario_spec import SPEC_CONFIG, PositiveSeconds, Seconds, Share

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
    duration_s: PositiveSeconds | None = None
    """How long a fault lasts; not given for `crash` and `counter_reset`."""
    start_s: Seconds | None = None
    """Onset in seconds from the episode's start; None: random onsets."""
    mean_interval_s: PositiveSeconds | None = None
    """Mean time between random onsets (exponential); None: one onset at start_s."""
    error_share: tuple[Share, Share] | None = None
    """Bounds of the share of requests that fail, drawn anew for each onset."""
    factor: (
        tuple[Annotated[float, Field(ge=1, le=100)], Annotated[float, Field(ge=1, le=100)]] | None
    ) = None
    """Bounds of how many times longer an iteration takes, or how many times more requests come."""
    period_s: PositiveSeconds | None = None
    """Of `flapping`: failing and healthy time together."""
    delay_s: PositiveSeconds | None = None
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
