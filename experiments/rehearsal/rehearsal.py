"""A whole rehearsal: the shadow, what it shows, and the counterfactual beside it."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ...agents.tuning import Reporter
from ...agents.windows import Window
from .counterfactual import Counterfactual, played_alone
from .findings import Findings, findings_of
from .plan import RehearsalPlan
from .shadow import Shadow, watch

CANNOT_TELL: Final = (
    "How the gateway would have fared under the policy: every tick starts from what the incumbent "
    "had set, so the policy's steps never add up and never meet their own consequences.",
    "A value of the policy estimated from these ticks (importance sampling, doubly robust): the "
    "incumbent is deterministic, so wherever the two disagree there is no data at all. No such "
    "estimate is printed.",
    "Whether agreement is good: a policy that agrees everywhere is not better, one that disagrees "
    "may be right.",
    "Anything about ticks that do not count: blind ones, and those before trust was regained.",
    "Anything about hours, loads and faults that this window does not hold.",
)
"""Limits of shadow data, one sentence each."""


@dataclass(frozen=True)
class Rehearsal:
    """A finished rehearsal."""

    plan: RehearsalPlan
    shadow: Shadow
    findings: Findings
    counterfactual: Counterfactual
    keeps_ledger: bool
    """Whether the ledger is still there."""

    @property
    def window(self) -> Window:
        """The window that was played."""
        return self.plan.window

    def as_dict(self) -> dict[str, Any]:
        """The object that `rehearse --json` prints."""
        plan, policy = self.plan, self.plan.artifact
        return {
            "scenario": plan.trial.scenario.name,
            "split": plan.trial.split,
            "window": asdict(self.window),
            "ticks": plan.trial.ticks,
            "tick_s": plan.trial.tick_s,
            "artifact": {
                "folder": str(policy.folder),
                "digest": policy.digest,
                "is_signed": policy.is_signed,
            },
            "incumbent": asdict(plan.incumbent.section),
            "faults": [str(fault) for fault in plan.faults],
            "ledger": {
                "path": str(self.shadow.ledger) if self.keeps_ledger else None,
                "records": self.shadow.records,
                "head": self.shadow.head,
            },
            "shadow": asdict(self.findings),
            "counterfactual": self.counterfactual.as_dict(),
            "cannot_tell": list(CANNOT_TELL),
        }


def rehearse(plan: RehearsalPlan, state_dir: Path | None, reporter: Reporter) -> Rehearsal:
    """Holds a rehearsal.

    Args:
        plan: What is rehearsed.
        state_dir: Where the ledger stays; `None`: nowhere.
        reporter: Shows progress.

    Raises:
        RehearsalError: There is a ledger already, or the folder cannot be made.
        LedgerError: The ledger cannot be written.
    """
    with tempfile.TemporaryDirectory() as temporary:
        progress = reporter.start(f"shadow of {plan.incumbent.name}", plan.trial.ticks)
        shadow = watch(plan, state_dir or Path(temporary), progress)
    return Rehearsal(
        plan=plan,
        shadow=shadow,
        findings=findings_of(shadow.ticks, plan.trial.tick_s),
        counterfactual=played_alone(plan, reporter),
        keeps_ledger=state_dir is not None,
    )
