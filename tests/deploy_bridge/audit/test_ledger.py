"""What was written is read back; what was changed, removed, added or moved is found."""

from __future__ import annotations

import errno
import json
import os
import random
import sqlite3
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepilot.deploy_bridge.audit.ledger import Ledger, WriterLock
from gatepilot.deploy_bridge.audit.reader import LedgerReader
from gatepilot.deploy_bridge.audit.record import GENESIS, Entry, chained, flaw, record_hash
from gatepilot.deploy_bridge.errors import (
    LedgerError,
    LedgerUnavailableError,
    NoRecordError,
    TamperedLedgerError,
)

from .ledger_kit import entry, filled, forged, verified


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def test_what_is_written_is_read_back_in_a_chain(path: Path) -> None:
    written = filled(path, 10)
    assert verified(path) == written
    assert written[0].previous == GENESIS
    assert [one.previous for one in written[1:]] == [one.hash for one in written[:-1]]
    assert [one.seq for one in written] == list(range(1, 11))
    assert written[3].content["n"] == 4


def test_a_ledger_is_continued(path: Path) -> None:
    filled(path, 3)
    ledger = Ledger(path)
    assert ledger.next_seq == 4
    ledger.append([entry(4), entry(5)])
    head = ledger.head_hash
    ledger.close()
    records = verified(path)
    assert [one.seq for one in records] == [1, 2, 3, 4, 5]
    assert records[-1].hash.hex() == head


def test_only_the_owner_may_read_it(path: Path) -> None:
    filled(path, 2)
    for one in path.parent.iterdir():
        assert stat.S_IMODE(one.stat().st_mode) == 0o600


def test_a_reader_sees_whole_batches_while_a_writer_writes(path: Path) -> None:
    ledger = Ledger(path)
    ledger.append([entry(1)])
    reading = LedgerReader(path).verified()
    assert next(reading).seq == 1
    ledger.append([entry(2), entry(3)])
    assert list(reading) == []  # what it began to read is what it reads
    assert len(verified(path)) == 3
    ledger.close()


def test_a_second_writer_is_refused_and_the_lock_ends_with_its_owner(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path)
    with pytest.raises(LedgerError, match="another bridge writes here"):
        WriterLock(tmp_path)
    lock.release()
    WriterLock(tmp_path).release()
    with pytest.raises(LedgerError, match="cannot be opened"):
        WriterLock(tmp_path / "absent")


def test_another_file_is_no_ledger(path: Path) -> None:
    path.write_bytes(b"not a database at all, but long enough to look at " * 30)
    for look in (Ledger, LedgerReader):
        with pytest.raises(LedgerError, match=r"ledger\.sqlite"):
            look(path)
    other = path.with_name("other.sqlite")
    with forged(other) as connection:
        connection.execute("CREATE TABLE t (x)")
    for look in (Ledger, LedgerReader):
        with pytest.raises(LedgerError, match="is no ledger of this version"):
            look(other)
    with pytest.raises(LedgerError, match="no such ledger"):
        LedgerReader(path.with_name("absent"))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE record SET at_s = at_s + 0.0000002 WHERE seq = 5",
        "UPDATE record SET kind = CAST('stop' AS BLOB) WHERE seq = 5",
        "UPDATE record SET previous = zeroblob(32) WHERE seq = 5",
        "UPDATE record SET hash = zeroblob(32) WHERE seq = 5",
        "UPDATE record SET body = CAST(body || ' ' AS BLOB) WHERE seq = 5",
        "UPDATE record SET body = (SELECT body FROM record WHERE seq = 6) WHERE seq = 5",
        "DELETE FROM record WHERE seq = 5",
        "DELETE FROM record WHERE seq IN (5, 6, 7)",
        "UPDATE record SET seq = 50 WHERE seq = 5",
    ],
)
def test_a_change_of_a_record_is_found_with_its_number(path: Path, change: str) -> None:
    filled(path, 10)
    with forged(path) as connection:
        connection.execute(change)
    with pytest.raises(TamperedLedgerError, match="record 5: ") as caught:
        verified(path)
    assert caught.value.seq == 5


def test_two_records_that_changed_places_are_found(path: Path) -> None:
    filled(path, 10)
    with forged(path) as connection:
        connection.execute("UPDATE record SET seq = 99 WHERE seq = 4")
        connection.execute("UPDATE record SET seq = 4 WHERE seq = 7")
        connection.execute("UPDATE record SET seq = 7 WHERE seq = 99")
    with pytest.raises(TamperedLedgerError, match="record 4: does not follow"):
        verified(path)


def test_a_record_rewritten_with_its_own_hash_breaks_the_chain_behind_it(path: Path) -> None:
    records = filled(path, 10)
    false = chained(Entry("tick", 1.0, b'{"n":0}'), 5, records[3].hash)
    with forged(path) as connection:
        connection.execute("DELETE FROM record WHERE seq = 5")
        connection.execute("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?)", false.row())
    with pytest.raises(TamperedLedgerError, match="record 6: does not follow"):
        verified(path)


