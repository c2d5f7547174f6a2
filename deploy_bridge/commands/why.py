"""`gatepilot-bridge why`: a decision in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ..audit.reader import LedgerReader
from ..audit.record import STARTS
from ..control import ask
from ..errors import ControlError, NoRecordError
from ..explanation import explained
from ..settings import BridgeSettings, load_settings
from .output import print_json
from .where import CONFIG_DEFAULT, AsJson, Config

_MOST: Final = 2**63 - 1
"""The largest number that SQLite holds."""
NOTHING = 1
"""Exit code: there is no such decision."""


def why(
    seq: Annotated[
        int | None,
        typer.Argument(metavar="SEQ", min=1, max=_MOST, help="Record; default: the newest."),
    ] = None,
    config: Config = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Explain why a tick decided what it did, or nothing.

    The newest decision is the running bridge's own; older ones, and those of a bridge that has
    ended, are read from the ledger. Exit code 1: there is no such record.

    Example: gatepilot-bridge why 1042 --config bridge.yaml
    """
    settings = load_settings(config)
    try:
        found = _of_bridge(settings) if seq is None else None
        if found is None:
            found = of_ledger(settings.ledger_path, seq)
    except NoRecordError as error:
        if as_json:
            print_json({"decision": None, "queries": {}, "why": [], "reason": str(error)})
        typer.echo(f"gatepilot-bridge why: {error}", err=True)
        raise typer.Exit(NOTHING) from None
    if as_json:
        print_json(found)
        return
    for line in found["why"]:
        typer.echo(line)


def _of_bridge(settings: BridgeSettings) -> dict[str, Any] | None:
    try:
        latest = ask(settings.socket_path, "why")["latest"]
    except ControlError:
        return None
    return dict(latest) if isinstance(latest, Mapping) else None


def of_ledger(path: Path, seq: int | None) -> dict[str, Any]:
    """A recorded decision with its explanation; `None`: the newest one.

    Raises:
        NoRecordError: There is none.
        LedgerError: There is no ledger, or the record is not what was written.
    """
    reader = LedgerReader(path)
    if seq is None:
        newest = reader.last(("tick",))
        if not newest:
            raise NoRecordError(f"{path}: no decision is recorded yet")
        record = newest[0]
    else:
        record = reader.record(seq)
    content = record.content
    if record.kind != "tick":
        told = [f"Record {record.seq} is no decision but a {record.kind}."]
        if record.kind not in STARTS:
            told += [f"  {key}: {value}" for key, value in content.items()]
        return {"decision": None, "queries": {}, "why": told}
    texts = reader.query_texts(record.seq)
    return {"decision": content, "queries": texts, "why": explained(content, texts)}
