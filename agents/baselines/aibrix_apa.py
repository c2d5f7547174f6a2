"""AIBrix APA: the ratio of use to target with tolerances and rates, fed from snapshots.

Formula: with r = mean of (outstanding / ready replicas) over 180 s / target, above 1.1
`min(ceil(N r), ceil(2 N))`, below 0.9 `max(ceil(N r), floor(N / 2))`, else N; a shrink then takes
the smallest recommendation of the last 300 s. `aibrix_replicas` holds the exact rule, `aibrix_pods`
its regimes, its quirks, and how a snapshot stands for the metric.

Version: vllm-project/aibrix, the tree of September 2026 (files and commits there). Constants: sync
10 s, window 180 s, tolerances 0.1, rates 2, cool-down 0 s up and 300 s down.

The metric is read from every replica, as APA takes it for the use of one. From an `external` source
it would take a total for that, and grow until the target exceeds it.
"""

from __future__ import annotations

from dataclasses import dataclass

from .aibrix_pods import AibrixPods, Windows
from .aibrix_replicas import ScalingContext
from .site import Site, Suggest


@dataclass(frozen=True, slots=True)
class AibrixApaParams:
    """A PodAutoscaler with `scalingStrategy: APA`."""

    target: float = 64.0
    """Outstanding requests per replica (`targetValue`). Upstream has no default: half of the 128
    sequences that a replica holds."""
    up_tolerance: float = 0.1
    """Slack above the target (`scale-up-tolerance`)."""
    down_tolerance: float = 0.1
    """Slack below the target (`scale-down-tolerance`)."""
    max_scale_up_rate: float = 2.0
    """Largest growth at once, a factor."""
    max_scale_down_rate: float = 2.0
    """Largest shrink at once, a divisor."""
    observe_window_s: float = 180.0
    """Seconds over which the metric is averaged."""
    up_cooldown_s: float = 0.0
    """Seconds whose largest recommendation a growth takes."""
    down_cooldown_s: float = 300.0
    """Seconds whose smallest recommendation a shrink takes."""

    def __post_init__(self) -> None:
        """Refuses what cannot be scaled by.

        Raises:
            ValueError: A value is out of range: it names the value.
        """
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
        )

    @property
    def windows(self) -> Windows:
        """Windows; APA looks at the stable one only."""
        return Windows(
            self.observe_window_s,
            self.observe_window_s,
            self.up_cooldown_s,
            self.down_cooldown_s,
        )

    def make(self, site: Site, *, seed: int) -> AibrixPods:
        """A controller for one episode; the seed plays no part."""
        del seed
        return AibrixPods.of("apa", "pod", self.context, self.windows, site)

    @classmethod
    def suggested(cls, suggest: Suggest, site: Site) -> AibrixApaParams:
        """Target, tolerances, window, the rate of growth and the cool-down of shrinking."""
        del site
        return cls(
            suggest.suggest_float("target", 1.0, 192.0, log=True),
            suggest.suggest_float("up_tolerance", 0.0, 0.5),
            suggest.suggest_float("down_tolerance", 0.0, 0.5),
            suggest.suggest_float("max_scale_up_rate", 1.1, 10.0, log=True),
            observe_window_s=suggest.suggest_float("observe_window_s", 15.0, 600.0, log=True),
            down_cooldown_s=suggest.suggest_float("down_cooldown_s", 0.0, 600.0),
        )
