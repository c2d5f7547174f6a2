"""Whether the policy is shown what it was trained on.

The manifest names for each observation entry the smallest and the largest value of the training.
An entry outside that range by more than a tolerance makes the tick a strange one; m strange ticks
among the last n judged ones freeze. Blind ticks show no observation and are not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Protocol

from pydantic import ConfigDict, Field

from ..decision import Doubt, Excess, Proposal, Verdict
from .guardrail import Context, State

_NAMED: Final = 3
"""Entries that a one-line reason names; the verdict lists all."""


class TrainedRange(Protocol):
    """What training saw of one observation entry (`agents.artifact.manifest.Feature`)."""

    @property
    def name(self) -> str:
        """The entry."""
        ...

    @property
    def low(self) -> float:
        """The smallest value."""
        ...

    @property
    def high(self) -> float:
        """The largest value."""
        ...


@dataclass(frozen=True, slots=True)
class DriftParams:
    """When the observation counts as strange."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    tolerance: Annotated[float, Field(ge=0)] = 0.02
    """How far outside its range an entry may lie, in the observation's own units: entries span
    0 to 1. 0.02 of a replica count's span of 32 is less than one replica."""
    strange_ticks: Annotated[int, Field(ge=1, le=10_000)] = 3
    """m: so many strange ticks ..."""
    of_ticks: Annotated[int, Field(ge=1, le=10_000)] = 5
    """n: ... among so many freeze. They stand in every checkpoint, hence the most."""
    ignore: tuple[str, ...] = ()
    """Entries that are not looked at, e.g. `vram_utilization_known` where there is no GPU."""

    def __post_init__(self) -> None:
        """Refuses a count that can never be reached.

        Raises:
            ValueError: m is above n.
        """
        if self.strange_ticks > self.of_ticks:
            msg = f"strange_ticks is {self.strange_ticks}, of_ticks allows {self.of_ticks} at most"
            raise ValueError(msg)


class Drift:
    """The guardrail. Its state: for each of the last n judged ticks, 1 if it was strange."""

    name: Final = "drift"

    def __init__(self, params: DriftParams, features: Sequence[TrainedRange]) -> None:
        """Takes the ranges of the training.

        Raises:
            ValueError: `ignore` names what is no entry.
        """
        names = [feature.name for feature in features]
        for name in params.ignore:
            if name not in names:
                msg = f"ignore: {name!r} is no entry of the policy's observation"
                raise ValueError(msg)
        self._params = params
        self._features = [
            (i, feature) for i, feature in enumerate(features) if feature.name not in params.ignore
        ]

    def initial(self) -> State:
        """No tick judged."""
        return []

    def judge(
        self, proposal: Proposal | None, context: Context, state: State
    ) -> tuple[Verdict, State]:
        """Compares the observation with the training's ranges."""
        if context.observation is None:
            return Verdict(self.name, "pass", "no observation", proposal, proposal), state
        outside = tuple(
            Excess(feature.name, value, feature.low, feature.high)
            for i, feature in self._features
            if not self._covers(feature, value := float(context.observation[i]))
        )
        judged = [*state, int(bool(outside))][-self._params.of_ticks :]
        if not outside and sum(judged) < self._params.strange_ticks:
            return Verdict(self.name, "pass", before=proposal, after=proposal), judged
        reason = f"{sum(judged)} of the last {len(judged)} ticks outside the training's range"
        if outside:
            reason += f": {_listed(outside)}"
        if sum(judged) < self._params.strange_ticks:
            return Verdict(self.name, "pass", reason, proposal, proposal, outside), judged
        doubt = Doubt("drift", "observation", reason)
        return Verdict(self.name, "veto", reason, proposal, None, outside, (doubt,)), judged

    def _covers(self, feature: TrainedRange, value: float) -> bool:
        tolerance = self._params.tolerance
        return feature.low - tolerance <= value <= feature.high + tolerance


def _listed(outside: Sequence[Excess]) -> str:
    named = [f"{one.name} {one.value:.3g} ({one.low:.3g}-{one.high:.3g})" for one in outside]
    more = len(named) - _NAMED
    return ", ".join(named[:_NAMED]) + (f" and {more} more" if more > 0 else "")
