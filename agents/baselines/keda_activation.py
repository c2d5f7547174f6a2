"""What KEDA itself does to a target: switching it on and off, and standing in for a dead source.

Rule of KEDA v2.17 and of the tree of mid 2026. Sources, in kedacore/keda:
`pkg/scaling/executor/scale_scaledobjects.go` (activation, the tree with the
`autoscaling.keda.sh/force-activation` annotation), `pkg/scaling/executor/scale_executor.go`
(025ea45, cooldowns) and `pkg/fallback/fallback.go` (dfe21b0). Between one replica and the maximum
KEDA leaves the target to an HPA; see `keda`.

Regimes of a poll, in this order:

1. active and no replica: `max(1, min_replicas)`; the activity is remembered;
2. active: the activity is remembered, unless the source failed as well;
3. inactive, the source failed, and a fallback with replicas or none at all is set: nothing;
4. inactive, replicas, and a minimum of 0: to 0 once the target has been inactive for more than the
   cooldown (the comparison is strict); never active before: after the initial cooldown, which is 0;
5. inactive and below the minimum: to the minimum;
6. otherwise nothing.

Fallback: after more than `failure_threshold` failures in a row the source's total is replaced by
target x replicas, where the replicas are the fallback's, the current ones, or the larger or the
smaller of both. A single success ends it.

Quirks kept: the target loses its fraction before it is multiplied, so a target below 1 falls back
to nothing, and one of 2.5 to a fifth less than asked; a fallback of 0 replicas does not stop 4, so
a failed source then switches the target off; a static fallback may lie below what is running.
"Idle replicas", pausing and forced activation are not covered: no site here has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

FallbackBehavior = Literal["static", "current", "current_if_higher", "current_if_lower"]
"""`fallback.behavior`: `static`, `currentReplicas`, `currentReplicasIfHigher` or `...IfLower`."""

MILLI: Final = 1000


@dataclass(frozen=True, slots=True)
class Fallback:
    """`spec.fallback`."""

    replicas: int
    """Replicas to fall back to."""
    failure_threshold: int = 3
    """Failures in a row that are borne; the next one falls back (3 in upstream's own example; the
    field has no default)."""
    behavior: FallbackBehavior = "static"
    """How the current replicas count."""

    def __post_init__(self) -> None:
        """Refuses what upstream refuses.

        Raises:
            ValueError: A negative number, or an unknown behavior.
        """
        if self.replicas < 0 or self.failure_threshold < 0:
            msg = (
                f"KEDA fallback with replicas {self.replicas} and failure_threshold "
                f"{self.failure_threshold}, expected 0 or more of both"
            )
            raise ValueError(msg)
        if self.behavior not in get_args(FallbackBehavior):
            expected = ", ".join(get_args(FallbackBehavior))
            msg = f"KEDA fallback behavior {self.behavior!r}: expected one of {expected}"
            raise ValueError(msg)


def fallback_replicas(fallback: Fallback, current: int) -> int:
    """The replicas that are fallen back to while `current` ones run."""
    if fallback.behavior == "current":
        return current
    if fallback.behavior == "current_if_higher":
        return max(current, fallback.replicas)
    if fallback.behavior == "current_if_lower":
        return min(current, fallback.replicas)
    return fallback.replicas


@dataclass(slots=True)
class SourceHealth:
    """Whether the metric's source answers."""

    failures: int = 0
    """Failures in a row."""

    def total_milli(
        self, total_milli: int | None, current: int, target_milli: int, fallback: Fallback | None
    ) -> int | None:
        """The total that is handed on to the HPA, and the failure counted.

        Args:
            total_milli: What the source says, thousandths; `None`: it failed.
            current: Replicas of the target.
            target_milli: Target per replica, thousandths.
            fallback: What stands in for a dead source; `None`: nothing does.

        Returns:
            The total in thousandths; `None`: the failure is handed on.
        """
        if total_milli is not None:
            self.failures = 0
            return total_milli
        self.failures += 1
        if fallback is None or self.failures <= fallback.failure_threshold:
            return None
        return target_milli // MILLI * MILLI * fallback_replicas(fallback, current)


@dataclass(frozen=True, slots=True)
class Activation:
    """When a target is switched on and off."""

    min_replicas: int = 0
    """`minReplicaCount`."""
    cooldown_s: float = 300.0
    """`cooldownPeriod`: seconds without activity before the last replicas go."""
    initial_cooldown_s: float = 0.0
    """`initialCooldownPeriod`: the same for a target that was never active, from its creation."""
    fallback: Fallback | None = None
    """`spec.fallback`."""


@dataclass(slots=True)
class Activity:
    """What is remembered of a target between two polls."""

    created_s: float = 0.0
    """When KEDA was told of the target, seconds."""
    last_active_s: float | None = None
    """When it was last seen active, seconds; `None`: never, or it was scaled by someone else."""


@dataclass(frozen=True, slots=True)
class Poll:
    """What one poll of the source says."""

    now_s: float
    """Time of the poll."""
    is_active: bool
    """Whether the metric is above the activation target; a failed source is never active."""
    has_failed: bool = False
    """Whether a source failed."""


def activated_size(current: int, poll: Poll, activity: Activity, activation: Activation) -> int:
    """The size after one poll; remembers the activity."""
    if poll.is_active:
        if current > 0 and poll.has_failed:
            return current
        activity.last_active_s = poll.now_s
        return current if current > 0 else max(1, activation.min_replicas)
    fallback = activation.fallback
    if poll.has_failed and (fallback is None or fallback.replicas != 0):
        return current
    if current > 0 and activation.min_replicas == 0:
        return 0 if _is_cool(poll.now_s, activity, activation) else current
    return max(current, activation.min_replicas)


def _is_cool(now_s: float, activity: Activity, activation: Activation) -> bool:
    if activity.last_active_s is None:
        return activity.created_s + activation.initial_cooldown_s < now_s
    return activity.last_active_s + activation.cooldown_s < now_s
