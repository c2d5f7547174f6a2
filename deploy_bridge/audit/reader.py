"""The ledger read from outside: by another process, while the bridge writes or after it has ended.

What is found: any changed byte of a record, a missing, added or moved record, a removed head that
no `cut` accounts for, and, as long as `ledger.head` stands beside the file, a cut tail.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ..errors import (
    LedgerError,
    LedgerUnavailableError,
    NoRecordError,
    TamperedLedgerError,
)
from .ledger import APPLICATION_ID, EMPTY_HEAD, SCHEMA_VERSION, head_path, read_head
from .record import GENESIS, STARTS, Record, Row, flaw, from_row

_ALL: Final = "SELECT seq, at_s, kind, previous, hash, body FROM record ORDER BY seq"
_NEXT: Final = (
    "SELECT seq, at_s, kind, previous, hash, body FROM record WHERE seq > ? ORDER BY seq LIMIT 1"
)
_ONE: Final = "SELECT seq, at_s, kind, previous, hash, body FROM record WHERE seq = ?"
_BACKWARDS: Final = f"{_ALL} DESC"
_SINCE_START: Final = (
    "SELECT seq, at_s, kind, previous, hash, body FROM record WHERE seq <= ? AND seq >= "
    "(SELECT MAX(seq) FROM record WHERE seq <= ? AND kind IN "
    "(CAST('boot' AS BLOB), CAST('checkpoint' AS BLOB))) ORDER BY seq"
)
_NEWEST: Final = (
    "SELECT seq, at_s, kind, previous, hash, body FROM record "
    "WHERE instr(?, CAST(kind AS TEXT)) ORDER BY seq DESC LIMIT ?"
)


class LedgerReader:
    """Reads a ledger; it never writes."""

    def __init__(self, path: Path) -> None:
        """Names the file.

        Raises:
            LedgerError: It is missing or no ledger.
        """
        self.path = path
        if not os.path.isfile(path):  # also for a name that is too long
            raise LedgerError(f"{path}: no such ledger")
        with closing(self._connect()) as connection:
            try:
                (application,) = connection.execute("PRAGMA application_id").fetchone()
                (version,) = connection.execute("PRAGMA user_version").fetchone()
            except sqlite3.Error as error:
                raise LedgerError(f"{path}: cannot be read ({error})") from error
        if (application, version) != (APPLICATION_ID, SCHEMA_VERSION):
            raise LedgerError(f"{path}: is no ledger of this version of gatepilot")

    def verified(self) -> Iterator[Record]:
        """Every record in order, each checked before it is given out; at the end the tail is.

        Raises:
            TamperedLedgerError: A record is not what was written.
        """
        head = read_head(self.path)  # before the records: more may be written meanwhile
        expected, previous = 0, GENESIS
        first: tuple[int, bytes] | None = None
        cut: tuple[int, str] | None = None
        at_head: bytes | None = None
        for row in self._each():
            if first is None:
                expected, previous = (row[0], row[3]) if row[0] != 1 else (1, GENESIS)
                first = expected, previous
            wrong = flaw(row, expected, previous)
            if wrong is None and expected == first[0] and row[2].decode() not in STARTS:
                wrong = "is the oldest one, but nothing can begin with it: older ones were removed"
            if wrong is not None:
                raise self._damaged(expected, wrong)
            record = from_row(row)
            if record.kind == "cut":
                cut = record.content["first"], record.content["previous"]
            if head is not None and record.seq == head[0]:
                at_head = record.hash
            yield record
            expected, previous = expected + 1, record.hash
        if first is not None and first[0] > 1 and cut != (first[0], first[1].hex()):
            raise self._damaged(
                first[0], "is the oldest one, and no cut accounts for the records before it"
            )
        if first is not None and read_head(self.path) == EMPTY_HEAD:  # anew: it was written by now
            what = f"is empty, but the ledger holds records up to {expected - 1}"
            raise TamperedLedgerError(head_path(self.path), None, what)
        if head is not None and head[0] > 0 and at_head != head[1]:
            last = expected - 1 if first else 0
            seq = last + 1 if head[0] > last else head[0]
            raise self._damaged(seq, f"is not the one that was written last ({head[0]})")

    def has_head(self) -> bool:
        """Whether the file that shows a cut tail is there."""
        return read_head(self.path) is not None

    def last(self, kinds: tuple[str, ...], *, count: int = 1) -> list[Record]:
        """The newest records of some kinds, oldest first; each is checked, the chain is not."""
        return [self._alone(row) for row in self._rows(_NEWEST, " ".join(kinds), count)][::-1]

    def newest(self, count: int, wanted: Callable[[Record], bool] | None) -> list[Record]:
        """The newest records, oldest first; each is checked, the chain is not.

        Args:
            count: At most so many.
            wanted: Which ones; `None`: all.
        """
        found: list[Record] = []
        for row in self._rows(_BACKWARDS):
            record = self._alone(row)
            if wanted is None or wanted(record):
                found.append(record)
                if len(found) == count:
                    break
        return found[::-1]

    def query_texts(self, seq: int) -> dict[str, str]:
        """Texts of queries by key, as the records up to `seq` name them."""
        texts: dict[str, str] = {}
        for row in self._rows(_SINCE_START, seq, seq):
            record = self._alone(row)
            if record.kind in STARTS:
                texts |= record.content["state"]["queries"]
            elif record.kind == "tick":
                texts |= record.content["queries"]
        return texts

    def record(self, seq: int) -> Record:
        """One record; it is checked, the chain is not.

        Raises:
            NoRecordError: There is none with this number.
            TamperedLedgerError: It is not what was written.
        """
        rows = list(self._rows(_ONE, seq))
        if not rows:
            raise NoRecordError(f"{self.path}: there is no record {seq}")
        return self._alone(rows[0])

    def _each(self) -> Iterator[Row]:
        """All rows in order, one query each: a cursor would read ahead into damaged ones."""
        last = -(1 << 63)
        with closing(self._connect()) as connection:
            try:
                connection.execute("BEGIN")  # all of it as it is now, whatever is written meanwhile
                while (row := connection.execute(_NEXT, (last,)).fetchone()) is not None:
                    yield row
                    last = row[0]
            except sqlite3.Error as error:
                raise self._damaged(max(last, 0) + 1, f"cannot be read ({error})") from error

    def _rows(self, query: str, *arguments: object) -> Iterator[Row]:
        last = 0
        with closing(self._connect()) as connection:
            try:
                for row in connection.execute(query, arguments):
                    yield row
                    last = row[0]
            except sqlite3.Error as error:
                raise self._damaged(last + 1, f"cannot be read ({error})") from error

    def _alone(self, row: Row) -> Record:
        """A record that agrees with its own hash."""
        wrong = flaw(row, row[0], row[3])
        if wrong is not None:
            raise self._damaged(row[0], wrong)
        return from_row(row)

    def _damaged(self, seq: int, what: str) -> TamperedLedgerError:
        return TamperedLedgerError(self.path, seq, what)

    def _connect(self) -> sqlite3.Connection:
        try:
            address = f"file:{quote(str(self.path))}?mode=ro"
            return sqlite3.connect(address, uri=True, isolation_level=None)
        except sqlite3.Error as error:
            raise LedgerUnavailableError(f"{self.path}: {error}") from error