def test_a_ledger_that_cannot_be_opened_leaks_no_descriptor(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(LedgerUnavailableError, match="No space left"):
            Ledger(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_single_records_are_checked_too(path: Path) -> None:
    filled(path, 10)
    with forged(path) as connection:
        connection.execute("UPDATE record SET body = x'00' WHERE seq = 10")
    reader = LedgerReader(path)
    for look in (
        lambda: reader.record(10),
        lambda: reader.newest(3, None),
        lambda: reader.last(("tick",)),
    ):
        with pytest.raises(TamperedLedgerError, match="record 10: its content is not what"):
            look()
    assert reader.record(9).content["n"] == 9
    with pytest.raises(NoRecordError, match="there is no record 11"):
        reader.record(11)


def test_a_removed_head_needs_a_cut_that_accounts_for_it(path: Path) -> None:
    ledger = Ledger(path)
    ledger.append([entry(1), *(entry(n) for n in range(2, 6))])
    ledger.append([Entry("checkpoint", 1.8e9, b"{}")])
    cut = {"first": 6, "previous": ledger.previous_of(6).hex(), "removed": 5}
    ledger.append([Entry("cut", 1.8e9, json.dumps(cut).encode())], drop_before=6)
    ledger.append([entry(8)])
    assert ledger.first_seq() == 6
    ledger.close()
    assert [one.seq for one in verified(path)] == [6, 7, 8]
    with forged(path) as connection:
        connection.execute("DELETE FROM record WHERE seq < 7")
    with pytest.raises(TamperedLedgerError, match="record 7: is the oldest one"):
        verified(path)


def test_a_head_removed_up_to_a_checkpoint_is_found_too(path: Path) -> None:
    ledger = Ledger(path)
    ledger.append([entry(1), entry(2), Entry("checkpoint", 1.8e9, b"{}"), entry(4)])
    ledger.close()
    with forged(path) as connection:
        connection.execute("DELETE FROM record WHERE seq < 3")
    with pytest.raises(TamperedLedgerError, match=r"record 3: .* no cut accounts"):
        verified(path)


def test_one_flipped_byte_anywhere_in_a_record_is_found(path: Path) -> None:
    """Sampled bytes of the file itself, in every column of every record."""
    records = filled(path, 40)
    content = path.read_bytes()
    rng = random.Random(1)  # noqa: S311  # which bytes to flip
    places: list[tuple[int, int]] = []
    for record in records:
        packed = record.kind.encode() + record.previous + record.hash + record.body
        start = content.index(packed)  # the row as SQLite lays it out, behind the eight of at_s
        offsets = {*range(start - 8, start, 3), start, start + 5, start + 40, start + 70}
        offsets |= {rng.randrange(start - 8, start + len(packed)) for _ in range(6)}
        places += [(record.seq, offset) for offset in offsets]
    assert len(places) > 400
    for seq, offset in places:
        flipped = bytearray(content)
        flipped[offset] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        with pytest.raises(TamperedLedgerError) as caught:
            verified(path)
        assert caught.value.seq == seq, offset
    path.write_bytes(content)
    assert len(verified(path)) == 40


def test_a_flipped_byte_of_a_cells_header_is_found(path: Path) -> None:
    """Lengths and types in front of the columns: SQLite may see garbage, nobody sees a record."""
    records = filled(path, 40)
    content = path.read_bytes()
    for record in records[3:30:4]:
        at = content.index(record.kind.encode() + record.previous + record.hash) - 8
        for offset in range(at - 9, at):
            flipped = bytearray(content)
            flipped[offset] ^= 0x15
            path.write_bytes(flipped)
            with pytest.raises(LedgerError):
                verified(path)


def test_a_failed_batch_leaves_nothing_behind(path: Path) -> None:
    ledger = Ledger(path)
    ledger.append([entry(1)])
    with forged(path) as connection:
        connection.execute("INSERT INTO record VALUES (3, 0.0, x'00', x'00', x'00', x'00')")
        with pytest.raises(LedgerError):
            ledger.append([entry(2), entry(3)])
        connection.execute("DELETE FROM record WHERE seq = 3")
    ledger.append([entry(2), entry(3)])
    ledger.close()
    assert [one.content["n"] for one in verified(path)] == [1, 2, 3]


@given(
    seq=st.integers(1, 2**62),
    at_s=st.floats(allow_nan=False),
    kind=st.binary(max_size=8),
    body=st.binary(max_size=64),
)
def test_no_column_can_lend_a_byte_to_another(
    seq: int, at_s: float, kind: bytes, body: bytes
) -> None:
    hashed = record_hash(seq, at_s, kind, GENESIS, body)
    assert flaw((seq, at_s, kind, GENESIS, hashed, body), seq, GENESIS) is None
    if body:
        assert record_hash(seq, at_s, kind + body[:1], GENESIS, body[1:]) != hashed
    assert record_hash(seq + 1, at_s, kind, GENESIS, body) != hashed


def test_a_read_only_folder_is_unavailable_not_broken(path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    path.parent.chmod(0o500)
    with pytest.raises(LedgerError):
        Ledger(path)


def test_the_integer_that_marks_a_ledger(path: Path) -> None:
    filled(path, 1)
    with sqlite3.connect(path) as connection:
        (found,) = connection.execute("PRAGMA application_id").fetchone()
    connection.close()
    assert found.to_bytes(4, "big") == b"gate"
