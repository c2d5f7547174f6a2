"""The first veto ends the chain; a clamp is what the next one sees."""

from __future__ import annotations

from dataclasses import dataclass

from gatepilot.deploy_bridge.decision import Proposal, Result, Verdict
from gatepilot.deploy_bridge.guardrails.chain import judged
from gatepilot.deploy_bridge.guardrails.guardrail import Context, State

from ..kit import LIMITS

CONTEXT = Context({}, (), LIMITS)


@dataclass
class Says:
    """A guardrail that says what it is told to, and counts how often it was asked."""

    name: str
    result: Result
    after: Proposal | None

    def initial(self) -> State:
        return 0

    def judge(
        self, proposal: Proposal | None, context: Context, state: State
    ) -> tuple[Verdict, State]:
        del context
        return Verdict(self.name, self.result, "told", proposal, self.after), state + 1


def test_each_sees_what_the_one_before_left() -> None:
    first = Says("a", "clamp", Proposal(4, 10))
    left, verdicts, states = judged(
        [first, Says("b", "pass", Proposal(4, 10))], Proposal(5, 10), CONTEXT, {"a": 0, "b": 0}
    )
    assert left == Proposal(4, 10)
    assert [verdict.before for verdict in verdicts] == [Proposal(5, 10), Proposal(4, 10)]
    assert states == {"a": 1, "b": 1}


def test_behind_a_veto_nobody_is_asked() -> None:
    before = {"a": 0, "b": 0}
    left, verdicts, states = judged(
        [Says("a", "veto", None), Says("b", "pass", None)], Proposal(5, 10), CONTEXT, before
    )
    assert left is None
    assert [verdict.guardrail for verdict in verdicts] == ["a"]
    assert states == {"a": 1, "b": 0}
    assert before == {"a": 0, "b": 0}
