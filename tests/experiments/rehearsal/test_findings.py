"""Figures of made-up ticks, counted by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepilot.deploy_bridge.decision import Decision, Doubt, Excess, Proposal, Verdict
from gatepilot.deploy_bridge.mode import ModeState
from gatepilot.envs.schema.settings import GatewaySettings
from gatepilot.experiments.rehearsal.findings import RE_ARMING, findings_of
from gatepilot.experiments.rehearsal.shadow import WatchedTick

NORMAL, FROZEN = ModeState("NORMAL", 3), ModeState("FROZEN", 1, "earlier")


def tick(number: int, ours: int, theirs: int, *, now: int = 4, threshold: int = 0) -> WatchedTick:
    """A good tick: the policy would step by `ours`, the incumbent went by `theirs`."""
    in_force, final = Proposal(now, 10), Proposal(now + ours, 10 + threshold)
    decision = Decision(
        seq=number + 2,
        at_s=15.0 * number,
        monotonic_s=15.0 * number,
        lifecycle="SHADOW",
        mode_before="NORMAL",
        mode=NORMAL,
        troubles=(),
        problems=(),
        values={},
        evidence=(),
        queries={},
        doubts=(),
        in_force=in_force,
        proposal=final,
        incumbent=Proposal(now + theirs, 10),
        outcome="would_apply" if ours or threshold else "unchanged",
        final=final,
    )
    before = GatewaySettings(now, 10)
    return WatchedTick(number, np.zeros(1), decision, before, GatewaySettings(now + theirs, 10))


def blind(number: int) -> WatchedTick:
    seen = tick(number, 0, 0)
    doubt = Doubt("unreachable", "source", "no answer")
    missing = Doubt("missing", "replicas_ready", "no sample")
    decision = replace(
        seen.decision,
        mode=ModeState("FROZEN", 0, "x"),
        problems=(doubt,),
        doubts=(doubt, missing),
        in_force=None,
        proposal=None,
        incumbent=None,
        final=None,
        outcome="held",
        verdicts=(Verdict("freshness", "veto", doubts=(doubt, missing)),),
    )
    return replace(seen, decision=decision)


def test_agreement_is_of_directions() -> None:
    ticks = [
        tick(0, 0, 0),
        tick(1, 1, 4),  # both up; the incumbent jumps
        tick(2, 1, 0),
        tick(3, 0, -1),
        tick(4, -1, 0),
        tick(5, -1, 2),
    ]
    found = findings_of(ticks, 15.0)
    agreement = found.agreement
    assert (agreement.ticks, agreement.same) == (6, 2)
    assert (agreement.wants_more, agreement.wants_fewer) == (2, 2)
    assert agreement.first_disagreement == 2
    assert agreement.mean_gap_replicas == pytest.approx((0 + 3 + 1 + 1 + 1 + 3) / 6)
    assert (found.policy_replicas.up, found.policy_replicas.down) == (2, 2)
    assert (found.incumbent_replicas.up, found.incumbent_replicas.down) == (2, 1)
    assert found.policy_replicas.reversals_per_hour == pytest.approx(1 / (6 * 15 / 3600))
    assert found.incumbent_replicas.reversals_per_hour == pytest.approx(2 / (6 * 15 / 3600))
    assert (found.incumbent_foreseen, found.incumbent_asked) == (6, 6)


def test_only_normal_ticks_count_and_held_ones_have_reasons() -> None:
    frozen = tick(3, 1, 0)
    frozen = replace(frozen, decision=replace(frozen.decision, mode=FROZEN, outcome="held"))
    found = findings_of([tick(0, 0, 0), blind(1), blind(2), frozen, tick(4, 1, 1)], 15.0)
    assert (found.ticks, found.counted, found.blind, found.held) == (5, 2, 2, 3)
    assert found.held_reasons == {"unreachable: source": 2, RE_ARMING: 1}
    assert (found.agreement.ticks, found.agreement.same) == (2, 2)
    assert found.agreement.first_disagreement is None
    assert found.vetoes == {"freshness": 2}
    assert found.freezes == 3  # every made-up tick says it came from NORMAL
    assert found.incumbent_asked == 3


def test_a_veto_of_the_policy_alone_is_named() -> None:
    one = tick(0, 0, 0)
    one = replace(one, decision=replace(one.decision, outcome="held", reason="too much at once"))
    assert findings_of([one], 15.0).held_reasons == {"too much at once": 1}


def test_breaches_and_strange_entries() -> None:
    low = Verdict("bounds", "clamp", values=(Excess("replicas", 0.0, 1.0, 8.0),))
    high = Verdict("bounds", "clamp", values=(Excess("threshold_steps", 20.0, 1.0, 19.0),))
    drift = Verdict(
        "drift",
        "pass",
        values=(Excess("cpu_utilization", 0.9, 0.1, 0.8), Excess("kv_usage", 0.0, 0.3, 0.5)),
    )
    more = Verdict("drift", "veto", values=(Excess("cpu_utilization", 1.0, 0.1, 0.8),))
    ticks = [
        replace(one, decision=replace(one.decision, verdicts=verdicts))
        for one, verdicts in zip(
            [tick(i, 0, 0) for i in range(3)], [(drift, low), (more,), (low, high)], strict=True
        )
    ]
    found = findings_of(ticks, 15.0)
    assert found.floor_breaches == {"replicas": 2}
    assert found.ceiling_breaches == {"threshold_steps": 1}
    assert found.clamps == {"bounds": 3}
    assert found.vetoes == {"drift": 1}
    assert [(one.name, one.ticks, one.worst) for one in found.strange] == [
        ("cpu_utilization", 2, 1.0),
        ("kv_usage", 1, 0.0),
    ]


def test_without_a_tick_that_counts_there_is_no_rate() -> None:
    found = findings_of([blind(0)], 15.0)
    assert found.agreement.ticks == 0
    assert found.agreement.mean_gap_replicas is None
    assert found.policy_replicas.reversals_per_hour == 0.0


@given(st.lists(st.tuples(st.integers(-1, 1), st.integers(-3, 8)), max_size=60))
def test_every_tick_is_counted_once(steps: list[tuple[int, int]]) -> None:
    found = findings_of([tick(i, *pair) for i, pair in enumerate(steps)], 15.0)
    agreement = found.agreement
    parts = agreement.same + agreement.wants_more + agreement.wants_fewer
    assert parts == agreement.ticks == found.counted == len(steps)
    moves = found.policy_replicas
    assert moves.up + moves.down == sum(ours != 0 for ours, _ in steps)
