"""The ledger's writer: append-only, hash-chained records in SQLite (WAL, one transaction a batch).

`ledger.head`, beside the file, names the last record after each commit. It shows a tail that was
cut off. Whoever can rewrite the ledger and this file together and recompute the chain is not found
out: note the head hash of `status` elsewhere if that matters.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import LedgerError, LedgerUnavailableError, TamperedLedgerError
from .record import GENESIS, STARTS, Entry, Record, Row, chained, flaw

if TYPE_CHECKING:
    from collections.abc import Iterator

APPLICATION_ID: Final = 0x67617465
"""Marks a SQLite file as a ledger ("gate")."""
SCHEMA_VERSION: Final = 1
_BUSY_S: Final = 1.0
"""Seconds to wait for a reader that blocks a checkpoint of the WAL."""
_OWNER_ONLY: Final = 0o600
_HEAD_FORM: Final = "{:020d} {}\n"
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
        except LedgerError:
            self._connection.close()
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
        os.close(self._head)
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
                raise TamperedLedgerError(1, f"is missing, {head[0]} were written")
            return 0, GENESIS
        seq = rows[0][0]
        before = rows[1][4] if len(rows) > 1 else rows[0][3]
        wrong = flaw(rows[0], seq, before)
        if wrong is not None:
            raise TamperedLedgerError(seq, wrong)
        if head is None:
            raise TamperedLedgerError(seq, f"{head_path(self.path).name} is missing")
        if head[0] > seq:
            raise TamperedLedgerError(seq + 1, f"is missing, {head[0]} were written")
        return seq, rows[0][4]

    def _note_head(self) -> None:
        text = _HEAD_FORM.format(self._last[0], self._last[1].hex())
        os.pwrite(self._head, text.encode(), 0)  # in place: a full disk does not stop it


def head_path(path: Path) -> Path:
    """The file that names the last record."""
    return path.with_suffix(".head")


def read_head(path: Path) -> tuple[int, bytes] | None:
    """Number and hash of the last record as `ledger.head` has them; `None`: there is no such file.

    Raises:
        LedgerError: The file is malformed.
    """
    head = head_path(path)
    try:
        text = head.read_text(encoding="ascii")
        if not text:  # made, and the process killed before the first byte
            return 0, GENESIS
        seq, hashed = text.split()
        return int(seq), bytes.fromhex(hashed)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LedgerUnavailableError(f"{head}: {error.strerror}") from error
    except ValueError as error:
        raise LedgerError(f"{head}: malformed, so the tail cannot be checked") from error


@contextmanager
def _unavailable(path: Path) -> Iterator[None]:
    """Turns what the disk or SQLite says into errors of the ledger."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise LedgerUnavailableError(f"{path}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise LedgerError(f"{path}: {error}") from error
    except OSError as error:
        raise LedgerUnavailableError(f"{path}: {error.strerror}") from error
