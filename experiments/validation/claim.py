"""What a section of a validation is given and what it hands back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

Interval: TypeAlias = tuple[float, float]


class Progress(Protocol):
    """Shows how far a section is."""

    def start(self, what: str, total: int) -> Callable[[int], None]:
        """Begins a piece of work; the one before it is done.

        Args:
            what: One line about it.
            total: Steps in all.

        Returns:
            What is told how many further steps are done.
        """


class NoProgress:
    """For callers that show nothing."""

    def start(self, what: str, total: int) -> Callable[[int], None]:
        """Begins a piece of work that nobody watches."""
        del what, total
        return lambda steps: None


@dataclass(frozen=True, slots=True)
class ValidationContext:
    """What a section may use."""

    traces: Path | None
    """Folder of the request traces and serving profiles; `None`: they are not here."""
    reference: Path | None
    """Folder of the reference runs, with its `index.json`; `None`: they are not here."""
    seed: int = 0
    """Of everything that is drawn."""
    quick: bool = False
    """A rough look: fewer or shorter runs, wider intervals; bars stay as they are."""
    progress: Progress = field(default_factory=NoProgress)
    live: bool = False
    """Run real programs, for minutes; else their stored recordings are used."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One figure of the simulator against one of the world outside it.

    Claims of one section are shown as a table, a row for each subject and a column for each
    quantity: name both the same way throughout.
    """

    subject: str
    """What is looked at: `v05-70b-conv-r8-high`, `M/M/1`, a profile's id."""
    quantity: str
    """What of it: `TTFT p95`, `load 0.95`, `TPOT median error`."""
    measured: float
    """The deviation as a signed or absolute fraction, or a figure in `unit`; NaN: none came out."""
    bar: float | None
    """Largest size of `measured` that passes; `None`: reported, nothing is promised."""
    unit: str
    """`fraction` (shown in percent), `s`, `count`."""
    passed: bool | None
    """`None` where there is no bar."""
    note: str = ""
    """How it came about, for the reader of the full list: expected value, points, runs."""
    interval: Interval | None = None
    """95 % interval of `measured`."""

    def __post_init__(self) -> None:
        """Refuses a verdict without a bar, a bar without a verdict, and a pass on nothing.

        Raises:
            ValueError: The fields contradict each other.
        """
        if (self.bar is None) != (self.passed is None):
            msg = f"{self.subject}, {self.quantity}: bar is {self.bar}, passed is {self.passed}"
            raise ValueError(msg)
        if self.passed and math.isnan(self.measured):
            msg = f"{self.subject}, {self.quantity}: passed without a measured value"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot of a section."""

    name: str
    """Of its file, unique over all sections, without an ending: `queueing_error`."""
    title: str
    caption: str
    draw: Callable[[], Drawn]
    """Draws it; called within `plots.drawn`, which sets the style. Import `plots` in there: it
    takes a second to load, and a run without a page needs none."""


@dataclass(frozen=True, slots=True)
class Section:
    """What was compared, and how it came out."""

    name: str
    """As in `gatepilot validate NAME`."""
    title: str
    intro: str
    """What is compared with what, by which formula or source, under which bar; plain text."""
    claims: tuple[Claim, ...]
    skipped: str | None = None
    """Why nothing was compared; then there are no claims."""
    figures: tuple[Figure, ...] = ()

    def __post_init__(self) -> None:
        """Refuses a section that has neither claims nor a reason for it, or both, or one twice.

        Raises:
            ValueError: The fields contradict each other.
        """
        if bool(self.claims) == (self.skipped is not None):
            msg = f"section {self.name}: {len(self.claims)} claims, skipped: {self.skipped}"
            raise ValueError(msg)
        seen: set[tuple[str, str]] = set()
        for claim in self.claims:
            if (claim.subject, claim.quantity) in seen:
                msg = f"section {self.name}: {claim.subject}, {claim.quantity} is claimed twice"
                raise ValueError(msg)
            seen.add((claim.subject, claim.quantity))

    @property
    def missed(self) -> tuple[Claim, ...]:
        """Claims whose bar is not met."""
        return tuple(claim for claim in self.claims if claim.passed is False)


def skipped_section(name: str, title: str, intro: str, reason: str) -> Section:
    """A section whose data are not here.

    Args:
        name: Of the section.
        title: Of the section.
        intro: What it would compare.
        reason: What is missing, and what would bring it.
    """
    return Section(name, title, intro, (), skipped=reason)
