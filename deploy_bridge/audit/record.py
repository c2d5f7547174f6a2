"""One record of the ledger, and the hash that chains it to the one before."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

Kind = Literal["boot", "checkpoint", "tick", "gap", "cut", "stop"]
"""`boot` and `checkpoint`: who runs, and the controller's whole state. `tick`: a decision. `gap`:
ticks that could not be recorded. `cut`: older records were removed. `stop`: an orderly end."""
STARTS: Final = ("boot", "checkpoint")
"""Records at which a replay, or what retention leaves, may begin."""
GENESIS: Final = bytes(32)
"""What the first record names as the hash before it."""

Row: TypeAlias = tuple[int, float, bytes, bytes, bytes, bytes]
"""seq, at_s, kind, previous, hash, body: the columns."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What somebody wants to have recorded."""

    kind: Kind
    at_s: float
    """Wall time, seconds since the epoch."""
    body: bytes
    """Canonical JSON."""


@dataclass(frozen=True, slots=True)
class Record:
    """What was recorded."""

    seq: int
    """1, 2, 3, ... without holes."""
    at_s: float
    kind: str
    previous: bytes
    """Hash of the record before."""
    hash: bytes
    """SHA-256 over all the other columns."""
    body: bytes

    @property
    def content(self) -> dict[str, Any]:
        """The body, parsed."""
        parsed: dict[str, Any] = json.loads(self.body)
        return parsed

    def row(self) -> Row:
        """The columns."""
        return self.seq, self.at_s, self.kind.encode(), self.previous, self.hash, self.body


def chained(entry: Entry, seq: int, previous: bytes) -> Record:
    """The record of an entry behind the one whose hash is `previous`."""
    hashed = record_hash(seq, entry.at_s, entry.kind.encode(), previous, entry.body)
    return Record(seq, entry.at_s, entry.kind, previous, hashed, entry.body)


def record_hash(seq: int, at_s: float, kind: bytes, previous: bytes, body: bytes) -> bytes:
    """SHA-256 over every column; lengths are part of it, so that none can lend to another."""
    head = struct.pack(">qdII", seq, at_s, len(kind), len(body))
    return hashlib.sha256(head + previous + kind + body).digest()


def flaw(row: Row, seq: int, previous: bytes) -> str | None:
    """What is wrong with a row that should be record `seq` behind `previous`; `None`: nothing."""
    found, at_s, kind, before, hashed, body = row
    if found != seq:
        return f"is missing, {found} stands in its place"
    wanted = (float, bytes, bytes, bytes, bytes)
    if tuple(type(column) for column in row[1:]) != wanted:
        return "a column has another type than was written"
    if before != previous:
        return "does not follow the record before it"
    if hashed != record_hash(seq, at_s, kind, before, body):
        return "its content is not what was written"
    return None


def from_row(row: Row) -> Record:
    """The record in a row, whether or not it is what was written."""
    seq, at_s, kind, previous, hashed, body = row
    return Record(seq, at_s, bytes(kind).decode(errors="replace"), previous, hashed, body)
