"""`gatepilot-bridge replay`: every recorded decision again, in this process."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..audit.ledger import head_path
from ..audit.reader import LedgerReader
from ..audit.replay import replay as replay_records
from ..errors import TamperedLedgerError
from ..explanation import moment
from ..wiring import recorded_controller
from .output import print_json
from .where import AsJson, Ledger, given_path, ledger_of

DIFFERS = 1
"""Exit code: a record was changed, or a decision comes out otherwise."""
_SHOWN = 10


def replay(
    ledger: Ledger,
    artifact: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where the artifact is now; default: where it was.",
            parser=given_path,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the chain of records and recompute every decision, bit for bit.

    Exit code 0: all as recorded; 1: a record was changed, or a decision comes out otherwise.

    Example: gatepilot-bridge replay state/ledger.sqlite --artifact artifact
    """
    reader = LedgerReader(ledger_of(ledger))
    if artifact is not None and not os.path.isdir(artifact):
        raise typer.BadParameter(f"--artifact: {artifact}: no such folder")
    try:
        report = replay_records(
            reader.verified(), lambda identity: recorded_controller(identity, artifact)
        )
    except TamperedLedgerError as error:
        if as_json:
            print_json({"intact": False, "seq": error.seq, "reason": str(error)})
        typer.echo(f"gatepilot-bridge replay: {error}", err=True)
        raise typer.Exit(DIFFERS) from None
    note = (
        None
        if reader.has_head()
        else (f"no {head_path(reader.path).name} beside it: a cut tail would not be seen")
    )
    if as_json:
        print_json(
            {"intact": True, "identical": report.is_identical, "note": note} | asdict(report)
        )
    else:
        typer.echo(
            f"{report.records} records intact ({report.first_seq}-{report.last_seq}), "
            f"{report.ticks} decisions recomputed, {len(report.differences)} differ; "
            f"{report.boots} boots, {report.gaps} gaps ({report.lost_ticks} ticks not recorded)"
        )
        typer.echo(f"head {report.last_seq} {report.head_hash}")
        for one in report.broken_off:
            typer.echo(
                f"note: a run ended without a stop (killed, or the disk was full): its last record "
                f"is {one.seq} of {moment(one.at_s)}"
            )
        if note is not None:
            typer.echo(f"note: {note}")
    if report.differences:
        for difference in report.differences[:_SHOWN]:
            keys = ", ".join(difference.keys)
            typer.echo(
                f"gatepilot-bridge replay: {reader.path}: record {difference.seq} differs in "
                f"{keys}",
                err=True,
            )
        raise typer.Exit(DIFFERS)
