"""m strange observations among the last n freeze, and the verdict names what was strange."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepilot.agents.artifact.manifest import Feature
from gatepilot.deploy_bridge.decision import Proposal, Verdict
from gatepilot.deploy_bridge.guardrails.drift import Drift, DriftParams
from gatepilot.deploy_bridge.guardrails.guardrail import Context

from ..kit import LIMITS

FEATURES = (
    Feature("rate", 0.2, 0.6, (0.2,) * 7),
    Feature("rate_known", 1.0, 1.0, (1.0,) * 7),
)
PROPOSAL = Proposal(5, 10)


def judged(
    params: DriftParams, observations: Sequence[tuple[float, float] | None]
) -> list[Verdict]:
    drift, verdicts = Drift(params, FEATURES), []
    state = drift.initial()
    for one in observations:
        observation = None if one is None else np.array(one, np.float32)
        context = Context({}, (), LIMITS, observation=observation)
        verdict, state = drift.judge(PROPOSAL, context, state)
        verdicts.append(verdict)
    return verdicts


def test_the_edge_of_the_training_counts_as_seen_and_the_tolerance_widens_it() -> None:
    params = DriftParams(tolerance=0.1, strange_ticks=1, of_ticks=1)
    inside = judged(params, [(0.2, 1.0), (0.6, 1.0), (0.69, 1.0), (0.11, 0.95)])
    assert [verdict.result for verdict in inside] == ["pass"] * 4
    outside = judged(params, [(0.71, 1.0), (0.09, 1.0), (0.4, 0.0)])
    assert [verdict.result for verdict in outside] == ["veto"] * 3
    assert [one.name for verdict in outside for one in verdict.values] == [
        "rate",
        "rate",
        "rate_known",
    ]
    assert outside[0].values[0].low == 0.2
    assert outside[0].values[0].high == 0.6


def test_m_of_n_freezes_and_the_reason_names_entry_value_and_range() -> None:
    strange, usual = (0.9, 1.0), (0.4, 1.0)
    verdicts = judged(DriftParams(), [strange, usual, strange, usual, strange, usual])
    results = [verdict.result for verdict in verdicts]
    assert results == ["pass", "pass", "pass", "pass", "veto", "pass"]
    assert verdicts[4].after is None
    assert "3 of the last 5 ticks" in verdicts[4].reason
    assert "rate 0.9 (0.2-0.6)" in verdicts[4].reason
    assert verdicts[2].reason  # noted before it freezes
    assert not verdicts[5].reason


def test_a_usual_tick_still_freezes_while_m_strange_ones_are_near() -> None:
    verdicts = judged(DriftParams(), [(0.9, 1.0)] * 4 + [(0.4, 1.0)] * 3)
    assert [v.result for v in verdicts] == ["pass", "pass", *["veto"] * 4, "pass"]


def test_blind_ticks_are_not_judged() -> None:
    verdicts = judged(DriftParams(), [(0.9, 1.0), None, (0.9, 1.0), None, (0.9, 1.0)])
    assert [verdict.result for verdict in verdicts] == ["pass"] * 4 + ["veto"]


def test_an_ignored_entry_is_not_looked_at() -> None:
    params = DriftParams(strange_ticks=1, of_ticks=1, ignore=("rate_known",))
    assert judged(params, [(0.4, 0.0)])[0].result == "pass"
    with pytest.raises(ValueError, match=r"ignore: 'rat' is no entry"):
        Drift(DriftParams(ignore=("rat",)), FEATURES)


def test_a_count_that_is_never_reached_is_refused() -> None:
    with pytest.raises(ValueError, match="strange_ticks is 6, of_ticks allows 5 at most"):
        DriftParams(strange_ticks=6)


@given(strange=st.lists(st.booleans(), max_size=30), m=st.integers(1, 4), extra=st.integers(0, 4))
def test_the_rule_is_m_of_the_last_n(strange: list[bool], m: int, extra: int) -> None:
    n = m + extra
    params = DriftParams(strange_ticks=m, of_ticks=n)
    verdicts = judged(params, [(0.9 if one else 0.4, 1.0) for one in strange])
    for i, verdict in enumerate(verdicts):
        assert (verdict.result == "veto") == (sum(strange[max(0, i + 1 - n) : i + 1]) >= m)
