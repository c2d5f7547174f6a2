"""What the bridge refuses, as a tree.

BridgeError
├── SettingsError            a configuration that cannot be used
├── MetricsError             a source that cannot be used at all
│   └── AmbiguousDataError   several series where one is expected
├── LedgerError              a ledger that cannot be used
│   ├── LedgerUnavailableError  it cannot be written or read now: a full disk, a lock
│   ├── NoRecordError        it is whole, but holds no such record
│   └── TamperedLedgerError  a record, or `ledger.head`, that is not what was written
└── ControlError             an operator's request that reached no bridge, or was refused

Artifacts have `agents.artifact.errors`. Whatever else a tick meets is no exception but a reason to
hold, recorded with the decision.
"""

from __future__ import annotations

from pathlib import Path


class BridgeError(ValueError):
    """One line that names the offending thing and what would be right."""


class SettingsError(BridgeError):
    """A configuration that cannot be used: file, key and what would be right."""


class MetricsError(BridgeError):
    """A source that cannot be used at all."""


class AmbiguousDataError(MetricsError):
    """Several series where one is expected: the configuration matches too much."""


class LedgerError(BridgeError):
    """A ledger that cannot be used."""


class LedgerUnavailableError(LedgerError):
    """A ledger that cannot be written or read now; later it may."""


class NoRecordError(LedgerError):
    """A ledger that is whole, but holds no such record."""


class TamperedLedgerError(LedgerError):
    """A record, or the file that names the last one, that is not what was written.

    Attributes:
        seq: The first record at which something is wrong; `None`: it is `ledger.head`.
    """

    def __init__(self, path: Path, seq: int | None, what: str) -> None:
        """Takes the damaged file, the record and what is wrong with it."""
        super().__init__(f"{path}: {what}" if seq is None else f"{path}: record {seq}: {what}")
        self.seq = seq


class ControlError(BridgeError):
    """An operator's request that reached no bridge, or was refused."""
