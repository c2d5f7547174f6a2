"""What each query brings at start-up: what an operator reads before anything is decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from ..errors import AmbiguousDataError
from .source import ProblemKind, SnapshotSource

ProbeState = ProblemKind | Literal["ok"]
"""`ok`, or what is wrong. `missing` is a fault for critical queries alone."""


@dataclass(frozen=True, slots=True)
class ProbeEntry:
    """One query, asked once."""

    source: str
    """Which source was asked."""
    name: str
    """Field of the contract, or name of the check."""
    state: ProbeState
    """What came."""
    is_critical: bool
    """Whether a tick is blind without it."""
    query: str
    """Text as it was asked."""
    value: float | None = None
    """The sample, if there was one."""
    hint: str = ""
    """One line: what is wrong and what may help, or Prometheus' own remarks."""


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """All queries of all sources."""

    entries: tuple[ProbeEntry, ...]

    @property
    def is_good(self) -> bool:
        """Whether a tick could trust what it sees now."""
        return all(
            entry.state == "ok" or (entry.state == "missing" and not entry.is_critical)
            for entry in self.entries
        )

    def refuse_ambiguous(self) -> None:
        """Ends a start whose configuration matches too much: waiting would not help.

        Raises:
            AmbiguousDataError: Several series where one is expected; it names the queries.
        """
        found = [entry for entry in self.entries if entry.state == "ambiguous"]
        if found:
            names = ", ".join(entry.name for entry in found)
            msg = f"{names}: {found[0].hint}; narrow the catalogue's jobs, instances or names"
            raise AmbiguousDataError(msg)


class ProbedSource(SnapshotSource, Protocol):
    """A source that can say of each of its queries what it brings."""

    def probe(self, now_s: float) -> tuple[ProbeEntry, ...]:
        """Asks everything once, whatever fails on the way. It raises as little as `read`."""
        ...
