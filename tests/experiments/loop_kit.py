"""Closed-loop rows that a known replica would give."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from gatepilot.envs.profiles.fit import MeasuredRow
from gatepilot.envs.profiles.step import StepModel
from gatepilot.experiments.closed_loops import PLAIN, FirstToken, LoopProtocol, LoopRun, predict

DENSE = StepModel(0.0167, 3.5e-5, 6.3e-8, 8.2e-5)
EXPERTS = StepModel(0.0039, 4.2e-5, 2.6e-9, 2.5e-5, 0.0077, 4 / 128)
RANDOM = LoopProtocol(shortest_share=0.8)
"""Lengths that keep the clients out of step."""
CONCURRENCIES = (4, 8, 16, 32)
SHAPES = ((1024, 256), (256, 256), (4096, 512))


def loop_runs(
    step: StepModel,
    *,
    protocol: LoopProtocol = RANDOM,
    first: FirstToken = PLAIN,
    seed: int = 7,
    concurrencies: Sequence[int] = CONCURRENCIES,
) -> list[LoopRun]:
    """Rows as a replica of these coefficients would be measured."""
    runs = []
    for concurrency in concurrencies:
        for prompt, output in SHAPES:
            row = MeasuredRow(concurrency, prompt, output, math.nan, math.nan)
            found = predict(LoopRun(row, protocol), step, seed=seed, first=first)
            measured = dataclasses.replace(row, tpot_s=found.tpot_s, ttft_s=found.ttft_s)
            runs.append(LoopRun(measured, protocol))
    return runs
