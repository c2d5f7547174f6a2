"""While nothing can be recorded: the bridge freezes, tries again, and says what is missing."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepilot.agents.artifact.runtime import ArtifactPolicy
from gatepilot.deploy_bridge.audit.ledger import Ledger
from gatepilot.deploy_bridge.decision import Doubt
from gatepilot.deploy_bridge.errors import LedgerUnavailableError

from .ledger_kit import Writer, journal, kinds, verified


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for little."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(  # noqa: S603
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)  # noqa: S603, S607


def fill(folder: Path) -> Path:
    """Takes all the room that is left."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            return ballast


def test_a_full_disk_freezes_and_the_gap_is_recorded_when_there_is_room_again(
    policy: ArtifactPolicy, small_disk: Path
) -> None:
    path = small_disk / "ledger.sqlite"
    writer = Writer(policy, journal(path))
    for _ in range(4):
        assert writer.tick() is None
    assert writer.is_normal
    ballast = fill(small_disk)
    lost: list[Doubt] = []
    while len(lost) < 3:  # the last page of the WAL may still have room
        doubt = writer.tick()
        if doubt is not None:
            lost.append(doubt)
            assert not writer.is_normal
            assert writer.book.trouble
    assert "full" in lost[0].detail or "I/O" in lost[0].detail
    ballast.unlink()
    for _ in range(4):
        assert writer.tick() is None
    assert writer.book.trouble is None
    assert writer.is_normal
    writer.book.close("done", writer.clock.now_s)
    records = verified(path)
    at = [one.kind for one in records].index("gap")
    gap = records[at].content
    assert gap["ticks"] == 3
    assert gap["to_s"] - gap["from_s"] == 10.0
    assert [one.kind for one in records[at : at + 3]] == ["gap", "checkpoint", "tick"]
    assert records[at + 2].content["mode"]["mode"] == "FROZEN"
    assert records[at + 2].content["doubts"][0]["kind"] == "ledger"


def test_ticks_lost_to_a_disk_that_is_full_to_the_end_are_told_and_the_next_boot_says_so(
    policy: ArtifactPolicy, small_disk: Path
) -> None:
    path = small_disk / "ledger.sqlite"
    writer = Writer(policy, journal(path))
    writer.tick()
    ballast = fill(small_disk)
    lost = 0
    while lost < 3:
        lost += writer.tick() is not None
    assert writer.book.close("SIGTERM", writer.clock.now_s) == 3
    assert writer.book.trouble is not None
    ballast.unlink()
    last = verified(path)[-1]
    book = journal(path)
    book.boot(writer.controller.saved, writer.clock.next()["now_s"])
    assert book.close("done", writer.clock.now_s) == 0
    boot, stop = verified(path)[-2:]
    assert (boot.kind, stop.kind) == ("boot", "stop")
    assert boot.content["unfinished"] == {"seq": last.seq, "at_s": last.at_s}


def test_room_that_comes_back_before_the_stop_is_used(
    policy: ArtifactPolicy, small_disk: Path
) -> None:
    ballast = fill(small_disk)
    writer = Writer(policy, journal(small_disk / "ledger.sqlite"))
    for _ in range(2):
        assert writer.tick() is not None
    ballast.unlink()
    assert writer.book.close("SIGTERM", writer.clock.now_s) == 0
    records = verified(small_disk / "ledger.sqlite")
    assert [one.kind for one in records] == ["boot", "gap", "stop"]
    assert records[1].content["ticks"] == 2


def test_a_disk_that_is_full_from_the_start(policy: ArtifactPolicy, small_disk: Path) -> None:
    ballast = fill(small_disk)
    writer = Writer(policy, journal(small_disk / "ledger.sqlite"))
    assert writer.book.trouble
    for _ in range(4):
        assert writer.tick() is not None
        assert writer.controller.mode.mode == "FROZEN"
    ballast.unlink()
    for _ in range(4):
        assert writer.tick() is None
    writer.book.close("done", writer.clock.now_s)
    records = verified(small_disk / "ledger.sqlite")
    assert [one.kind for one in records[:3]] == ["boot", "gap", "tick"]
    assert records[1].content["ticks"] == 4


def test_a_database_that_may_not_grow(
    policy: ArtifactPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same without a mount: SQLite itself says that it is full."""
    path = tmp_path / "ledger.sqlite"
    limit = {"pages": 8}
    prepare = Ledger._prepare

    def limited(self: Ledger) -> None:
        prepare(self)
        self._connection.execute(f"PRAGMA max_page_count = {limit['pages']}").fetchone()

    monkeypatch.setattr(Ledger, "_prepare", limited)
    writer = Writer(policy, journal(path))
    results = [writer.tick() for _ in range(12)]
    lost = [one for one in results if one is not None]
    assert lost
    assert "full" in lost[0].detail
    limit["pages"] = 10**6
    assert writer.tick() is None
    writer.book.close("done", writer.clock.now_s)
    gap = next(one for one in verified(path) if one.kind == "gap")
    assert gap.content["ticks"] == len(lost)


def test_what_cannot_be_recorded_to_the_end_is_counted(
    policy: ArtifactPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same without a mount."""
    path = tmp_path / "ledger.sqlite"
    writer = Writer(policy, journal(path))
    writer.tick()
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "append", _unavailable)
        assert [writer.tick() is None for _ in range(3)] == [False] * 3
        assert writer.book.close("SIGTERM", writer.clock.now_s) == 3
    assert writer.book.trouble == "disk is full"
    assert kinds(path) == ["boot", "tick"]
    again = Writer(policy, journal(path))
    again.tick()
    again.book.close("done", again.clock.now_s)
    boots = [one for one in verified(path) if one.kind == "boot"]
    assert boots[0].content["unfinished"] is None
    assert boots[1].content["unfinished"]["seq"] == boots[1].seq - 1 == 2


def test_a_start_that_was_never_recorded_is_recorded_with_the_stop(
    policy: ArtifactPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.sqlite"
    writer = Writer(policy, journal(path))
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "append", _unavailable)
        writer.book.boot(writer.controller.saved, writer.clock.now_s)
        assert writer.tick() is not None
    assert writer.book.close("SIGTERM", writer.clock.now_s) == 0
    records = verified(path)
    assert [one.kind for one in records] == ["boot", "gap", "stop"]
    assert records[1].content["ticks"] == 1


def test_a_boot_that_fails_is_made_up_for(
    policy: ArtifactPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.sqlite"
    writer = Writer(policy, journal(path))
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "append", _unavailable)
        writer.book.boot(writer.controller.saved, writer.clock.now_s)
    assert writer.book.trouble == "disk is full"
    for _ in range(2):
        assert writer.tick() is None
    writer.book.close("done", writer.clock.now_s)
    assert kinds(path) == ["boot", "tick", "tick", "stop"]


def _unavailable(*_: object, **__: object) -> None:
    raise LedgerUnavailableError("disk is full")
