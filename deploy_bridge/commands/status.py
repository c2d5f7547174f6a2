"""`gatepilot-bridge status`: what the running bridge does, on one screen."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any, Final

import typer

from ..control import ask
from ..errors import ControlError
from ..explanation import moment, settings_line
from ..settings import load_settings
from .output import WIDTH, print_json
from .where import CONFIG_DEFAULT, AsJson, Config

_REASON_LINES: Final = 3
NOT_NORMAL = 1
"""Exit code: no bridge answers, or it does not trust what it sees."""


def status(config: Config = CONFIG_DEFAULT, as_json: AsJson = False) -> None:
    """Show mode, artifact, latest decision and ledger of the running bridge.

    Exit code 0: it is in NORMAL; 1: it is not, or no bridge answers.

    Example: gatepilot-bridge status --config bridge.yaml
    """
    try:
        found = ask(load_settings(config).socket_path, "status")
    except ControlError as error:
        if as_json:
            print_json({"running": False, "reason": str(error)})
        typer.echo(f"gatepilot-bridge status: {error}", err=True)
        raise typer.Exit(NOT_NORMAL) from None
    if as_json:
        print_json({"running": True} | found)
    else:
        for line in lines(found):
            typer.echo(line)
    if found["mode"] != "NORMAL":
        raise typer.Exit(NOT_NORMAL)


def lines(found: Mapping[str, Any]) -> list[str]:
    """The screen: at most 24 lines of 80 characters."""
    artifact, ticks, ledger = found["artifact"], found["ticks"], found["ledger"]
    signed = "signed" if artifact["is_signed"] else "UNSIGNED"
    outcomes, agreement = found["outcomes"], found["agreement"]
    since = "" if found["since_s"] is None else f" since {moment(found['since_s'])}"
    shown = [
        f"{found['name']}: {found['mode']}{since}",
        *_wrapped("  why       ", found["reason"]),
        f"  trust     {found['good_ticks']} of {found['needed']} good ticks in a row",
        f"  lifecycle {found['lifecycle']}: it watches, nothing is written",
        f"  artifact  {artifact['digest'][:12]} ({signed}) {artifact['folder']}",
        *(f"  note      {remark}" for remark in found["remarks"]),
        f"  process   {found['pid']}, up {found['uptime_s']:.0f} s, tick {found['tick_s']:g} s",
        f"  ticks     {ticks['all']}: {ticks['good']} good, {ticks['blind']} blind, "
        f"{ticks['counted']} counted, {ticks['faults']} faults",
        f"  outcomes  {outcomes['would_apply']} would change, {outcomes['unchanged']} no change, "
        f"{outcomes['held']} held",
        f"  incumbent {found['incumbent']['controller']}: agrees on {agreement['same']} of "
        f"{agreement['compared']} counted ticks",
    ]
    latest = found["latest"]
    if latest is not None:
        shown += [
            f"  latest    {latest['headline']}",
            *(_wrapped("    because   ", latest["reason"]) if found["mode"] == "NORMAL" else []),
            f"    in force  {settings_line(latest['in_force'])}",
            f"    policy    {settings_line(latest['proposal'])}",
            f"    incumbent {settings_line(latest['incumbent'])}",
        ]
    if found["decision_p99_s"] is not None:
        shown.append(f"  speed     decision P99 {1e3 * found['decision_p99_s']:.2f} ms")
    if ledger:
        shown.append(f"  ledger    {ledger['entries']} records, head {ledger['seq']}")
        shown.append(f"    hash      {ledger['head']}")
        if ledger["trouble"]:
            shown.append(f"    TROUBLE   {ledger['trouble']}")
    if found["address"] is not None:
        shown.append(f"  pages     {found['address']}")
    return [_short(line) for line in shown]


def _wrapped(label: str, text: str) -> list[str]:
    """A long text over a few lines, nothing for an empty one."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        max_lines=_REASON_LINES,
        placeholder=" ...",
    )


def _short(line: str) -> str:
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..."
