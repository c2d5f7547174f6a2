"""What a shadow shows, counted: agreement, vetoes, strange observations, would-be breaches.

Only ticks in mode NORMAL count as evidence. A step is what would have been done after all
guardrails, one step from the settings that the incumbent had in force: no run of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from ...agents.episodes import SECONDS_PER_HOUR
from ...deploy_bridge.decision import Decision, Excess, Verdict
from .shadow import WatchedTick

RE_ARMING: Final = "good again, not yet trusted"
"""Reason of a held tick that is a good one, but not the K-th in a row."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """The policy's direction against the incumbent's, over the ticks that count."""

    ticks: int
    same: int
    """Ticks at which both want more, both fewer, or both no change."""
    wants_more: int
    """Ticks at which the policy's direction is above the incumbent's."""
    wants_fewer: int
    first_disagreement: int | None
    """The first tick at which they differ, from 0."""
    mean_gap_replicas: float | None
    """Mean of |replicas the policy would step to - replicas the incumbent set|."""


@dataclass(frozen=True, slots=True)
class Direction:
    """How often somebody would move one knob, over the ticks that count."""

    up: int
    down: int
    reversals_per_hour: float
    """Moves against the direction of the move before."""


@dataclass(frozen=True, slots=True)
class Strange:
    """An observation entry outside what training saw."""

    name: str
    ticks: int
    low: float
    """Of the training, in the observation's own units."""
    high: float
    worst: float
    """The value farthest outside."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The figures of a shadow rehearsal."""

    ticks: int
    counted: int
    """Ticks in mode NORMAL: evidence."""
    blind: int
    """Ticks at which nothing could be decided."""
    held: int
    """Ticks at which the settings would have been left alone for a reason."""
    held_reasons: dict[str, int]
    """Ticks by reason, most frequent first."""
    freezes: int
    """Times at which NORMAL was lost."""
    agreement: Agreement
    policy_replicas: Direction
    policy_threshold: Direction
    incumbent_replicas: Direction
    vetoes: dict[str, int]
    """Ticks by guardrail."""
    clamps: dict[str, int]
    strange: tuple[Strange, ...]
    """Entries by number of ticks."""
    floor_breaches: dict[str, int]
    """Ticks at which the policy asked for less than the lowest allowed value, by knob."""
    ceiling_breaches: dict[str, int]
    """Ticks at which it asked for more than the highest."""
    incumbent_foreseen: int
    """Ticks at which the bridge's copy of the incumbent named what was then set, replicas."""
    incumbent_asked: int
    """Ticks at which that copy was asked."""


def findings_of(ticks: Sequence[WatchedTick], tick_s: float) -> Findings:
    """Counts.

    Args:
        ticks: All of them, in order.
        tick_s: Seconds between two.
    """
    decisions = [tick.decision for tick in ticks]
    counted = [tick for tick in ticks if tick.decision.counts]
    hours = len(counted) * tick_s / SECONDS_PER_HOUR
    held = Counter(_held_because(d) for d in decisions if d.outcome == "held")
    asked = [tick for tick in ticks if tick.decision.incumbent is not None]
    return Findings(
        ticks=len(ticks),
        counted=len(counted),
        blind=sum(d.is_blind for d in decisions),
        held=sum(held.values()),
        held_reasons=dict(held.most_common()),
        freezes=sum(d.mode_before == "NORMAL" and not d.counts for d in decisions),
        agreement=_agreement(counted),
        policy_replicas=_direction([policy_step(tick) for tick in counted], hours),
        policy_threshold=_direction([threshold_step(tick) for tick in counted], hours),
        incumbent_replicas=_direction([incumbent_step(tick) for tick in counted], hours),
        vetoes=_by_guardrail(decisions, "veto"),
        clamps=_by_guardrail(decisions, "clamp"),
        strange=_strange(decisions),
        floor_breaches=_breaches(decisions, lambda one: one.value < one.low),
        ceiling_breaches=_breaches(decisions, lambda one: one.value > one.high),
        incumbent_foreseen=sum(_is_foreseen(tick) for tick in asked),
        incumbent_asked=len(asked),
    )


def policy_step(tick: WatchedTick) -> int:
    """Replicas that the policy would add, after all guardrails; 0 where it would hold."""
    decision = tick.decision
    if decision.final is None or decision.in_force is None:
        return 0
    return decision.final.replicas - decision.in_force.replicas


def threshold_step(tick: WatchedTick) -> int:
    """The same for the threshold, in its steps."""
    decision = tick.decision
    if decision.final is None or decision.in_force is None:
        return 0
    return decision.final.threshold_steps - decision.in_force.threshold_steps


def incumbent_step(tick: WatchedTick) -> int:
    """Replicas that the incumbent did add."""
    return tick.after.replicas - tick.before.replicas


def _agreement(counted: Sequence[WatchedTick]) -> Agreement:
    ours = np.sign([policy_step(tick) for tick in counted])
    theirs = np.sign([incumbent_step(tick) for tick in counted])
    apart = np.flatnonzero(ours != theirs)
    gaps = [abs(tick.before.replicas + policy_step(tick) - tick.after.replicas) for tick in counted]
    return Agreement(
        ticks=len(counted),
        same=len(counted) - len(apart),
        wants_more=int((ours > theirs).sum()),
        wants_fewer=int((ours < theirs).sum()),
        first_disagreement=counted[apart[0]].number if len(apart) else None,
        mean_gap_replicas=float(np.mean(gaps)) if gaps else None,
    )


def _direction(steps: Sequence[int], hours: float) -> Direction:
    moves = [step > 0 for step in steps if step]
    reversals = sum(a != b for a, b in pairwise(moves))
    return Direction(
        up=sum(step > 0 for step in steps),
        down=sum(step < 0 for step in steps),
        reversals_per_hour=reversals / hours if hours else 0.0,
    )


def _held_because(decision: Decision) -> str:
    doubts = decision.problems or decision.doubts  # without sources, all else is missing too
    if doubts:
        return ", ".join(dict.fromkeys(f"{doubt.kind}: {doubt.what}" for doubt in doubts))
    return decision.reason if decision.counts else RE_ARMING


def _by_guardrail(decisions: Sequence[Decision], result: str) -> dict[str, int]:
    found = Counter(v.guardrail for d in decisions for v in d.verdicts if v.result == result)
    return dict(found.most_common())


def _strange(decisions: Sequence[Decision]) -> tuple[Strange, ...]:
    by_name: dict[str, list[Excess]] = {}
    for verdict in _verdicts_of(decisions, "drift"):
        for excess in verdict.values:
            by_name.setdefault(excess.name, []).append(excess)
    strange = [
        Strange(name, len(found), found[0].low, found[0].high, max(found, key=_outside).value)
        for name, found in by_name.items()
    ]
    return tuple(sorted(strange, key=lambda one: (-one.ticks, one.name)))


def _breaches(decisions: Sequence[Decision], is_breach: Callable[[Excess], bool]) -> dict[str, int]:
    found = Counter(
        excess.name
        for verdict in _verdicts_of(decisions, "bounds")
        for excess in verdict.values
        if is_breach(excess)
    )
    return dict(found.most_common())


def _verdicts_of(decisions: Sequence[Decision], guardrail: str) -> list[Verdict]:
    return [v for d in decisions for v in d.verdicts if v.guardrail == guardrail]


def _outside(excess: Excess) -> float:
    return max(excess.low - excess.value, excess.value - excess.high)


def _is_foreseen(tick: WatchedTick) -> bool:
    foreseen = tick.decision.incumbent
    return foreseen is not None and foreseen.replicas == tick.after.replicas
