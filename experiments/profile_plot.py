"""The plot of a profile: time a token over concurrency, simulated and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

import numpy as np
from matplotlib.figure import Figure

from ..envs.profiles.fit import MeasuredRow
from ..envs.profiles.profile import Profile
from .closed_loops import LoopProtocol, LoopRun, predict
from .plots import COLORS
from .profile_tables import SHAPE, concurrency_of


def tpot_plot(profile: Profile, measured: Sequence[LoopRun], seed: int = 0) -> Figure:
    """Draws one line and one kind of dots for each length of prompts and answers.

    Args:
        profile: The profile; the lines are closed-loop runs of a simulated replica.
        measured: Rows of real hardware; without any, the line is of one usual length.
        seed: Of the drawn lengths.
    """
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    ax = figure.subplots()
    top = max((run.row.concurrency for run in measured), default=concurrency_of(profile))
    line = _concurrencies(top)
    for color, (shape, runs) in zip(cycle(COLORS), _by_shape(measured).items(), strict=False):
        like = runs[0] if runs else LoopRun(MeasuredRow(1, *shape, np.nan, np.nan), _usual(profile))
        found = [
            predict(
                replace(like, row=replace(like.row, concurrency=concurrency)),
                profile.step,
                seed=seed,
            )
            for concurrency in line
        ]
        times_ms = [1000 * point.tpot_s for point in found]
        label = f"{shape[0]:,} + {shape[1]:,} tokens"
        ax.plot(line, times_ms, "-", color=color, lw=1.6, label=label)
        dots = [(run.row.concurrency, 1000 * run.row.tpot_s) for run in runs]
        ax.plot([x for x, _ in dots], [y for _, y in dots], "o", color=color, ms=5)
    ax.set_xscale("log", base=2)
    ticks = [tick for tick in line if tick & (tick - 1) == 0]
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.set_ylim(bottom=0)
    ax.set_xlabel("Requests in flight at one replica")
    ax.set_ylabel("Time per output token, ms")
    ax.set_title(profile.id)
    ax.legend(title="lines: simulated" + (", dots: measured" if measured else ""), loc="upper left")
    return figure


def _concurrencies(top: int) -> list[int]:
    """Powers of two up to `top`, halfway between them, and `top` itself."""
    powers = [2**k for k in range(top.bit_length())]
    halves = [3 * power // 2 for power in powers[1:]]
    return sorted({*powers, *(half for half in halves if half < top), top})


def _by_shape(measured: Sequence[LoopRun]) -> dict[tuple[int, int], list[LoopRun]]:
    """The rows by the lengths of prompts and answers; without any, one usual length."""
    shapes: dict[tuple[int, int], list[LoopRun]] = {}
    for run in sorted(measured, key=lambda run: (run.row.prompt_tokens, run.row.output_tokens)):
        shapes.setdefault((run.row.prompt_tokens, run.row.output_tokens), []).append(run)
    return shapes or {SHAPE: []}


def _usual(profile: Profile) -> LoopProtocol:
    return LoopProtocol(kv_tokens=profile.kv_capacity_tokens)
