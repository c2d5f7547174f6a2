"""The ledger's writer: append-only, hash-chained records in SQLite (WAL, one transaction a batch).

`ledger.head`, beside the file, names the last record after each commit. It shows a tail that was
cut off. It is on the disk before the first record is, so only beside an empty ledger may it be
empty. Whoever can rewrite the ledger and this file together and recompute the chain is not found
out: note the head hash of `status` elsewhere if that matters.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import LedgerError, LedgerUnavailableError, TamperedLedgerError
from .record import GENESIS, STARTS, Entry, Record, Row, chained, flaw, from_row

if TYPE_CHECKING:
    from collections.abc import Iterator

APPLICATION_ID: Final = 0x67617465
"""Marks a SQLite file as a ledger ("gate")."""
SCHEMA_VERSION: Final = 1
_BUSY_S: Final = 1.0
"""Seconds to wait for a reader that blocks a checkpoint of the WAL."""
_OWNER_ONLY: Final = 0o600
_HEAD_FORM: Final = "{:020d} {}\n"
_HEAD_PATTERN: Final = re.compile(r"([0-9]{20}) ([0-9a-f]{64})\n")
EMPTY_HEAD: Final = (0, b"")
"""What an empty `ledger.head` says: a process was killed between making and writing it."""
_SCHEMA: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS record (
    seq INTEGER PRIMARY KEY,
    at_s REAL NOT NULL,
    kind BLOB NOT NULL,
    previous BLOB NOT NULL,
    hash BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS start ON record (seq, at_s)
    WHERE kind IN (CAST('{STARTS[0]}' AS BLOB), CAST('{STARTS[1]}' AS BLOB));
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""


class WriterLock:
    """The right to write into a folder: one process has it, and loses it when it ends, however."""

    def __init__(self, folder: Path) -> None:
        """Takes the lock, on the folder itself: that needs no space on the disk.

        Raises:
            LedgerError: Another process has it, or the folder cannot be opened.
        """
        try:
            self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise LedgerError(f"{folder}: cannot be opened ({error.strerror})") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise LedgerError(f"{folder}: another bridge writes here, one is allowed") from error

    def release(self) -> None:
        """Gives it back."""
        os.close(self._descriptor)


class Ledger:
    """An open ledger. Its caller holds the `WriterLock` of the folder."""

    def __init__(self, path: Path) -> None:
        """Opens or creates it, and checks its end.

        Args:
            path: The SQLite file.

        Raises:
            TamperedLedgerError: Its end is not what was written.
            LedgerUnavailableError: It cannot be written now.
            LedgerError: The file is no ledger.
        """
        self.path = path
        self._head: int | None = None
        with _unavailable(path):
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, _OWNER_ONLY))
            self._connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
        try:
            with _unavailable(path):
                self._prepare()
                self._last = self._checked_end()
                self._head = os.open(
                    head_path(path), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, _OWNER_ONLY
                )
                self._note_head()
                os.fsync(self._head)
                _sync_folder(path.parent)
        except LedgerError:
            self.close()
            raise

    @property
    def next_seq(self) -> int:
        """Number of the next record."""
        return self._last[0] + 1

    @property
    def head_hash(self) -> str:
        """Hash of the last record, hexadecimal."""
        return self._last[1].hex()

    def first_seq(self) -> int:
        """Number of the oldest record that is kept; of an empty ledger: 1."""
        with _unavailable(self.path):
            (first,) = self._connection.execute("SELECT MIN(seq) FROM record").fetchone()
        return first or 1

    def last(self) -> Record | None:
        """The newest record; `None`: there is none yet."""
        columns = "SELECT seq, at_s, kind, previous, hash, body FROM record WHERE seq = ?"
        with _unavailable(self.path):
            row: Row | None = self._connection.execute(columns, self._last[:1]).fetchone()
        return None if row is None else from_row(row)

    def starts(self) -> list[tuple[int, float]]:
        """Number and time of every record at which a replay may begin, oldest first."""
        with _unavailable(self.path):
            query = (
                "SELECT seq, at_s FROM record WHERE kind IN "
                "(CAST('boot' AS BLOB), CAST('checkpoint' AS BLOB)) ORDER BY seq"
            )
            return self._connection.execute(query).fetchall()

    def previous_of(self, seq: int) -> bytes:
        """The hash that record `seq` names as the one before it."""
        with _unavailable(self.path):
            query = "SELECT previous FROM record WHERE seq = ?"
            (previous,) = self._connection.execute(query, (seq,)).fetchone()
        return bytes(previous)

    def append(self, entries: Sequence[Entry], *, drop_before: int | None = None) -> list[Record]:
        """Writes a batch: all of it or nothing.

        Args:
            entries: What to record, in order.
            drop_before: Older records are removed in the same transaction; one of the entries
                is then the `cut` that says so.

        Raises:
            LedgerUnavailableError: It cannot be written now; nothing was.
        """
        records: list[Record] = []
        seq, previous = self._last
        for entry in entries:
            seq += 1
            records.append(chained(entry, seq, previous))
            previous = records[-1].hash
        with _unavailable(self.path):
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany(
                    "INSERT INTO record (seq, at_s, kind, previous, hash, body) "
                    "VALUES (?, ?, ?, ?, ?, ?)",
                    [record.row() for record in records],
                )
                if drop_before is not None:
                    self._connection.execute("DELETE FROM record WHERE seq < ?", (drop_before,))
                self._connection.execute("COMMIT")
            except sqlite3.Error:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            self._last = seq, previous
            self._note_head()
        return records

    def close(self) -> None:
        """Closes the file; the WAL is folded into it."""
        if self._head is not None:
            os.close(self._head)
            self._head = None
        self._connection.close()

    def _prepare(self) -> None:
        connection = self._connection
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()
        if (tables or application) and (application, version) != (APPLICATION_ID, SCHEMA_VERSION):
            raise LedgerError(f"{self.path}: is no ledger of this version of gatepilot")
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
        if not tables:
            connection.executescript(_SCHEMA)

    def _checked_end(self) -> tuple[int, bytes]:
        """Number and hash of the last record, compared with `ledger.head`."""
        columns = (
            "SELECT seq, at_s, kind, previous, hash, body FROM record ORDER BY seq DESC LIMIT 2"
        )
        rows: list[Row] = self._connection.execute(columns).fetchall()
        head = read_head(self.path)
        if not rows:
            if head is not None and head[0] > 0:
                raise self._damaged(1, f"is missing, {head[0]} were written")
            return 0, GENESIS
        seq = rows[0][0]
        before = rows[1][4] if len(rows) > 1 else rows[0][3]
        wrong = flaw(rows[0], seq, before)
        if wrong is not None:
            raise self._damaged(seq, wrong)
        if head is None or head == EMPTY_HEAD:
            what = "missing" if head is None else "empty"
            raise self._damaged(None, f"is {what}, but the ledger holds {seq} records")
        if head[0] > seq:
            raise self._damaged(seq + 1, f"is missing, {head[0]} were written")
        named = "SELECT hash FROM record WHERE seq = ?"
        if head[0] > 0 and self._connection.execute(named, head[:1]).fetchone() != head[1:]:
            raise self._damaged(head[0], f"is not the one that {head_path(self.path).name} names")
        return seq, rows[0][4]

    def _damaged(self, seq: int | None, what: str) -> TamperedLedgerError:
        """The refusal to go on behind such an end, with the way out."""
        place = self.path if seq is not None else head_path(self.path)
        return TamperedLedgerError(place, seq, f"{what}; {_way_out(self.path)}")

    def _note_head(self) -> None:
        if self._head is None:
            raise LedgerUnavailableError(f"{head_path(self.path)}: is not open")
        text = _HEAD_FORM.format(self._last[0], self._last[1].hex())
        os.pwrite(self._head, text.encode(), 0)  # in place: a full disk does not stop it


def head_path(path: Path) -> Path:
    """The file that names the last record."""
    return path.with_suffix(".head")


def read_head(path: Path) -> tuple[int, bytes] | None:
    """Number and hash of the last record as `ledger.head` has them.

    Returns:
        `None`: there is no such file. `EMPTY_HEAD`: it is empty.

    Raises:
        TamperedLedgerError: The file is malformed.
        LedgerUnavailableError: It cannot be read.
    """
    head = head_path(path)
    try:
        content = head.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LedgerUnavailableError(f"{head}: {error.strerror}") from error
    if not content:
        return EMPTY_HEAD
    named = _HEAD_PATTERN.fullmatch(content.decode("ascii", errors="replace"))
    if named is None:
        what = f"is malformed, so the tail cannot be checked; {_way_out(path)}"
        raise TamperedLedgerError(head, None, what)
    return int(named[1]), bytes.fromhex(named[2])


def _way_out(path: Path) -> str:
    return f"move {path.parent} away to begin a new ledger (bridge page, `After a damaged ledger`)"


def _sync_folder(folder: Path) -> None:
    """Makes new files survive a power failure: their names are the folder's content."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _unavailable(path: Path) -> Iterator[None]:
    """Turns what the disk or SQLite says into errors of the ledger."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise LedgerUnavailableError(f"{path}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise LedgerError(f"{path}: {error}; {_way_out(path)}") from error
    except OSError as error:
        raise LedgerUnavailableError(f"{path}: {error.strerror}") from error
