"""What is recorded when, and what happens while nothing can be recorded."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gatepilot.agents.artifact.runtime import ArtifactPolicy
from gatepilot.deploy_bridge.audit.journal import JournalParams
from gatepilot.deploy_bridge.audit.reader import LedgerReader
from gatepilot.deploy_bridge.errors import LedgerError, TamperedLedgerError

from .ledger_kit import Writer, filled, forged, journal, kinds, verified


def test_a_boot_then_ticks_then_checkpoints_then_a_stop(
    policy: ArtifactPolicy, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.sqlite"
    writer = Writer(policy, journal(path))
    for _ in range(11):
        assert writer.tick() is None
    assert writer.book.entries == 14
    writer.book.close("SIGTERM", writer.clock.now_s)
    five = ["tick"] * 5
    assert kinds(path) == ["boot", *five, "checkpoint", *five, "checkpoint", "tick", "stop"]
    records = verified(path)
    assert [one.content["seq"] for one in records if one.kind == "tick"] == [
        one.seq for one in records if one.kind == "tick"
    ]
    assert records[-1].content == {"reason": "SIGTERM"}
    assert records[6].content["identity"] == {"name": "test"}


def test_a_second_bridge_is_refused(policy: ArtifactPolicy, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    writer = Writer(policy, journal(path))
    writer.tick()
    with pytest.raises(LedgerError, match="another bridge writes here"):
        journal(path)
    writer.tick()
    writer.book.close("done", 0.0)
    journal(path).close("done", 0.0)
    assert kinds(path) == ["boot", "tick", "tick", "stop"]


def test_a_changed_ledger_is_not_continued_and_the_lock_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    filled(path, 5)
    with forged(path) as connection:
        connection.execute("UPDATE record SET body = x'00' WHERE seq = 5")
    for _ in range(2):
        with pytest.raises(TamperedLedgerError, match="record 5"):
            journal(path)


def test_old_records_are_cut_at_a_checkpoint_and_the_cut_is_recorded(
    policy: ArtifactPolicy, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.sqlite"
    params = JournalParams(retention_s=1e9, max_entries=20, checkpoint_ticks=5)
    writer = Writer(policy, journal(path, params))
    for _ in range(60):
        assert writer.tick() is None
        assert writer.book.entries <= 27
    writer.book.close("done", 0.0)
    records = verified(path)
    assert records[0].kind == "checkpoint"
    assert records[0].seq > 30
    assert [one.kind for one in records].count("cut") >= 2
    assert records[-1].seq - records[0].seq + 1 == len(records)


def test_records_are_cut_by_age(policy: ArtifactPolicy, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    params = JournalParams(retention_s=60.0, max_entries=10**6, checkpoint_ticks=5)
    writer = Writer(policy, journal(path, params))
    for _ in range(60):
        writer.tick()
    writer.book.close("done", writer.clock.now_s)
    records = verified(path)
    assert 12 <= len(records) <= 25
    assert records[0].at_s >= writer.clock.now_s - 60.0 - 25.0


def test_a_run_without_a_tick_leaves_a_boot_and_a_stop(
    policy: ArtifactPolicy, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.sqlite"
    for run in range(2):
        writer = Writer(policy, journal(path))
        writer.book.boot(writer.controller.saved, writer.clock.now_s)
        assert writer.book.entries == 2 * run + 1
        assert writer.book.close("SIGTERM", writer.clock.now_s) == 0
    assert kinds(path) == ["boot", "stop"] * 2
    assert all(one.content["unfinished"] is None for one in verified(path) if one.kind == "boot")
    journal(path).close("done", 0.0)  # neither started nor ticked: nothing to say
    assert len(verified(path)) == 4


def test_a_boot_is_recorded_once(policy: ArtifactPolicy, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    writer = Writer(policy, journal(path))
    writer.book.boot(writer.controller.saved, writer.clock.now_s)
    for _ in range(6):
        assert writer.tick() is None
    writer.book.close("done", writer.clock.now_s)
    assert kinds(path) == ["boot", *["tick"] * 5, "checkpoint", "tick", "stop"]


def test_a_tick_lost_by_a_fault_is_a_gap_too(policy: ArtifactPolicy, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    writer = Writer(policy, journal(path))
    writer.tick()
    writer.book.lose("fault in the bridge: KeyError", writer.clock.next()["now_s"])
    writer.tick()
    writer.book.close("done", 0.0)
    assert kinds(path) == ["boot", "tick", "gap", "checkpoint", "tick", "stop"]


def test_a_gap_at_the_end_is_recorded_with_the_stop(policy: ArtifactPolicy, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    writer = Writer(policy, journal(path))
    writer.tick()
    writer.book.lose("fault in the bridge: KeyError", writer.clock.next()["now_s"])
    writer.book.close("done", 0.0)
    assert kinds(path) == ["boot", "tick", "gap", "stop"]


def test_a_ledger_that_somebody_else_writes_to_freezes(
    policy: ArtifactPolicy, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.sqlite"
    writer = Writer(policy, journal(path))
    writer.tick()
    with forged(path) as connection:
        connection.execute("INSERT INTO record VALUES (3, 0.5, x'00', x'00', x'00', x'00')")
    for _ in range(3):
        assert writer.tick() is not None
        assert writer.controller.mode.mode == "FROZEN"
    assert writer.book.trouble is not None
    assert "record 3" in writer.book.trouble


WRITER = """
import sys
from pathlib import Path
from gatepilot.deploy_bridge.audit.ledger import Ledger
from gatepilot.deploy_bridge.audit.record import Entry
ledger, n = Ledger(Path(sys.argv[1])), 0
while True:
    n = ledger.next_seq
    kind = "boot" if n == 1 else "tick"
    body = b'{"n":%d,"text":"%s"}' % (n, b"x" * (37 * n % 9000))
    ledger.append([Entry(kind, 1.8e9 + n, body)])
    print(n, flush=True)
"""


@pytest.mark.timeout(60)
def test_it_survives_being_killed_at_any_point(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    rng = random.Random(0)  # noqa: S311  # when to kill
    reached = 0
    for _ in range(12):
        command = [sys.executable, "-c", WRITER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:  # noqa: S603
            assert child.stdout is not None
            assert int(child.stdout.readline()) == reached + 1
            time.sleep(rng.uniform(0.0, 0.15))
            os.kill(child.pid, signal.SIGKILL)
            told = [int(line) for line in child.stdout.read().split()]
        records = verified(path)
        assert len(records) >= max([reached + 1, *told])  # what was reported is there
        assert [one.content["n"] for one in records] == list(range(1, len(records) + 1))
        reached = len(records)
    assert reached > 50
    assert LedgerReader(path).has_head()
