"""What a rehearsal prints on standard output."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from ..terminal import TABLE_WIDTH
from .rehearsal import CANNOT_TELL, Rehearsal
from .wording import alone_notes, headline, tables


def print_rehearsal(rehearsal: Rehearsal) -> None:
    """Prints the shadow's figures, what they cannot tell, and, apart, the counterfactual."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.width = max(console.width, TABLE_WIDTH)
    plan = rehearsal.plan
    console.print(f"Shadow: {headline(plan)}")
    for fault in plan.faults:
        console.print(f"Rehearsed fault: {fault}.")
    for rows in tables(rehearsal.findings, plan.incumbent.name):
        console.print(f"\n{rows.title}")
        widest = max(len(name) for name, _ in rows.rows)
        for name, value in rows.rows:
            console.print(f"  {name:<{widest}}  {value}")
    console.print("\nWhat shadow data cannot tell")
    for line in CANNOT_TELL:
        console.print(f"  - {line}")
    console.print(_alone(rehearsal))
    for line in alone_notes(rehearsal.counterfactual):
        console.print(line)
    if rehearsal.keeps_ledger:
        ledger = rehearsal.shadow.ledger
        console.print(f"ledger  {ledger}  (check it: gatepilot-bridge replay {ledger})")


def _alone(rehearsal: Rehearsal) -> Table:
    table = Table(
        title="\nSIMULATED counterfactual: each alone in this window",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("who", no_wrap=True)
    for name in ("return", "violating %", "replica-h", "errors %", "TTFT P95 s", "changes"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rehearsal.counterfactual.episodes:
        table.add_row(
            row.policy,
            f"{row.documented_return:.1f}",
            f"{100 * row.violation_rate:.2f}",
            f"{row.replica_hours:.2f}",
            f"{100 * row.error_rate:.2f}",
            "-" if row.ttft_p95_s is None else f"{row.ttft_p95_s:.2f}",
            str(row.changes),
        )
    return table
