"""Recomputes every recorded decision and compares it with the record, byte for byte.

Between a `boot` and the end of that run nothing but the records goes in. A checkpoint must hold the
state that the replay has come to by itself; behind a gap it is where the replay goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..decision import Content, canonical
from .record import Record


class Replayable(Protocol):
    """A controller, as far as a replay goes."""

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Takes over a recorded state."""
        ...

    def saved(self) -> Content:
        """Its state."""
        ...

    def replayed(self, content: Mapping[str, Any]) -> Content:
        """Decides again from what a recorded decision says it was given."""
        ...


Maker = Callable[[Mapping[str, Any]], Replayable]
"""Makes the controller of a recorded identity; raises ArtifactError or BridgeError."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A record that the replay does not arrive at."""

    seq: int
    keys: tuple[str, ...]
    """Parts of the record that differ."""


@dataclass(frozen=True, slots=True)
class BrokenOff:
    """The last record of a run that recorded no end."""

    seq: int
    at_s: float
    """Its wall time, seconds since the epoch."""


@dataclass(slots=True)
class ReplayReport:
    """What a replay found."""

    records: int = 0
    """Records read and found intact."""
    ticks: int = 0
    """Decisions recomputed."""
    boots: int = 0
    """Runs of the bridge."""
    broken_off: list[BrokenOff] = field(default_factory=list)
    """Runs that recorded no end: killed, or the disk was full. The newest run is not judged."""
    gaps: int = 0
    """Times at which decisions could not be recorded."""
    lost_ticks: int = 0
    """Decisions that are missing for that reason."""
    first_seq: int = 0
    last_seq: int = 0
    head_hash: str = ""
    """Hash of the last record, hexadecimal."""
    differences: list[Difference] = field(default_factory=list)
    """Records with another outcome, in order."""

    @property
    def is_identical(self) -> bool:
        """Whether every decision came out as recorded."""
        return not self.differences


def replay(records: Iterable[Record], make: Maker) -> ReplayReport:
    """Replays a ledger.

    Args:
        records: The records in order, checked (`LedgerReader.verified`).
        make: Makes the controller that a boot or a checkpoint names.

    Returns:
        What was recomputed, and where it differs.

    Raises:
        TamperedLedgerError: A record is not what was written.
        ArtifactError: The artifact that decided is not to be had, or was changed.
    """
    report = ReplayReport()
    controller: Replayable | None = None
    after_gap = False
    before: Record | None = None
    for record in records:
        report.first_seq = report.first_seq or record.seq
        report.records, report.last_seq, report.head_hash = (
            report.records + 1,
            record.seq,
            record.hash.hex(),
        )
        if record.kind in ("boot", "checkpoint"):
            content = record.content
            if record.kind == "boot":
                report.boots += 1
                if before is not None and before.kind != "stop":
                    report.broken_off.append(BrokenOff(before.seq, before.at_s))
            elif controller is not None and not after_gap:
                _compare(report, record, {**content, "state": controller.saved()})
            if record.kind == "boot" or controller is None:
                controller = make(content["identity"])
            controller.restore(content["state"])
            after_gap = False
        elif record.kind == "gap":
            report.gaps += 1
            report.lost_ticks += record.content["ticks"]
            after_gap = True
        elif record.kind == "tick" and controller is not None:
            report.ticks += 1
            _compare(report, record, controller.replayed(record.content))
        before = record
    return report


def _compare(report: ReplayReport, record: Record, recomputed: Mapping[str, Any]) -> None:
    body = canonical(recomputed)
    if body == record.body:
        return
    recorded, found = record.content, json.loads(body)
    keys = sorted(
        key
        for key in recorded.keys() | found.keys()
        if recorded.get(key, ...) != found.get(key, ...)
    )
    report.differences.append(Difference(record.seq, tuple(keys)))
