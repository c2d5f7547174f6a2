"""One tick: known answers, each kind of doubt, and state that can be written down."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gatepilot.agents.artifact.manifest import Manifest
from gatepilot.agents.artifact.runtime import ArtifactPolicy, PolicyOutput
from gatepilot.agents.baselines.planner.advisor import PlannerAdvisor
from gatepilot.agents.baselines.planner.params import PlannerParams
from gatepilot.deploy_bridge.controller import Controller, ControllerParams
from gatepilot.deploy_bridge.decision import Decision, Doubt, Proposal, canonical
from gatepilot.deploy_bridge.guardrails.drift import DriftParams
from gatepilot.deploy_bridge.metrics.source import Problem, Reading, Sample
from gatepilot.envs.schema.settings import GatewaySettings, Limits
from gatepilot.envs.schema.snapshot import MetricsSnapshot
from gatepilot.reward.slo import Slo

from .kit import BLIND, LIMITS, VirtualClock, hpa, make_bridge_controller, reading
from .tiny_artifact import SITE

BUSY: dict[str, Any] = {"request_rate_rps": 300.0, "waiting": 60.0, "kv_usage": 0.9}
"""The tiny policy wants one replica more."""
QUIET: dict[str, Any] = {"request_rate_rps": 0.5, "kv_usage": 0.0, "error_rate": 0.0}


def ticks(
    controller: Controller, *readings: Reading, clock: VirtualClock | None = None
) -> list[Decision]:
    clock = clock or VirtualClock()
    return [
        controller.tick(one, seq=seq, **clock.next()) for seq, one in enumerate(readings, start=1)
    ]


@dataclass
class Faulty:
    """A policy with the real manifest that does what it is told instead of deciding."""

    manifest: Manifest
    does: Any

    def decide(self, observation: NDArray[np.float32]) -> PolicyOutput:
        del observation
        if isinstance(self.does, Exception):
            raise self.does
        assert isinstance(self.does, PolicyOutput)
        return self.does


def test_an_advised_policy_follows_its_advisor(advised: ArtifactPolicy) -> None:
    tokens = {"prompt_token_rate_tps": 20_000.0, "output_token_rate_tps": 4000.0}
    tokens |= {"prompt_tokens_p50": 800.0, "prompt_tokens_p95": 2500.0, "replicas_ejected": 0.0}
    for rate, step in ((200.0, 1), (0.5, -1)):
        values: dict[str, Any] = QUIET | tokens | {"request_rate_rps": rate, "waiting": 0.0}
        controller = make_bridge_controller(advised, drift=DriftParams(ignore=("error_rate",)))
        last = ticks(controller, *[reading(**values)] * 30)[-1]
        assert last.proposal is not None
        assert last.proposal.replicas == 4 + step


@pytest.mark.parametrize(
    "advisor",
    [
        None,
        PlannerAdvisor([SITE], PlannerParams(reserve=5)),
        PlannerAdvisor([replace(SITE, slo=Slo(latency_limit_s=9.0))], PlannerParams()),
    ],
)
def test_a_policy_is_not_run_with_another_advisor(
    advised: ArtifactPolicy, policy: ArtifactPolicy, advisor: PlannerAdvisor | None
) -> None:
    with pytest.raises(ValueError, match="advisor: the policy was trained with another one"):
        Controller(ControllerParams(LIMITS), advised, hpa(), advisor)
    if advisor is not None:
        with pytest.raises(ValueError, match="trained with another one, or with none"):
            Controller(ControllerParams(LIMITS), policy, hpa(), advisor)


def test_the_third_good_tick_is_the_first_that_counts(policy: ArtifactPolicy) -> None:
    found = ticks(make_bridge_controller(policy), *[reading(**BUSY)] * 4)
    assert [one.mode.mode for one in found] == ["FROZEN", "FROZEN", "NORMAL", "NORMAL"]
    assert [one.mode_before for one in found] == ["BOOT", "FROZEN", "FROZEN", "NORMAL"]
    assert [one.outcome for one in found] == ["held", "held", "would_apply", "would_apply"]
    assert [one.counts for one in found] == [False, False, True, True]
    last = found[-1]
    assert (last.in_force, last.proposal, last.final) == (
        Proposal(4, 10),
        Proposal(5, 10),
        Proposal(5, 10),
    )
    assert last.action == (2, 1)
    assert last.lifecycle == "SHADOW"
    assert last.expires_at_s == last.at_s + 5.0
    assert found[0].final == Proposal(4, 10)


def test_a_quiet_gateway_is_scaled_in_and_a_limit_clamps(policy: ArtifactPolicy) -> None:
    controller = make_bridge_controller(policy)
    at_four, at_one = reading(**QUIET), reading(replicas_requested=1.0, replicas_ready=1.0, **QUIET)
    found = ticks(controller, at_four, at_four, at_four, at_one)
    assert found[2].final == Proposal(3, 10)
    assert found[3].outcome == "unchanged"
    assert found[3].proposal == Proposal(0, 10)
    assert "replicas 0 is not allowed" in found[3].reason


@pytest.mark.parametrize(
    ("what", "kinds"),
    [
        (BLIND, ["stale"]),
        (reading(without=("request_rate_rps",)), ["missing"]),
        (reading(Problem("ambiguous", "error_rate", "2 series")), ["ambiguous"]),
        (reading(Problem("warning", "error_rate", "partial")), ["warning"]),
        (reading(waiting=math.nan), ["not_finite"]),
        (Reading({}, (Problem("unreachable", "prometheus", "refused"),)), ["unreachable"]),
        (Reading({}), ["missing"] * 4),
    ],
)
def test_a_doubtful_reading_freezes_at_once_and_proposes_nothing(
    policy: ArtifactPolicy, what: Reading, kinds: list[str]
) -> None:
    controller = make_bridge_controller(policy)
    found = ticks(controller, *[reading(**BUSY)] * 3, what, *[reading(**BUSY)] * 3)
    assert [one.mode.mode for one in found[2:]] == ["NORMAL", *["FROZEN"] * 3, "NORMAL"]
    blind = found[3]
    assert [doubt.kind for doubt in blind.doubts] == kinds
    assert blind.is_blind
    assert (blind.in_force, blind.proposal, blind.final, blind.incumbent) == (None,) * 4
    assert (blind.action, blind.logits, blind.observation_sha256) == (None, None, None)
    assert blind.outcome == "held"
    assert str(blind.doubts[0]) in blind.reason


def test_missing_is_not_zero(policy: ArtifactPolicy) -> None:
    controllers = make_bridge_controller(policy), make_bridge_controller(policy)
    without = ticks(controllers[0], reading(without=("error_rate",)))[0]
    zero = ticks(controllers[1], reading(error_rate=0.0))[0]
    assert without.observation_sha256 != zero.observation_sha256
    assert "error_rate" not in without.values


@pytest.mark.parametrize(
    ("does", "words"),
    [
        (RuntimeError("out of\nmemory"), "RuntimeError: out of memory"),
        (PolicyOutput((2, 1), (math.nan,) * 6), "NonFiniteError"),
        (PolicyOutput((0, 0), (math.inf, 0.0, 0.0, 0.0, 0.0, 0.0)), "NonFiniteError"),
        (PolicyOutput((3, 1), (0.0,) * 6), "action index 3 is not in the table"),
        (PolicyOutput((-1, 1), (0.0,) * 6), "action index -1"),
    ],
)
def test_a_policy_that_fails_holds(policy: ArtifactPolicy, does: object, words: str) -> None:
    controller = make_bridge_controller(Faulty(policy.manifest, does))
    found = ticks(controller, *[reading(**BUSY)] * 4)
    assert {one.mode.mode for one in found} == {"FROZEN"}
    assert {one.outcome for one in found} == {"held"}
    assert all(words in str(one.doubts[0]) for one in found)
    assert {(one.proposal, one.action, one.logits) for one in found} == {(None, None, None)}
    assert found[0].in_force == Proposal(4, 10)
    canonical(found[0].content())


def test_an_incumbent_that_fails_holds_too(policy: ArtifactPolicy) -> None:
    class Broken:
        def decide(self, snapshot: MetricsSnapshot, settings: GatewaySettings) -> GatewaySettings:
            raise ZeroDivisionError("no pods")

    controller = Controller(ControllerParams(LIMITS), policy, Broken())
    found = ticks(controller, *[reading()] * 4)[-1]
    assert found.mode.mode == "FROZEN"
    assert str(found.doubts[0]) == "incumbent: incumbent: ZeroDivisionError: no pods"


def test_strange_observations_freeze_with_their_names(policy: ArtifactPolicy) -> None:
    features = tuple(
        replace(one, high=0.2) if one.name == "waiting" else one for one in policy.manifest.features
    )
    narrow = Faulty(replace(policy.manifest, features=features), PolicyOutput((1, 1), (0.0,) * 6))
    controller = make_bridge_controller(narrow, drift=DriftParams(0.0, 2, 3))
    found = ticks(controller, *[reading()] * 3, *[reading(waiting=4000.0)] * 2)
    assert [one.mode.mode for one in found[2:]] == ["NORMAL", "NORMAL", "FROZEN"]
    drift = next(v for v in found[-1].verdicts if v.guardrail == "drift")
    assert drift.result == "veto"
    assert [one.name for one in drift.values] == ["waiting"]
    assert found[-1].proposal == Proposal(4, 10)  # it saw, and said what it would
    assert found[-1].outcome == "held"


def test_the_order_of_guardrails_is_fixed(policy: ArtifactPolicy) -> None:
    found = ticks(make_bridge_controller(policy), reading())[0]
    assert [one.guardrail for one in found.verdicts] == ["freshness", "drift", "bounds"]


def test_a_trouble_outside_freezes_although_all_is_seen(policy: ArtifactPolicy) -> None:
    controller, clock = make_bridge_controller(policy), VirtualClock()
    ticks(controller, *[reading()] * 3, clock=clock)
    trouble = Doubt("ledger", "ledger", "disk is full")
    found = controller.tick(reading(), seq=4, troubles=[trouble], **clock.next())
    assert found.mode.mode == "FROZEN"
    assert found.doubts == (trouble,)
    assert not found.is_blind


def test_a_jump_of_the_clock_freezes(policy: ArtifactPolicy) -> None:
    controller, clock = make_bridge_controller(policy), VirtualClock()
    ticks(controller, *[reading()] * 3, clock=clock)
    found = controller.tick(reading(), seq=4, **clock.next(jump_s=-7.0))
    assert [doubt.kind for doubt in found.doubts] == ["clock"]
    assert "went -2.0 s while the monotonic clock went +5.0 s" in found.doubts[0].detail
    assert found.mode.mode == "FROZEN"


def test_a_tick_left_out_freezes(policy: ArtifactPolicy) -> None:
    controller, clock = make_bridge_controller(policy), VirtualClock()
    ticks(controller, *[reading()] * 3, clock=clock)
    assert controller.tick(reading(), seq=4, **clock.next(ticks=3)).doubts[0].kind == "overrun"


def test_texts_of_queries_are_recorded_once(policy: ArtifactPolicy) -> None:
    controller = make_bridge_controller(policy)
    more = Reading(reading().values, (), (*reading().samples, Sample("x", "new text", None)))
    found = ticks(controller, reading(), reading(), more, reading())
    assert len(found[0].queries) == len(reading().samples)
    assert [dict(one.queries) for one in found[1:]] == [
        {},
        {found[2].evidence[-1].key: "new text"},
        {},
    ]


def test_the_incumbent_is_asked_at_every_seeing_tick(policy: ArtifactPolicy) -> None:
    controller = make_bridge_controller(policy)
    found = ticks(controller, BLIND, reading(**BUSY), *[reading(**BUSY)] * 3)
    assert found[0].incumbent is None
    expected = hpa()
    snapshot = MetricsSnapshot(**reading(**BUSY).values)
    wished = [expected.decide(snapshot, GatewaySettings(4, 10)) for _ in range(4)]
    assert [one.incumbent for one in found[1:]] == [
        Proposal(one.replicas, one.threshold_steps, one.max_outstanding) for one in wished
    ]


def test_settings_outside_the_limits_are_not_jumped_back(policy: ArtifactPolicy) -> None:
    params = {"limits": Limits(1, 3)}
    found = ticks(make_bridge_controller(policy, **params), *[reading(**QUIET)] * 3)
    assert found[-1].final == Proposal(3, 10)
    held = ticks(make_bridge_controller(policy, **params), *[reading(**BUSY)] * 3)
    assert held[-1].outcome == "unchanged"
    assert held[-1].final == Proposal(4, 10)


def test_freezing_between_ticks_takes_k_good_ticks_again(policy: ArtifactPolicy) -> None:
    controller, clock = make_bridge_controller(policy), VirtualClock()
    ticks(controller, *[reading()] * 3, clock=clock)
    controller.freeze(Doubt("ledger", "ledger", "disk is full"))
    assert (controller.mode.mode, controller.mode.good_ticks) == ("FROZEN", 0)
    found = ticks(controller, *[reading()] * 3, clock=clock)
    assert [one.mode.mode for one in found] == ["FROZEN", "FROZEN", "NORMAL"]


def test_state_is_json_and_restores_to_the_bit(policy: ArtifactPolicy) -> None:
    script = [reading(**BUSY), BLIND, *[reading(waiting=float(k)) for k in range(12)]]
    whole, clock = make_bridge_controller(policy), VirtualClock()
    expected = [canonical(one.content()) for one in ticks(whole, *script, clock=clock)]
    first, second = make_bridge_controller(policy), make_bridge_controller(policy)
    clock = VirtualClock()
    got = [canonical(one.content()) for one in ticks(first, *script[:7], clock=clock)]
    second.restore(json.loads(canonical(first.saved())))
    for seq, one in enumerate(script[7:], start=8):
        got.append(canonical(second.tick(one, seq=seq, **clock.next()).content()))
    assert got == expected
    assert canonical(second.saved()) == canonical(whole.saved())


def test_good_ticks_below_one_would_trust_blindly() -> None:
    with pytest.raises(ValueError, match="good_ticks is 0"):
        ControllerParams(LIMITS, good_ticks=0)
