"""What each query brings at start-up: what an operator reads before anything is decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ..errors import AmbiguousDataError, SettingsError
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

    @property
    def missing(self) -> tuple[str, ...]:
        """Quantities without a sample that a tick can do without: the policy does not see them."""
        return tuple(
            entry.name
            for entry in self.entries
            if entry.state == "missing" and not entry.is_critical
        )

    def refuse_wrong(self) -> None:
        """Ends a start whose configuration is wrong: waiting would not help.

        Raises:
            SettingsError: A query that cannot be evaluated; it names the queries.
            AmbiguousDataError: Several series where one is expected; it names the queries.
        """
        refused = [entry for entry in self.entries if entry.state == "refused"]
        if refused:
            msg = f"catalogue: {_names(refused)}: {refused[0].hint}"
            raise SettingsError(msg)
        found = [entry for entry in self.entries if entry.state == "ambiguous"]
        if found:
            msg = (
                f"{_names(found)}: {found[0].hint}; narrow the catalogue's jobs, instances or names"
            )
            raise AmbiguousDataError(msg)


def _names(entries: Sequence[ProbeEntry]) -> str:
    return ", ".join(entry.name for entry in entries)


class ProbedSource(SnapshotSource, Protocol):
    """A source that can say of each of its queries what it brings."""

    def probe(self, now_s: float) -> tuple[ProbeEntry, ...]:
        """Asks everything once, whatever fails on the way. It raises as little as `read`."""
        ...
