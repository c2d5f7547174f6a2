"""When Knative takes the last pod of a revision away.

Rule of knative/serving, v1: `handleScaleToZero` in `pkg/reconciler/autoscaling/kpa/scaler.go` (the
version with a retention period for the last pod), the condition's clock in
`pkg/apis/autoscaling/v1alpha1/pa_lifecycle.go`. No controller here calls it: every site keeps at
least one replica.

Regimes of a wish for 0 pods (any other is applied as it is):

1. scaling to zero is off: 1 pod;
2. activating: 0 after more than the activation time-out, until then nothing;
3. active: not yet, 1 pod, until it was active for the stable window; then nothing is applied, and
   the revision is marked inactive;
4. inactive and not yet behind the activator: nothing;
5. inactive for the grace period and for the retention: 0;
6. inactive for less than the retention: nothing;
7. behind the activator for the grace period: 0, else nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["activating", "active", "inactive"]
"""The revision's `Active` condition: unknown, true, false."""


@dataclass(frozen=True, slots=True)
class ZeroRules:
    """Keys of `config-autoscaler`."""

    is_enabled: bool = True
    """`enable-scale-to-zero`."""
    stable_window_s: float = 60.0
    """`stable-window`."""
    grace_s: float = 30.0
    """`scale-to-zero-grace-period`: for the network to route to the activator."""
    retention_s: float = 0.0
    """`scale-to-zero-pod-retention-period`: how long the last pod stays in any case."""
    activation_timeout_s: float = 610.0
    """Progress deadline of 600 s and 10 s more."""


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision that is wanted no more."""

    state: State
    """Its condition."""
    state_s: float
    """Seconds since the condition changed."""
    is_behind_activator: bool = False
    """Whether the activator answers for it."""
    proxied_s: float = 0.0
    """Seconds since requests are sent by way of the activator."""


@dataclass(frozen=True, slots=True)
class Step:
    """What to do."""

    pods: int | None
    """Pods wanted; `None`: unknown."""
    is_applied: bool
    """Whether the number is set; if not, it only tells whether the revision is to be active."""


def zero_step(desired: int, revision: Revision, rules: ZeroRules) -> Step:
    """What a wish after bounds leads to."""
    if desired != 0:
        return Step(desired, is_applied=True)
    if not rules.is_enabled:
        return Step(1, is_applied=True)
    if revision.state == "activating":
        has_failed = revision.state_s > rules.activation_timeout_s
        return Step(0 if has_failed else None, has_failed)
    if revision.state == "active":
        is_idle = revision.state_s >= rules.stable_window_s
        return Step(0 if is_idle else 1, not is_idle)
    return Step(0, revision.is_behind_activator and _may_go(revision, rules))


def _may_go(revision: Revision, rules: ZeroRules) -> bool:
    if revision.state_s >= max(rules.grace_s, rules.retention_s):
        return True
    return revision.state_s >= rules.retention_s and revision.proxied_s >= rules.grace_s
