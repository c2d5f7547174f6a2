"""Dynamo's rules a second time, in another shape: whole histories, plain lists, exact fractions.

Nothing is remembered: each answer is computed from all that was ever seen. Where rounding could
decide, `Close` is raised and the example is no test.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gatepilot.agents.baselines.dynamo_predictors import PredictorParams
from gatepilot.envs.schema.snapshot import MetricsSnapshot


class Close(Exception):  # noqa: N818  # not an error
    """Two numbers are too near to each other to say on which side one is."""


def over(value: float, limit: float, slack: float = 1e-9) -> bool:
    """Whether a value is above a limit, where rounding does not matter."""
    if abs(value - limit) <= slack * max(abs(value), abs(limit), 1e-12):
        raise Close
    return value > limit


# --- forecasts ----------------------------------------------------------------------------------


def forecast(values: list[float], params: PredictorParams) -> float:
    """The next of a series, from all of it."""
    while values and values[0] == 0:
        values = values[1:]
    if not values or params.predictor == "constant":
        return values[-1] if values else 0.0
    z = [math.log1p(max(0.0, v)) if params.uses_log1p else v for v in values]
    f, h = np.array([[1, 1], [0, 1]], object), np.array([[1, 0]], object)
    q = np.diag([Fraction(params.q_level), Fraction(params.q_trend)])
    x = np.array([[Fraction(z[0])], [Fraction(0)]])
    p = np.diag([Fraction(1000), Fraction(1000)])
    for value in [Fraction(v) for v in z[1:]]:
        x, p = f @ x, f @ p @ f.T + q
        gain = p @ h.T / (h @ p @ h.T + Fraction(params.r))[0, 0]
        x = x + gain * (value - x[0, 0])
        p = p - gain @ h @ p
    level = float((f @ x)[0, 0])
    return max(0.0, math.expm1(level)) if params.uses_log1p else level


# --- samples ------------------------------------------------------------------------------------

Sample = tuple[tuple[float, ...], float]


def kept(
    samples: Sequence[Sample], cells: int, most: int, highs: list[float] | None
) -> list[Sample]:
    """What a grid keeps of all samples that were ever added, cell by cell."""
    held: list[Sample] = []
    for i, sample in enumerate(samples):
        if highs and any(x > high for x, high in zip(sample[0], highs, strict=True)):
            continue
        seen = list(zip(*(point for point, _ in samples[: i + 1]), strict=True))
        ends = [(0.0, h) for h in highs] if highs else [(min(axis), max(axis)) for axis in seen]
        groups: dict[tuple[int, ...], list[Sample]] = {}
        for one in [*held, sample]:  # cell by cell already, so the order of the cells stays
            groups.setdefault(cell_of(one[0], ends, cells), []).append(one)
        if len(held) == most:
            max(groups.values(), key=len).pop(0)
        held = [one for group in groups.values() for one in group]
    return held


def cell_of(
    point: tuple[float, ...], ends: list[tuple[float, float]], cells: int
) -> tuple[int, ...]:
    found = []
    for x, (low, high) in zip(point, ends, strict=True):
        place = 0.0 if low == high else cells * (x - low) / (high - low)
        if 0 < place < cells and abs(place - round(place)) < 1e-9:
            raise Close
        found.append(min(math.floor(place), cells - 1))
    return tuple(found)


def plane(samples: Sequence[Sample], *, relaxed: bool) -> list[float] | None:
    """Intercept and slopes by Cramer's rule; the first slope may be set to 0."""
    rows: list[list[Fraction]] = [
        [Fraction(1), *(Fraction(x) for x in point)] for point, _ in samples
    ]
    n = len(rows[0])
    lhs: list[list[Fraction]] = [
        [total(row[i] * row[j] for row in rows) for j in range(n)] for i in range(n)
    ]
    rhs = [
        total(row[i] * Fraction(y) for row, (_, y) in zip(rows, samples, strict=True))
        for i in range(n)
    ]
    whole = determinant(lhs)
    scale = math.prod(lhs[i][i] for i in range(n))
    if abs(whole) <= scale * Fraction(1, 10**4):
        raise Close  # nearly singular: rounding decides
    found = []
    for column in range(n):
        replaced = [list(row) for row in lhs]
        for row, value in zip(replaced, rhs, strict=True):
            row[column] = value
        found.append(float(determinant(replaced) / whole))
    mean = float(sum(y for _, y in samples)) / len(samples)
    for i, slope in enumerate(found[1:], start=1):
        if abs(slope) * max(point[i - 1] for point, _ in samples) < 1e-7 * mean:
            raise Close
        if slope < 0:
            if not (relaxed and i == 1):
                return None
            found[i] = 0.0
    return found


def determinant(m: list[list[Fraction]]) -> Fraction:
    if len(m) == 1:
        return m[0][0]
    minors = ([row[:j] + row[j + 1 :] for row in m[1:]] for j in range(len(m)))
    return total((-1) ** j * m[0][j] * determinant(minor) for j, minor in enumerate(minors))


def total(parts: Iterable[Fraction]) -> Fraction:
    return sum(parts, Fraction(0))


# --- what a snapshot says -----------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """What each ready replica had to do, on average."""

    prefill: float
    prompts: float
    sequences: float
    kv: float
    waiting: float
    waiting_tokens: float
    seconds: float
    replicas: int


def mean_prompt(s: MetricsSnapshot) -> float | None:
    if s.prompt_token_rate_tps is None or not s.samples:
        return None
    return s.prompt_token_rate_tps * 60.0 / s.samples


def report_of(s: MetricsSnapshot, kv_tokens: float) -> Report | None:
    if not s.replicas_ready or s.running is None or s.waiting is None:
        return None
    n = s.replicas_ready
    if s.waiting and mean_prompt(s) is None:
        return None
    tokens = s.waiting * (mean_prompt(s) or 0.0) / n if s.waiting else 0.0
    if s.running == 0:
        return Report(0, 0, 0, 0, s.waiting / n, tokens, 0, round(n))
    rates = (s.prompt_token_rate_tps, s.output_token_rate_tps, s.samples, s.kv_usage)
    if None in rates or not s.output_token_rate_tps:
        return None
    seconds = s.running / s.output_token_rate_tps
    assert s.prompt_token_rate_tps is not None
    assert s.samples is not None
    assert s.kv_usage is not None
    prefill = s.prompt_token_rate_tps * seconds / n
    prompts = s.samples / 60.0 * seconds / n
    kv = s.kv_usage * kv_tokens
    return Report(prefill, prompts, s.running / n, kv, s.waiting / n, tokens, seconds, round(n))
