"""`gatepilot-bridge check`: a configuration, and what its sources say now."""

from __future__ import annotations

import time
from dataclasses import asdict

import typer

from ...envs.schema.fields import FIELDS
from ..metrics.report import ProbeEntry, ProbeReport
from ..settings import load_settings
from ..wiring import make_head
from .output import print_json, print_table
from .where import AsJson, ConfigFile

BLIND = 1
"""Exit code: the bridge would see nothing it may trust."""


def check(
    config: ConfigFile,
    as_json: AsJson = False,
) -> None:
    """Check artifact and configuration, and ask every source once; nothing is written.

    Exit code 0: the bridge would see; 1: it would be blind; 2: the configuration is wrong.

    Example: gatepilot-bridge check bridge.yaml
    """
    head = make_head(load_settings(config), config.name)
    report = head.collector.probe(time.time())
    asked = {entry.name for entry in report.entries}
    absent = [field.name for field in FIELDS if field.name not in head.fields]
    unread = [f.name for f in FIELDS if f.name in head.fields and f.name not in asked]
    if as_json:
        print_json(
            {
                "sees": report.is_good,
                "digest": head.policy.digest,
                "is_signed": head.policy.is_signed,
                "remarks": list(head.remarks),
                "entries": [asdict(entry) for entry in report.entries],
                "not_asked": absent,
                "broken_off_before": unread,
            }
        )
    else:
        _print(report, absent, unread)
        for remark in head.remarks:
            typer.echo(f"note: {remark}")
    report.refuse_wrong()
    if not report.is_good:
        names = ", ".join(entry.name for entry in report.entries if _is_fault(entry))
        typer.echo(f"gatepilot-bridge check: the bridge would be blind: {names}", err=True)
        raise typer.Exit(BLIND)


def _print(report: ProbeReport, absent: list[str], unread: list[str]) -> None:
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
    if unread:
        typer.echo(f"the reading broke off, still to be asked for: {', '.join(unread)}")
    if report.missing:
        typer.echo(f"no sample, so missing for now: {', '.join(report.missing)}")
    if absent:
        typer.echo(f"not asked for, so always missing: {', '.join(absent)}")


def _is_fault(entry: ProbeEntry) -> bool:
    return entry.state != "ok" and (entry.is_critical or entry.state != "missing")
