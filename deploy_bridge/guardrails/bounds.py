"""The limits that no proposal may cross: replicas, threshold, and one step a tick.

Formula: each knob lands in `[min(low, now), max(high, now)]`, at most one step from `now`, the
value in force. Where somebody else has set a value outside the limits, a step towards them is
allowed and a step further away is not; the value is never pulled to the limit at once, because that
would be a larger change than the policy asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

from pydantic import ConfigDict

from ...envs.schema.settings import MAX_THRESHOLD_STEPS, MIN_THRESHOLD_STEPS, THRESHOLD_STEP
from ..decision import Excess, Proposal, Verdict
from .guardrail import Context, State

_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class BoundsParams:
    """Bounds of the threshold; those of the replicas are the cluster's `limits`."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    min_threshold: float = 0.05
    """Lowest breaker threshold, a share. Never below 0.05: at 0 Envoy ejects healthy hosts."""
    max_threshold: float = 0.95
    """Highest breaker threshold, a share."""

    def __post_init__(self) -> None:
        """Refuses what is no step or leaves nothing.

        Raises:
            ValueError: A bound is outside the contract's table, between two steps, or they cross.
        """
        for key in ("min_threshold", "max_threshold"):
            value = getattr(self, key)
            steps = round(value / THRESHOLD_STEP)
            is_step = abs(steps * THRESHOLD_STEP - value) < _TOLERANCE
            if not is_step or not MIN_THRESHOLD_STEPS <= steps <= MAX_THRESHOLD_STEPS:
                msg = f"{key} is {value:g}, expected 0.05 to 0.95 in steps of {THRESHOLD_STEP:g}"
                raise ValueError(msg)
        if self.min_threshold > self.max_threshold:
            msg = f"min_threshold {self.min_threshold:g} is above max_threshold"
            raise ValueError(msg)

    @property
    def threshold_steps(self) -> tuple[int, int]:
        """The two bounds in steps."""
        return (
            round(self.min_threshold / THRESHOLD_STEP),
            round(self.max_threshold / THRESHOLD_STEP),
        )


class Bounds:
    """The guardrail. It has no state."""

    name: Final = "bounds"

    def __init__(self, params: BoundsParams) -> None:
        """Takes the bounds."""
        self._steps = params.threshold_steps

    def initial(self) -> State:
        """Nothing."""
        return None

    def judge(
        self, proposal: Proposal | None, context: Context, state: State
    ) -> tuple[Verdict, State]:
        """Cuts the proposal down to what is allowed."""
        now = context.in_force
        if proposal is None or now is None:
            return Verdict(self.name, "pass", "no proposal", proposal, proposal), state
        replicas = (context.limits.min_replicas, context.limits.max_replicas)
        kept = replace(
            proposal,
            replicas=_kept(proposal.replicas, now.replicas, replicas),
            threshold_steps=_kept(proposal.threshold_steps, now.threshold_steps, self._steps),
        )
        if kept == proposal:
            return Verdict(self.name, "pass", before=proposal, after=proposal), state
        cut = [
            Excess(name, float(wanted), float(low), float(high))
            for name, wanted, left, (low, high) in (
                ("replicas", proposal.replicas, kept.replicas, replicas),
                ("threshold_steps", proposal.threshold_steps, kept.threshold_steps, self._steps),
            )
            if wanted != left
        ]
        reason = "; ".join(
            f"{one.name} {one.value:g} is not allowed (limits {one.low:g}-{one.high:g}, one step "
            f"a tick)"
            for one in cut
        )
        return Verdict(self.name, "clamp", reason, proposal, kept, tuple(cut)), state


def _kept(wanted: int, now: int, bounds: tuple[int, int]) -> int:
    low, high = max(min(bounds[0], now), now - 1), min(max(bounds[1], now), now + 1)
    return min(max(wanted, low), high)
