"""What a policy is that can take part in an evaluation, and what it gets and gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from .choice import Choice
from .episodes import Outcomes
from .trial import Trial, TrialPlan
from .tuning import Reporter, TuningTrials


class PolicyError(ValueError):
    """A policy that cannot take part: one line."""


@dataclass(frozen=True)
class Preparation:
    """What a contestant may use to get ready for a trial."""

    tuning_trials: Callable[[], TuningTrials]
    """Windows of the same scenario to tune on; loaded only when somebody tunes."""
    studies_dir: Path | None
    """Where tuning studies are kept."""
    reporter: Reporter
    shipped: Mapping[str, Choice] = field(default_factory=dict)
    """Settings that ship with the project for this very scenario, by label: they are not looked for
    again."""


SettingsFrom: TypeAlias = Literal["shipped", "tuned"]
"""Whether settings ship with the project or were searched for in this evaluation."""


@dataclass(frozen=True)
class Performance:
    """What a contestant did in a trial."""

    runs: tuple[tuple[int | None, Outcomes], ...]
    """Outcomes by training seed; a rule has one, without seed."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Chosen parameters."""
    settings_from: SettingsFrom | None = None
    """Where they come from; `None`: nobody tuned them."""


class Contestant(Protocol):
    """A policy that can be put through a trial."""

    @property
    def label(self) -> str:
        """Its name, as given."""
        ...

    def check(self, trial: TrialPlan) -> None:
        """Raises PolicyError if it does not fit the trial's scenario."""
        ...

    def play(self, trial: Trial, preparation: Preparation) -> Performance:
        """Prepares itself and plays every window."""
        ...
