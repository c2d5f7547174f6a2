"""Whatever a gateway, a policy and the clocks do: the promises hold at every tick."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gatepilot.agents.artifact.manifest import Manifest
from gatepilot.agents.artifact.runtime import ArtifactPolicy, PolicyOutput
from gatepilot.deploy_bridge.controller import Controller
from gatepilot.deploy_bridge.decision import Decision, Doubt, canonical
from gatepilot.deploy_bridge.guardrails.bounds import BoundsParams
from gatepilot.deploy_bridge.guardrails.freshness import CRITICAL_FIELDS
from gatepilot.deploy_bridge.metrics.source import Problem, ProblemKind, Reading, Sample
from gatepilot.envs.schema.fields import FIELDS

from .kit import GOOD_VALUES, LIMITS, VirtualClock, make_bridge_controller

BOUNDS = BoundsParams(min_threshold=0.1, max_threshold=0.8)
FLOOR, CEILING = BOUNDS.threshold_steps
NAMES = [one.name for one in FIELDS if one.name != "time_of_day"]
NUMBERS = st.one_of(
    st.floats(0, 1e6), st.sampled_from([0.0, 1.0, math.nan, math.inf, -math.inf, -1.0, 1e300])
)


TOKENS = {
    "replicas_ejected": 0.0,
    "prompt_token_rate_tps": 20_000.0,
    "output_token_rate_tps": 4000.0,
    "prompt_tokens_p50": 800.0,
    "prompt_tokens_p95": 2500.0,
}
"""What an advisor can reckon with."""


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    """Good ones, and ones with gaps, nonsense or doubts."""
    values = dict(GOOD_VALUES) | TOKENS
    values["replicas_requested"] = float(draw(st.integers(0, 12)))
    values["breaker_threshold"] = draw(st.sampled_from([0.0, 0.05, 0.1, 0.5, 0.8, 0.85, 1.0]))
    if draw(st.booleans()):
        for name in draw(st.lists(st.sampled_from(NAMES), max_size=3)):
            values.pop(name, None)
        values |= draw(st.dictionaries(st.sampled_from(NAMES), NUMBERS, max_size=3))
    problems: tuple[Problem, ...] = ()
    if draw(st.integers(0, 3)) == 0:
        kinds: list[ProblemKind] = ["stale", "ambiguous", "warning", "unreachable"]
        kind = draw(st.sampled_from(kinds))
        problems = (Problem(kind, "error_rate", "drawn"),)
    samples = tuple(Sample(name, f"query of {name}", value) for name, value in values.items())
    return Reading(values, problems, samples)


@dataclass(frozen=True)
class Event:
    """One tick of a script."""

    reading: Reading
    answer: PolicyOutput | None
    jump_s: float
    ticks: float
    has_trouble: bool


ANSWERS = st.one_of(
    st.none(),
    st.builds(
        PolicyOutput,
        st.tuples(st.integers(-1, 3), st.integers(0, 2)),
        st.tuples(*[st.one_of(st.floats(-5, 5), st.just(math.nan))] * 6),
    ),
    *[
        st.builds(
            PolicyOutput,
            st.tuples(st.integers(0, 2), st.integers(0, 2)),
            st.just((0.0, 1.0, 2.0, 3.0, 4.0, 5.0)),
        )
    ]
    * 3,
)
EVENTS = st.builds(
    Event,
    reading=readings(),
    answer=ANSWERS,
    jump_s=st.sampled_from([0.0, 0.0, 0.0, 0.0, 0.1, -4.0, 60.0, -3600.0]),
    ticks=st.sampled_from([1.0, 1.0, 1.0, 1.0, 1.02, 3.0]),
    has_trouble=st.sampled_from([False, False, False, False, True]),
)


@dataclass
class Scripted:
    """A policy that answers as the script says; `None`: it raises."""

    manifest: Manifest
    answers: list[PolicyOutput | None] = field(default_factory=list)

    def decide(self, observation: NDArray[np.float32]) -> PolicyOutput:
        assert np.isfinite(observation).all()
        answer = self.answers[-1]
        if answer is None:
            raise RuntimeError("told to fail")
        return answer


def played(controller: Controller, policy: Scripted, script: list[Event]) -> list[Decision]:
    clock, found = VirtualClock(), []
    for seq, event in enumerate(script, start=1):
        policy.answers.append(event.answer)
        troubles = [Doubt("ledger", "ledger", "full")] if event.has_trouble else []
        moment = clock.next(jump_s=event.jump_s, ticks=event.ticks)
        found.append(controller.tick(event.reading, seq=seq, troubles=troubles, **moment))
    return found


def must_be_blind(reading: Reading) -> bool:
    return (
        bool(reading.problems)
        or any(name not in reading.values for name in CRITICAL_FIELDS)
        or any(not math.isfinite(value) or value < 0 for value in reading.values.values())
    )


def must_doubt(event: Event) -> bool:
    answer = event.answer
    return (
        must_be_blind(event.reading)
        or event.has_trouble
        or abs(event.jump_s) > 5.0
        or event.ticks >= 2
        or answer is None
        or not all(math.isfinite(one) for one in answer.logits)
        or not all(0 <= one <= 2 for one in answer.action)
    )


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.lists(EVENTS, min_size=1, max_size=14), needed=st.integers(1, 4))
def test_the_promises_hold(either: ArtifactPolicy, script: list[Event], needed: int) -> None:
    scripted = Scripted(either.manifest)
    controller = make_bridge_controller(scripted, good_ticks=needed, bounds=BOUNDS)
    found = played(controller, scripted, script)
    in_a_row = 0
    for event, one in zip(script, found, strict=True):
        # a blind tick sees, proposes and invents nothing
        assert one.is_blind == must_be_blind(event.reading)
        if one.is_blind:
            assert (one.proposal, one.final, one.action, one.incumbent) == (None,) * 4
        # a reason to doubt is always found (the first tick's clocks have nothing before them), and
        # freezes at once
        heard = replace(event, jump_s=0.0, ticks=1.0) if one is found[0] else event
        assert bool(one.doubts) or not must_doubt(heard)
        if one.doubts:
            assert one.mode.mode == "FROZEN"
            assert one.mode.good_ticks == 0
        # NORMAL exactly after K good ticks in a row; nothing is done outside it
        in_a_row = in_a_row + 1 if one.is_good else 0
        assert (one.mode.mode == "NORMAL") == (in_a_row >= needed)
        if one.mode.mode != "NORMAL":
            assert one.outcome == "held"
            assert not one.counts
        # what would be done is at most a step, inside the limits or nearer to them, above the floor
        if one.outcome == "would_apply":
            assert one.in_force is not None
            assert one.final is not None
            now, then = one.in_force, one.final
            assert then != now
            assert abs(then.replicas - now.replicas) <= 1
            assert abs(then.threshold_steps - now.threshold_steps) <= 1
            assert min(LIMITS.min_replicas, now.replicas) <= then.replicas
            assert then.replicas <= max(LIMITS.max_replicas, now.replicas)
            assert min(FLOOR, now.threshold_steps) <= then.threshold_steps
            assert then.threshold_steps <= max(CEILING, now.threshold_steps)
        # every outcome has a reason, and a record that is canonical JSON
        assert one.reason
        assert json.loads(canonical(one.content()))["seq"] == one.seq


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.lists(EVENTS, min_size=1, max_size=10), cut=st.integers(0, 9))
def test_replay_from_any_state_gives_the_same_records(
    either: ArtifactPolicy, script: list[Event], cut: int
) -> None:
    scripted = Scripted(either.manifest)
    controller = make_bridge_controller(scripted, bounds=BOUNDS)
    clock, records, saved = VirtualClock(), [], canonical(controller.saved())
    for seq, event in enumerate(script, start=1):
        if seq == cut:
            saved = canonical(controller.saved())
        scripted.answers.append(event.answer)
        moment = clock.next(jump_s=event.jump_s, ticks=event.ticks)
        records.append(canonical(controller.tick(event.reading, seq=seq, **moment).content()))
    start = cut - 1 if 1 <= cut <= len(script) else 0
    again = Scripted(either.manifest)
    other = make_bridge_controller(again, bounds=BOUNDS)
    other.restore(json.loads(saved))
    for event, record in zip(script[start:], records[start:], strict=True):
        again.answers.append(event.answer)
        assert canonical(other.replayed(json.loads(record))) == record
    assert canonical(other.saved()) == canonical(controller.saved())
