"""`ledger.head`: a cut tail is found as long as it stands, whole, beside the ledger."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gatepilot.deploy_bridge.audit.ledger import Ledger, head_path
from gatepilot.deploy_bridge.audit.reader import LedgerReader
from gatepilot.deploy_bridge.errors import LedgerError, TamperedLedgerError

from .ledger_kit import entry, filled, forged, verified


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def test_a_cut_tail_is_found_by_the_head_file(path: Path) -> None:
    filled(path, 10)
    with forged(path) as connection:
        connection.execute("DELETE FROM record WHERE seq > 7")
    with pytest.raises(TamperedLedgerError, match="record 8: ") as caught:
        verified(path)
    assert caught.value.seq == 8
    with pytest.raises(TamperedLedgerError, match="record 8: is missing, 10 were written"):
        Ledger(path)


def test_without_the_head_file_a_cut_tail_is_not_found_and_that_is_said(path: Path) -> None:
    filled(path, 10)
    with forged(path) as connection:
        connection.execute("DELETE FROM record WHERE seq > 7")
    head_path(path).unlink()
    assert len(verified(path)) == 7
    assert not LedgerReader(path).has_head()
    with pytest.raises(
        TamperedLedgerError, match=r"ledger\.head: is missing, but the ledger holds 7 records"
    ):
        Ledger(path)


def test_all_records_gone_is_found(path: Path) -> None:
    filled(path, 10)
    with forged(path) as connection:
        connection.execute("DELETE FROM record")
    for look in (verified, Ledger):
        with pytest.raises(TamperedLedgerError, match="record 1: "):
            look(path)


def _head(seq: int, hashed: str) -> str:
    return f"{seq:020d} {hashed}\n"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "garbage",
        "\0" * 86,
        "00000000000000000099 ff\n",
        _head(7, "0" * 64),
        _head(99, "f" * 64),
    ],
)
@pytest.mark.parametrize("cut", [False, True])
def test_a_head_file_that_was_changed_is_found(path: Path, content: str, cut: bool) -> None:
    filled(path, 10)
    if cut:
        with forged(path) as connection:
            connection.execute("DELETE FROM record WHERE seq > 7")
    head_path(path).write_text(content)
    for look in (verified, Ledger):
        with pytest.raises(TamperedLedgerError, match=f"^{re.escape(str(path.parent))}/ledger"):
            look(path)


def test_an_empty_head_may_stand_beside_an_empty_ledger(path: Path) -> None:
    Ledger(path).close()
    head_path(path).write_text("")  # as a process leaves it that is killed before the first byte
    assert verified(path) == []
    ledger = Ledger(path)
    ledger.append([entry(1)])
    ledger.close()
    assert len(verified(path)) == 1


def test_a_refusal_to_go_on_names_the_file_and_the_way_out(path: Path) -> None:
    filled(path, 10)
    with forged(path) as connection:
        connection.execute("DELETE FROM record WHERE seq > 7")
    with pytest.raises(TamperedLedgerError) as caught:
        Ledger(path)
    assert str(caught.value) == (
        f"{path}: record 8: is missing, 10 were written; move {path.parent} away to begin a new "
        "ledger (bridge page, `After a damaged ledger`)"
    )
    head_path(path).unlink()
    with pytest.raises(TamperedLedgerError) as caught:
        Ledger(path)
    assert str(caught.value).startswith(f"{head_path(path)}: is missing, but the ledger holds 7")
    assert f"move {path.parent} away" in str(caught.value)
    path.write_bytes(b"no database" * 100)
    with pytest.raises(LedgerError, match="is not a database; move"):
        Ledger(path)


def test_a_head_that_lags_behind_is_what_a_kill_leaves(path: Path) -> None:
    ledger = Ledger(path)
    ledger.append([entry(1)])
    early = head_path(path).read_bytes()
    ledger.append([entry(2)])
    ledger.close()
    head_path(path).write_bytes(early)
    assert len(verified(path)) == 2
    Ledger(path).close()
    assert head_path(path).read_text().startswith("0" * 19 + "2 ")
