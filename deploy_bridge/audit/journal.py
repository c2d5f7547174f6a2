"""What is recorded when: the boot, each tick, checkpoints, gaps, cuts.

A record that cannot be written is not the end: the bridge freezes, every tick tries again, and the
first record that succeeds is preceded by a `gap` that says what is missing, and by the whole state,
so that a replay can go on behind it. A run that could not even record its end is found by the next
one: its `boot` names the record at which the run before broke off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from ..decision import Content, Decision, Doubt, canonical
from ..errors import LedgerError, LedgerUnavailableError
from .ledger import Ledger, WriterLock
from .record import Entry, Kind, Record


@dataclass(frozen=True, slots=True)
class JournalParams:
    """How much is kept, and how often the state is written down."""

    retention_s: float
    """Age from which records are removed, seconds."""
    max_entries: int
    """Records kept at most."""
    checkpoint_ticks: int
    """Ticks between two checkpoints."""


@dataclass(slots=True)
class _Gap:
    """Ticks that were decided and not recorded."""

    reason: str
    ticks: int
    from_s: float
    to_s: float


class Journal:
    """The one writer of a ledger."""

    def __init__(self, path: Path, params: JournalParams, identity: Content) -> None:
        """Takes the lock and opens the ledger; where the disk does not allow it, later.

        Args:
            path: The SQLite file; its folder exists.
            params: How much is kept.
            identity: Who runs: all that a replay needs besides the state.

        Raises:
            LedgerError: Another bridge writes here, or the file is no ledger or was changed.
        """
        self._path, self._params, self._identity = path, params, identity
        self._lock = WriterLock(path.parent)
        self._ledger: Ledger | None = None
        self._is_booted = False
        self._gap: _Gap | None = None
        self._trouble: str | None = None
        self._ticks = 0
        self._first_seq = 1
        self._lead: list[Entry] = []
        self._cut: int | None = None
        self._unfinished: Content | None = None
        self._start: tuple[float, Content] | None = None
        try:
            self._open()
        except LedgerUnavailableError as error:
            self._trouble = str(error)
        except BaseException:
            self._lock.release()
            raise

    @property
    def trouble(self) -> str | None:
        """Why nothing can be recorded now; `None`: it can."""
        return self._trouble

    @property
    def entries(self) -> int:
        """Records in the ledger."""
        return 0 if self._ledger is None else self._ledger.next_seq - self._first_seq

    @property
    def head(self) -> tuple[int, str]:
        """Number and hash of the last record."""
        return (
            (0, "") if self._ledger is None else (self._ledger.next_seq - 1, self._ledger.head_hash)
        )

    def boot(self, state: Callable[[], Content], now_s: float) -> None:
        """Records the start at once; where that fails, the first tick's record makes up for it.

        Args:
            state: The controller's state.
            now_s: Wall time of the start.
        """
        try:
            ledger = self._opened()
            self._prepare(state, now_s)
            ledger.append(self._lead)
        except LedgerError as error:
            self._trouble = str(error)
            self._reset()
            return
        self._is_booted, self._trouble, self._lead = True, None, []

    def begin(self, state: Callable[[], Content], now_s: float) -> tuple[int, tuple[Doubt, ...]]:
        """Prepares the record of a tick.

        Args:
            state: The controller's state as it is now, before the tick.
            now_s: Wall time of the tick.

        Returns:
            The number that the tick's record will have, and what is wrong with the ledger.
        """
        try:
            try:
                self._opened()
            finally:
                self._prepare(state, now_s)
        except LedgerError as error:
            self._trouble = str(error)
        known = 1 if self._ledger is None else self._ledger.next_seq
        doubts = () if self._trouble is None else (Doubt("ledger", "ledger", self._trouble),)
        return known + len(self._lead), doubts

    def record(self, decision: Decision) -> Doubt | None:
        """Records a tick.

        Returns:
            Why it could not be; `None`: it was.
        """
        entries = [*self._lead, _entry("tick", decision.at_s, decision.content())]
        try:
            if self._ledger is None:
                raise LedgerUnavailableError(self._trouble or f"{self._path}: not open")
            drop_before = self._cut
            if drop_before is not None:
                entries.append(self._cut_entry(self._ledger, drop_before, decision.at_s))
            self._ledger.append(entries, drop_before=drop_before)
        except LedgerError as error:
            self.lose(str(error), decision.at_s)
            self._reset()
            return Doubt("ledger", "ledger", str(error))
        if any(entry.kind in ("boot", "checkpoint") for entry in self._lead):
            self._ticks = 0
        self._ticks += 1
        self._first_seq = drop_before or self._first_seq
        self._is_booted, self._gap, self._trouble = True, None, None
        return None

    def lose(self, reason: str, now_s: float) -> None:
        """Notes that a tick went unrecorded: the next record is preceded by the gap."""
        self._trouble = reason
        if self._gap is None:
            self._gap = _Gap(reason, 0, now_s, now_s)
        self._gap.ticks += 1
        self._gap.to_s = now_s

    def close(self, reason: str, now_s: float) -> int:
        """Records an orderly end, if that is possible, and gives up the lock.

        Returns:
            Ticks that are missing in the ledger without a word about them.
        """
        lost = 0 if self._gap is None else self._gap.ticks
        try:
            if self._is_booted or self._start is not None:
                self._opened().append(self._ends(reason, now_s))
                self._trouble, lost = None, 0
        except LedgerError as error:
            self._trouble = str(error)
        if self._ledger is not None:
            self._ledger.close()
        self._lock.release()
        return lost

    def _ends(self, reason: str, now_s: float) -> list[Entry]:
        """The last batch: a boot that could not be recorded so far, the gap, the stop."""
        ends = [_entry("stop", now_s, {"reason": reason})]
        if self._gap is not None:
            ends.insert(0, _entry("gap", now_s, asdict(self._gap)))
        if not self._is_booted and self._start is not None:
            at_s, state = self._start
            ends.insert(0, _entry("boot", at_s, self._boot(state)))
        return ends

    def _open(self) -> Ledger:
        ledger = Ledger(self._path)
        try:
            self._first_seq = ledger.first_seq()
            if not self._is_booted:
                self._unfinished = _unfinished(ledger.last())
        except LedgerError:
            ledger.close()
            raise
        self._ledger = ledger
        return ledger

    def _opened(self) -> Ledger:
        return self._open() if self._ledger is None else self._ledger

    def _reset(self) -> None:
        """Closes a ledger that failed; the next tick opens it anew and reads its true end."""
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None

    def _prepare(self, state: Callable[[], Content], now_s: float) -> None:
        kinds: list[Kind] = []
        self._cut = None
        if not self._is_booted:
            kinds = ["boot"] if self._gap is None else ["boot", "gap"]
        elif self._gap is not None:
            kinds = ["gap", "checkpoint"]
        elif self._ticks >= self._params.checkpoint_ticks:
            kinds = ["checkpoint"]
            self._cut = self._first_to_keep(now_s)
        self._lead = [_entry(kind, now_s, self._lead_content(kind, state)) for kind in kinds]
        if "boot" in kinds:
            self._start = now_s, state()

    def _lead_content(self, kind: Kind, state: Callable[[], Content]) -> Content:
        if kind == "gap" and self._gap is not None:
            return asdict(self._gap)
        if kind == "boot":
            return self._boot(state())
        return {"identity": self._identity, "state": state()}

    def _boot(self, state: Content) -> Content:
        return {"identity": self._identity, "state": state, "unfinished": self._unfinished}

    def _first_to_keep(self, now_s: float) -> int | None:
        """The record that retention makes the oldest one; `None`: all may stay."""
        if self._ledger is None:
            return None
        starts = self._ledger.starts()
        if not starts:
            return None
        too_old_s = now_s - self._params.retention_s
        too_far = self._ledger.next_seq - self._params.max_entries
        kept = [seq for seq, at_s in starts if at_s >= too_old_s and seq >= too_far]
        first = kept[0] if kept else starts[-1][0]
        return first if first > self._first_seq else None

    def _cut_entry(self, ledger: Ledger, first: int, now_s: float) -> Entry:
        content = {
            "first": first,
            "previous": ledger.previous_of(first).hex(),
            "removed": first - self._first_seq,
        }
        return _entry("cut", now_s, content)


def _unfinished(last: Record | None) -> Content | None:
    """Where the run before broke off; `None`: it recorded its end, or there was none."""
    if last is None or last.kind == "stop":
        return None
    return {"seq": last.seq, "at_s": last.at_s}


def _entry(kind: Kind, at_s: float, content: Content) -> Entry:
    return Entry(kind, at_s, canonical(content))
