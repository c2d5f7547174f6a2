"""Whether the reading is to be trusted at all: it is asked before the policy is.

A doubt of a source, a critical quantity that is absent, a value that no source may report: each of
them makes the tick blind. A rate query keeps answering for its whole window after its target has
died, so plausible numbers alone prove nothing: the sources check the age of the data themselves and
say `stale`, and this guardrail takes their word for "no", never for "yes".
"""

from __future__ import annotations

import math
from typing import Final

from ...envs.schema.fields import FIELD_INDEX, FIELDS
from ..decision import Doubt, Proposal, Verdict
from .guardrail import Context, State

CRITICAL_FIELDS: Final = (
    "replicas_requested",
    "replicas_ready",
    "breaker_threshold",
    "request_rate_rps",
)
"""Without one of them a tick is blind. Any other quantity may be missing: the policy is told."""


class Freshness:
    """The guardrail. It has no state."""

    name: Final = "freshness"

    def initial(self) -> State:
        """Nothing."""
        return None

    def judge(
        self, proposal: Proposal | None, context: Context, state: State
    ) -> tuple[Verdict, State]:
        """Vetoes a reading with any reason against it."""
        doubts = (*(context.problems or _missing(context)), *_impossible(context))
        if not doubts:
            return Verdict(self.name, "pass", before=proposal, after=proposal), state
        reason = "the reading is not to be trusted"
        return Verdict(self.name, "veto", reason, proposal, None, doubts=doubts), state


def _missing(context: Context) -> list[Doubt]:
    return [
        Doubt("missing", name, "no sample, and nothing can be decided without it")
        for name in CRITICAL_FIELDS
        if name not in context.values
    ]


def _impossible(context: Context) -> list[Doubt]:
    doubts = []
    for name, value in context.values.items():
        if name not in FIELD_INDEX:
            doubts.append(Doubt("out_of_range", name, "not a field of the contract"))
        elif not math.isfinite(value):
            doubts.append(Doubt("not_finite", name, f"is {value}"))
        elif value < (low := FIELDS[FIELD_INDEX[name]].low):
            doubts.append(Doubt("out_of_range", name, f"is {value:g}, expected {low:g} or more"))
    return doubts
