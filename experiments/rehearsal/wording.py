"""The findings of a rehearsal as titled rows of words: the same in a terminal and in a report."""

from __future__ import annotations

from dataclasses import dataclass

from ...agents.episodes import SECONDS_PER_HOUR
from ..wording import counted
from .counterfactual import Counterfactual
from .findings import Direction, Findings
from .plan import RehearsalPlan

_DIGEST_CHARACTERS = 12


@dataclass(frozen=True, slots=True)
class Rows:
    """A small table of names and values."""

    title: str
    rows: tuple[tuple[str, str], ...]


def headline(plan: RehearsalPlan) -> str:
    """What was rehearsed, in one sentence."""
    trial, window = plan.trial, plan.window
    part = "the whole range" if trial.split is None else f"split {trial.split}"
    hours = trial.ticks * trial.tick_s / SECONDS_PER_HOUR
    signed = "" if plan.artifact.is_signed else " (signature not checked)"
    return (
        f"{trial.scenario.name}, {part}, window {window.index} "
        f"(from {window.start_s / SECONDS_PER_HOUR:.2f} h): "
        f"{counted(trial.ticks, 'tick')} of {trial.tick_s:g} s, {hours:.2f} h. "
        f"{plan.incumbent.name} drives; artifact {plan.artifact.digest[:_DIGEST_CHARACTERS]}"
        f"{signed} watches."
    )


def tables(found: Findings, incumbent: str) -> tuple[Rows, ...]:
    """All figures of the shadow.

    Args:
        found: The findings.
        incumbent: Its name.
    """
    return (_evidence(found), _side_by_side(found, incumbent), _guardrails(found))


def summary_line(found: Findings, incumbent: str) -> str:
    """The shadow in one sentence."""
    agreement = found.agreement
    return (
        f"In shadow beside {incumbent}: {_ticks(found.counted, found.ticks)} ticks count; the "
        f"policy wanted the same direction in {_ticks(agreement.same, agreement.ticks)}, more "
        f"replicas in {agreement.wants_more}, fewer in {agreement.wants_fewer}; vetoes "
        f"{sum(found.vetoes.values())}, clamps {sum(found.clamps.values())}."
    )


def _evidence(found: Findings) -> Rows:
    held = [(f"held: {reason}", _ticks(n, found.ticks)) for reason, n in found.held_reasons.items()]
    return Rows(
        "What counts",
        (
            ("ticks in mode NORMAL, the evidence", _ticks(found.counted, found.ticks)),
            ("blind ticks", _ticks(found.blind, found.ticks)),
            ("times frozen out of NORMAL", str(found.freezes)),
            ("ticks held", _ticks(found.held, found.ticks)),
            *held,
        ),
    )


def _side_by_side(found: Findings, incumbent: str) -> Rows:
    agreement = found.agreement
    gap = agreement.mean_gap_replicas
    first = agreement.first_disagreement
    return Rows(
        f"The policy beside {incumbent}, of the ticks that count",
        (
            ("same direction", _ticks(agreement.same, agreement.ticks)),
            ("policy wants more replicas", _ticks(agreement.wants_more, agreement.ticks)),
            ("policy wants fewer", _ticks(agreement.wants_fewer, agreement.ticks)),
            ("first disagreement", "none" if first is None else f"tick {first}"),
            ("mean gap between what both set", "-" if gap is None else f"{gap:.2f} replicas"),
            ("policy would move replicas", _moves(found.policy_replicas)),
            (f"{incumbent} moved replicas", _moves(found.incumbent_replicas)),
            ("policy would move the threshold", _moves(found.policy_threshold)),
            (
                f"the bridge's own {incumbent} named what was set",
                _ticks(found.incumbent_foreseen, found.incumbent_asked),
            ),
        ),
    )


def _guardrails(found: Findings) -> Rows:
    strange = [
        (
            f"outside the training's range: {one.name}",
            f"{counted(one.ticks, 'tick')}, farthest {one.worst:.3g}, trained {one.low:.3g} to "
            f"{one.high:.3g} (observation's units)",
        )
        for one in found.strange
    ]
    return Rows(
        "Guardrails",
        (
            ("vetoes", _by_name(found.vetoes)),
            ("clamps", _by_name(found.clamps)),
            ("would-be floor breaches", _by_name(found.floor_breaches)),
            ("would-be ceiling breaches", _by_name(found.ceiling_breaches)),
            *strange,
        ),
    )


def _ticks(part: int, whole: int) -> str:
    share = f" ({100 * part / whole:.1f} %)" if whole else ""
    return f"{part} of {whole}{share}"


def _moves(direction: Direction) -> str:
    return (
        f"{direction.up} up, {direction.down} down, {direction.reversals_per_hour:.1f} "
        "reversals an hour"
    )


def _by_name(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in counts.items()) or "none"


def alone_notes(alone: Counterfactual) -> tuple[str, ...]:
    """What must be said beside the counterfactual."""
    notes = [
        "A simulation of one window, without guardrails and without telemetry faults: an "
        "illustration. For evidence with intervals play many windows: gatepilot evaluate."
    ]
    if alone.unkeepable_rate > 0:
        notes.append(
            f"No number of replicas keeps this window: at the maximum from the start "
            f"{100 * alone.unkeepable_rate:.1f} % of its ticks violate."
        )
    return tuple(notes)
