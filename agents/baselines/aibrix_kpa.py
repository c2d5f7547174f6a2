"""AIBrix KPA: a stable and a panic window with a dead band, fed from snapshots.

Formula: N if the average is within 0.1 of the target, else `ceil(average / target)`, within
[`floor(N / 2)`, `ceil(2 N)`]; over 180 s, or, while the average of 60 s is more than twice that of
180 s, the larger of both; a shrink then takes the smallest recommendation of the last 300 s.
`aibrix_replicas` holds the exact rule, `aibrix_pods` its regimes, its quirks, and how a snapshot
stands for the metric. It is not Knative's rule: panic compares the windows with each other and not
with the replicas, and remembers no peak.

Version: vllm-project/aibrix, the tree of September 2026 (files and commits there). Constants: sync
10 s, windows 180 s and 60 s, tolerances 0.1, rates 2, panic at 2, cool-down 0 s up and 300 s down.

The metric is the total over the cluster by default, which is what `ceil(average / target)` needs.
With `source="pod"`, as in upstream's sample, the average is that of one replica.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from .aibrix_pods import AibrixPods, Source, Windows
from .aibrix_replicas import ScalingContext
from .site import Site, Suggest


@dataclass(frozen=True, slots=True)
class AibrixKpaParams:
    """A PodAutoscaler with `scalingStrategy: KPA`."""

    target: float = 64.0
    """Outstanding requests per replica (`targetValue`). Upstream has no default: half of the 128
    sequences that a replica holds."""
    source: Source = "external"
    """`metricSourceType`."""
    up_tolerance: float = 0.1
    """Slack above the target (`scale-up-tolerance`)."""
    down_tolerance: float = 0.1
    """Slack below the target (`scale-down-tolerance`)."""
    max_scale_up_rate: float = 2.0
    """Largest growth at once, a factor."""
    max_scale_down_rate: float = 2.0
    """Largest shrink at once, a divisor."""
    panic_threshold: float = 2.0
    """Panic / stable average above which it panics."""
    observe_window_s: float = 180.0
    """Stable window, seconds, up to 3600."""
    panic_window_s: float = 60.0
    """Panic window, seconds, at most the stable one."""
    up_cooldown_s: float = 0.0
    """Seconds whose largest recommendation a growth takes."""
    down_cooldown_s: float = 300.0
    """Seconds whose smallest recommendation a shrink takes."""

    def __post_init__(self) -> None:
        """Refuses what upstream refuses, or what cannot be scaled by.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
        if self.source not in get_args(Source):
            expected = ", ".join(get_args(Source))
            raise ValueError(f"AIBrix source {self.source!r}: expected one of {expected}")
        _ = self.context, self.windows

    @property
    def context(self) -> ScalingContext:
        """Target and annotations."""
        return ScalingContext(
            self.target,
            self.up_tolerance,
            self.down_tolerance,
            self.max_scale_up_rate,
            self.max_scale_down_rate,
            self.panic_threshold,
        )

    @property
    def windows(self) -> Windows:
        """Windows."""
        return Windows(
            self.observe_window_s,
            self.panic_window_s,
            self.up_cooldown_s,
            self.down_cooldown_s,
        )

    def make(self, site: Site, *, seed: int) -> AibrixPods:
        """A controller for one episode; the seed plays no part."""
        del seed
        return AibrixPods.of("kpa", self.source, self.context, self.windows, site)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> AibrixKpaParams:
        """Target, windows, panic, the rate of growth and the cool-down of shrinking."""
        del site
        observe_s = suggest.suggest_float("observe_window_s", 15.0, 600.0, log=True)
        return cls(
            suggest.suggest_float("target", 1.0, 192.0, log=True),
            max_scale_up_rate=suggest.suggest_float("max_scale_up_rate", 1.1, 10.0, log=True),
            panic_threshold=suggest.suggest_float("panic_threshold", 1.05, 5.0, log=True),
            observe_window_s=observe_s,
            panic_window_s=suggest.suggest_float("panic_window_fraction", 0.1, 1.0) * observe_s,
            down_cooldown_s=suggest.suggest_float("down_cooldown_s", 0.0, 600.0),
        )
