"""Figures and verdicts in words that a person reads."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..agents.statistics import MIN_BLOCKS, Interval
from ..agents.trial import TrialPlan
from .results import Pair

_RUN_ID = re.compile(r"[0-9a-f]{32}")
_SHOWN_DIGITS = 8


def short(policy: str) -> str:
    """A policy's name with the ids of runs cut to what people tell apart."""
    return _RUN_ID.sub(lambda match: match[0][:_SHOWN_DIGITS], policy)


def counted(number: int, noun: str) -> str:
    """`1 window`, `2 windows`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def ticks_in_words(trials: Iterable[TrialPlan]) -> str:
    """Number and length of the ticks of some scenarios: `120 or 240 ticks of 15 s`."""
    found = list(trials)
    if not found:
        return "not a single tick"
    counts = " or ".join(str(count) for count in sorted({trial.ticks for trial in found}))
    lengths = " or ".join(f"{length:g}" for length in sorted({trial.tick_s for trial in found}))
    return f"{counts} ticks of {lengths} s"


def signed(value: float) -> str:
    """A difference with its sign; what rounds to nothing has none."""
    return f"{value:+.2f}" if round(value, 2) else "0.00"


def spanned(interval: Interval, factor: float = 1.0, digits: int = 1) -> str:
    """An interval as `low to high`; a dash where there is none."""
    if interval is None:
        return "–"  # noqa: RUF001  # an en dash is meant
    low, high = (f"{factor * end:.{digits}f}" for end in interval)
    return f"{low} to {high}"


def verdict_line(pair: Pair) -> str:
    """The comparison of two policies as one sentence."""
    found, ours, theirs = pair.comparison, short(pair.policy), short(pair.against)
    windows = counted(found.windows, "window")
    figures = (
        f"mean difference {signed(found.mean_difference)} a window "
        f"(95 % interval {spanned(found.ci95, digits=2)}), IQM {signed(found.iqm_difference)}, "
        f"better in {100 * found.probability_of_improvement:.0f} % of {windows}"
    )
    match found.verdict:
        case "win":
            return f"{ours} is better than {theirs}: {figures}."
        case "loss":
            return f"{ours} is worse than {theirs}: {figures}."
        case "too few windows":
            return (
                f"{ours} against {theirs}: too few windows to tell, at least {MIN_BLOCKS} are "
                f"needed; {figures}."
            )
    if found.ci95 is not None and found.ci95[0] <= 0 <= found.ci95[1]:
        return f"{ours} against {theirs}: undecided, the interval contains 0; {figures}."
    return f"{ours} against {theirs}: undecided, mean and IQM do not agree; {figures}."
