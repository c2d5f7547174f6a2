"""`gatepilot-bridge check`: a configuration, and what its sources say now."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ...envs.schema.fields import FIELDS
from ..metrics.report import ProbeEntry, ProbeReport
from ..settings import load_settings
from ..wiring import make_head
from .output import print_json, print_table

BLIND = 1
"""Exit code: the bridge would see nothing it may trust."""


def check(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The bridge's YAML file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check artifact and configuration, and ask every source once; nothing is written.

    Exit code 0: the bridge would see; 1: it would be blind; 2: the configuration is wrong.

    Example: gatepilot-bridge check bridge.yaml
    """
    head = make_head(load_settings(config), config.name)
    report = head.collector.probe(time.time())
    asked = {entry.name for entry in report.entries}
    absent = [field.name for field in FIELDS if field.name not in asked]
    if as_json:
        print_json(
            {
                "sees": report.is_good,
                "digest": head.policy.digest,
                "is_signed": head.policy.is_signed,
                "remarks": list(head.remarks),
                "entries": [asdict(entry) for entry in report.entries],
                "not_asked": absent,
            }
        )
    else:
        _print(report, absent)
        for remark in head.remarks:
            typer.echo(f"note: {remark}")
    report.refuse_ambiguous()
    if not report.is_good:
        names = ", ".join(entry.name for entry in report.entries if _is_fault(entry))
        typer.echo(f"gatepilot-bridge check: the bridge would be blind: {names}", err=True)
        raise typer.Exit(BLIND)


def _print(report: ProbeReport, absent: list[str]) -> None:
    rows = [
        (
            entry.name,
            entry.state,
            "-" if entry.value is None else f"{entry.value:.4g}",
            "critical" if entry.is_critical else "",
            entry.hint,
        )
        for entry in report.entries
    ]
    print_table(("quantity", "state", "value", "", "hint"), rows)
    if absent:
        typer.echo(f"not asked for, so always missing: {', '.join(absent)}")


def _is_fault(entry: ProbeEntry) -> bool:
    return entry.state != "ok" and (entry.is_critical or entry.state != "missing")
