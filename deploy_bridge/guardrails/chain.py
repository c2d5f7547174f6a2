"""Guardrails in their order; the first veto ends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..decision import Proposal, Verdict
from .guardrail import Context, Guardrail, State


def judged(
    guardrails: Sequence[Guardrail],
    proposal: Proposal | None,
    context: Context,
    states: Mapping[str, State],
) -> tuple[Proposal | None, tuple[Verdict, ...], dict[str, State]]:
    """Passes a proposal along the chain.

    Args:
        guardrails: In the order in which they are asked.
        proposal: What is wanted; `None` before the policy has been asked.
        context: What is known.
        states: State of every guardrail by name.

    Returns:
        What is left of the proposal, the verdicts of those who were asked, and the next states. A
        guardrail behind a veto is not asked and keeps its state.
    """
    verdicts, after = [], dict(states)
    for guardrail in guardrails:
        verdict, after[guardrail.name] = guardrail.judge(proposal, context, after[guardrail.name])
        verdicts.append(verdict)
        proposal = verdict.after
        if verdict.result == "veto":
            break
    return proposal, tuple(verdicts), after
