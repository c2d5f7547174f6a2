"""What the bridge refuses, as a tree.

BridgeError
├── SettingsError            a configuration that cannot be used
├── MetricsError             a source that cannot be used at all
│   └── AmbiguousDataError   several series where one is expected
├── LedgerError              a ledger that cannot be used
│   ├── LedgerUnavailableError  it cannot be written or read now: a full disk, a lock
│   └── TamperedLedgerError  a record that is not what was written
└── ControlError             an operator's request that reached no bridge, or was refused

Artifacts have `agents.artifact.errors`. Whatever else a tick meets is no exception but a reason to
hold, recorded with the decision.
"""

from __future__ import annotations


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


class TamperedLedgerError(LedgerError):
    """A record that is not what was written.

    Attributes:
        seq: Its sequence number: the first one at which something is wrong.
    """

    def __init__(self, seq: int, what: str) -> None:
        """Takes the record and what is wrong with it."""
        super().__init__(f"record {seq}: {what}")
        self.seq = seq


class ControlError(BridgeError):
    """An operator's request that reached no bridge, or was refused."""
