"""The multi-signal anomaly detector of the source documents: a pure rule, no controller.

Formula: over one answer of a model (`source-systems.md`, A7),

    score = 0.4 [confidence < 0.65] + 0.35 [entropy > 4.2] + 0.25 [rate < 8 tokens/s]

Regimes: each signal raises its flag or does not, so the score is one of eight values from 0 to 1.
Where a signal is missing there is no score.

Version: no upstream; the article that the project grows out of. It prints signals, bounds and
weights, and no bound on the score.

Why it is no controller: confidence and entropy of the answers are no fields of the contract, and
they hold 0.75 of the weight. The token rate of an answer could be fed from output tokens a second
over running requests, but alone it is one flag of fixed weight, a bound on a mean: nothing of the
rule would be left. So it is registered nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnomalyParams:
    """Bounds and weights as printed; the weights add up to 1."""

    least_confidence: float = 0.65
    """A lower one raises its flag, 0-1."""
    largest_entropy: float = 4.2
    """A higher one raises its flag; the unit is not printed."""
    least_rate_tps: float = 8.0
    """A lower one raises its flag, tokens a second of one answer."""
    confidence_weight: float = 0.4
    """Weight of the first flag."""
    entropy_weight: float = 0.35
    """Weight of the second."""
    rate_weight: float = 0.25
    """Weight of the third."""


def anomaly_score(
    params: AnomalyParams,
    confidence: float | None,
    entropy: float | None,
    rate_tps: float | None,
) -> float | None:
    """The weight of the flags that are raised, 0-1.

    Args:
        params: Bounds and weights.
        confidence: Of the answer, 0-1; `None`: not known.
        entropy: Of its tokens; `None`: not known.
        rate_tps: Its tokens a second; `None`: not known.

    Returns:
        `None` if a signal is not known: a flag that cannot be seen is not one that is down.
    """
    if confidence is None or entropy is None or rate_tps is None:
        return None
    return (
        params.confidence_weight * (confidence < params.least_confidence)
        + params.entropy_weight * (entropy > params.largest_entropy)
        + params.rate_weight * (rate_tps < params.least_rate_tps)
    )
