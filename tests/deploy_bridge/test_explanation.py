"""Every outcome is explained in words that name what decided it."""

from __future__ import annotations

import pytest

from gatepilot.agents.artifact.runtime import ArtifactPolicy
from gatepilot.deploy_bridge.decision import Decision, Doubt, Proposal, canonical, numeral
from gatepilot.deploy_bridge.explanation import explained, settings_line
from gatepilot.deploy_bridge.metrics.source import Reading

from .kit import BLIND, VirtualClock, make_bridge_controller, reading

BUSY = reading(request_rate_rps=300.0, waiting=60.0, kv_usage=0.9)
FULL = reading(
    request_rate_rps=300.0, waiting=60.0, kv_usage=0.9, replicas_requested=8.0, replicas_ready=8.0
)
ODD = reading(breaker_threshold=0.07, replicas_requested=4.4)


def fourth(policy: ArtifactPolicy, what: Reading, troubles: list[Doubt] | None = None) -> Decision:
    controller, clock = make_bridge_controller(policy), VirtualClock()
    for seq in range(3):
        controller.tick(reading(), seq=seq, **clock.next())
    return controller.tick(what, seq=4, troubles=troubles or [], **clock.next())


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (
            BUSY,
            (
                "would change settings: 4 replicas, threshold 0.50 -> 5 replicas, threshold 0.50",
                "Because: the change passed the guardrails; in shadow nobody makes it",
                "Policy: one replica more, the threshold unchanged (ahead of the next choice by",
                "Incumbent: ",
                "nobody carries it out",
            ),
        ),
        (
            FULL,
            (
                "no change",
                "Guardrail bounds: clamp, replicas 9 is not allowed (limits 1-8",
                "Proposal: 9 replicas",
            ),
        ),
        (
            BLIND,
            (
                "held",
                "Mode: NORMAL before, FROZEN after the tick (stale: gateway_up: ",
                "  stale: gateway_up: the target is down",
                "Policy: not asked",
                "Guardrail freshness: veto",
            ),
        ),
        (
            ODD,
            (
                "Note: breaker_threshold 0.07 taken as 0.05",
                "Note: replicas_requested 4.4 taken as 4",
            ),
        ),
    ],
)
def test_the_words_name_the_cause(
    policy: ArtifactPolicy, what: Reading, words: tuple[str, ...]
) -> None:
    decision = fourth(policy, what)
    text = "\n".join(explained(decision.content(), decision.queries))
    for word in words:
        assert word in text


def test_what_was_asked_stands_under_the_doubt(policy: ArtifactPolicy) -> None:
    missing = reading(without=("replicas_ready",))
    samples = (
        *missing.samples,
        *(one for one in reading().samples if one.name == "replicas_ready"),
    )
    decision = fourth(policy, Reading(missing.values, (), samples))
    texts = {one.key: one.query for one in decision.evidence}
    lines = explained(decision.content(), texts)
    at = lines.index("  missing: replicas_ready: no sample, and nothing can be decided without it")
    assert lines[at + 1] == "    asked: query of replicas_ready"
    assert "not known: replicas_ready" in "\n".join(lines)


def test_settings_in_words() -> None:
    content: dict[str, int] = {"replicas": 3, "threshold_steps": 7, "max_outstanding": 0}
    assert settings_line(content) == "3 replicas, threshold 0.35, at most 0 in flight"
    assert settings_line(None) == "unknown"
    assert Proposal(**content).threshold == 0.35


def test_records_are_json_without_nan() -> None:
    assert canonical({"b": 1, "a": [0.1, None]}) == b'{"a":[0.1,null],"b":1}'
    with pytest.raises(ValueError, match="JSON"):
        canonical({"x": float("nan")})
    assert [numeral(x) for x in (1.5, float("nan"), float("-inf"))] == [1.5, "nan", "-inf"]
