"""Ledgers for tests: filled ones, and what a forger would do to them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from gatepilot.agents.artifact.runtime import ArtifactPolicy
from gatepilot.deploy_bridge.audit.journal import Journal, JournalParams
from gatepilot.deploy_bridge.audit.ledger import Ledger
from gatepilot.deploy_bridge.audit.reader import LedgerReader
from gatepilot.deploy_bridge.audit.record import Entry, Record
from gatepilot.deploy_bridge.decision import Doubt, canonical

from ..kit import VirtualClock, make_bridge_controller, reading

KEPT = JournalParams(retention_s=1e9, max_entries=10**6, checkpoint_ticks=5)


def entry(n: int) -> Entry:
    body = canonical({"n": n, "text": f"entry number {n:06d} " * 5})
    return Entry("boot" if n == 1 else "tick", 1.8e9 + n / 3 + 0.1, body)


def filled(path: Path, count: int) -> list[Record]:
    """A closed ledger of so many records, everything in the main file."""
    ledger = Ledger(path)
    records = [ledger.append([entry(n)])[0] for n in range(1, count + 1)]
    ledger.close()
    return records


def verified(path: Path) -> list[Record]:
    return list(LedgerReader(path).verified())


@contextmanager
def forged(path: Path) -> Iterator[sqlite3.Connection]:
    """SQLite's own door to the file, past the code under test."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def journal(path: Path, params: JournalParams = KEPT) -> Journal:
    return Journal(path, params, {"name": "test"})


def kinds(path: Path) -> list[str]:
    return [one.kind for one in verified(path)]


class Writer:
    """A controller and its journal, tick by tick, as the loop drives them."""

    def __init__(self, policy: ArtifactPolicy, book: Journal) -> None:
        self.controller = make_bridge_controller(policy)
        self.clock = VirtualClock()
        self.book = book

    def tick(self) -> Doubt | None:
        moment = self.clock.next()
        seq, troubles = self.book.begin(self.controller.saved, moment["now_s"])
        decision = self.controller.tick(reading(), seq=seq, troubles=troubles, **moment)
        lost = self.book.record(decision)
        if lost is not None:
            self.controller.freeze(lost)
        return lost

    @property
    def is_normal(self) -> bool:
        return self.controller.mode.mode == "NORMAL"
