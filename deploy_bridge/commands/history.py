"""`gatepilot-bridge history`: what the ledger holds."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from ..audit.reader import LedgerReader
from ..audit.record import Record
from ..explanation import moment, settings_line
from .output import print_json, print_table
from .where import CONFIG_DEFAULT, AsJson, Ledger, ledger_of

_EVENTS: Final = ("boot", "gap", "cut", "stop")


def history(
    ledger: Ledger = CONFIG_DEFAULT,
    last: Annotated[int, typer.Option(min=1, help="So many of the newest.")] = 20,
    every: Annotated[
        bool, typer.Option("--all", help="Ticks that changed nothing, and checkpoints, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List boots, stops, gaps, changes of mode and decisions to change something.

    Example: gatepilot-bridge history bridge.yaml --last 50
    """
    reader = LedgerReader(ledger_of(ledger))
    rows = [_row(record) for record in reader.newest(last, None if every else is_event)]
    if as_json:
        print_json({"records": rows})
        return
    print_table(
        ("record", "when", "kind", "mode", "what"),
        [
            (str(row["seq"]), moment(row["at_s"]), row["kind"], row["mode"] or "", row["what"])
            for row in rows
        ],
    )


def is_event(record: Record) -> bool:
    """Whether a record is more than a tick like the one before."""
    if record.kind in _EVENTS:
        return True
    if record.kind != "tick":
        return False
    content = record.content
    has_moved: bool = content["mode_before"] != content["mode"]["mode"]
    return has_moved or content["outcome"] == "would_apply"


def _row(record: Record) -> dict[str, Any]:
    content = record.content
    mode: str | None = None
    match record.kind:
        case "tick":
            before, mode = content["mode_before"], content["mode"]["mode"]
            mode = mode if before == mode else f"{before} -> {mode}"
            what = content["reason"]
            if content["outcome"] == "would_apply":
                before, after = settings_line(content["in_force"]), settings_line(content["final"])
                what = f"would change {before} -> {after}"
        case "boot" | "checkpoint":
            identity = content["identity"]
            what = f"{identity['name']}, artifact {identity['artifact']['digest'][:12]}"
            mode = content["state"]["mode"]["mode"]
            broken_off = content.get("unfinished")
            if broken_off is not None:
                what += (
                    f"; the run before ended without a stop (killed, or the disk was full), its "
                    f"last record is {broken_off['seq']} of {moment(broken_off['at_s'])}"
                )
        case "gap":
            what = f"{content['ticks']} ticks were not recorded: {content['reason']}"
        case "cut":
            what = f"{content['removed']} older records removed"
        case _:
            what = str(content.get("reason", ""))
    return {
        "seq": record.seq,
        "at_s": record.at_s,
        "kind": record.kind,
        "mode": mode,
        "what": what,
        "hash": record.hash.hex(),
    }
