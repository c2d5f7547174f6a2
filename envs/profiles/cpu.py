"""CPU of a replica as a function of its load: assumed where nobody measured it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CpuModel:
    """Busy share of a replica's CPU: `clip(idle + per_iteration_s * i + per_token_s * t, 0, 1)`.

    i is iterations per second, t prompt and output tokens processed per second.
    """

    idle: float
    """Share (0-1) of a ready replica that does nothing."""
    per_iteration_s: float
    """CPU share-seconds of one iteration (scheduling, kernel launches)."""
    per_token_s: float
    """CPU share-seconds of one token (tokenising, sampling, streaming)."""
    startup: float
    """Share (0-1) while a replica starts (weights, compilation, graph capture)."""
    assumed: bool
    """Whether the numbers are assumed rather than measured."""


def assumed_cpu(base_s: float, per_prefill_token_s: float) -> CpuModel:
    """The CPU model of a profile without CPU measurements: assumed, from no source.

    The coefficients are chosen so that a replica that decodes one sequence shows about 0.3 and
    one that prefills flat out in 512-token iterations about 0.8.

    Args:
        base_s: Fixed time of an iteration in seconds.
        per_prefill_token_s: Time of one prefill token in seconds.
    """
    flat_out_token_s = base_s / 512 + per_prefill_token_s
    return CpuModel(
        idle=0.05,
        per_iteration_s=0.25 * base_s,
        per_token_s=0.7 * flat_out_token_s,
        startup=0.9,
        assumed=True,
    )
