"""The plots of a rehearsal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ...envs.schema.fields import FIELD_INDEX
from ...envs.schema.settings import THRESHOLD_STEP
from ...reward.documented import default_reward
from ..page import Picture
from ..plots import color_of, drawn
from ..timeline import draw_latency, draw_load, timeline_plot
from .counterfactual import POLICY
from .findings import policy_step, threshold_step
from .rehearsal import Rehearsal
from .shadow import WatchedTick

_HEIGHTS: Final = (1.0, 1.9, 1.3, 0.8, 0.3)
_BLIND: Final = "#1d252d"
_FROZEN: Final = "#c3cad1"
_COUNTS: Final = "#8fc4a4"


def shadow_picture(rehearsal: Rehearsal) -> Picture:
    """The course of the shadow."""
    incumbent = rehearsal.plan.incumbent.name
    return Picture(
        "Course of the shadow",
        f"What {incumbent} did, and where the policy would have stepped from there: one step at a "
        "time, from the settings in force at that tick. It is no run of the policy: nobody took "
        "the steps. Grey: ticks that do not count; black below: blind ones.",
        drawn(lambda: shadow_plot(rehearsal)),
    )


def alone_picture(rehearsal: Rehearsal) -> Picture:
    """The course of the counterfactual."""
    trial = rehearsal.plan.trial
    outcomes = rehearsal.counterfactual.outcomes
    slo = default_reward.slo
    return Picture(
        "Simulated: each alone, in the same window",
        "Each plays the window from its start, with all consequences of its own settings. Red: "
        "ticks that violate the SLO. Light: replicas in their cold start.",
        drawn(
            lambda: timeline_plot(
                outcomes,
                0,
                color_of(list(outcomes)),
                tick_s=trial.tick_s,
                latency_limit_s=slo.latency_limit_s,
                max_replicas=trial.limits.max_replicas,
            )
        ),
    )


def shadow_plot(rehearsal: Rehearsal) -> Figure:
    """Load, replicas with the policy's steps, latency, threshold, mode."""
    plan, ticks = rehearsal.plan, rehearsal.shadow.ticks
    incumbent = plan.incumbent.name
    colors = color_of([POLICY, incumbent])
    rows = np.array([tick.row for tick in ticks])
    minutes = np.arange(len(ticks)) * plan.trial.tick_s / 60
    figure = Figure(figsize=(10.5, 1.35 * sum(_HEIGHTS)), layout="constrained")
    axes: NDArray[Any] = figure.subplots(
        len(_HEIGHTS), 1, sharex=True, height_ratios=list(_HEIGHTS)
    )
    draw_load(axes[0], rows, minutes)
    axes[0].set_title("Load: requests per second, as scraped")
    _replicas(axes[1], ticks, rows, minutes, (colors[incumbent], colors[POLICY]))
    axes[1].set_title(f"Replicas under {incumbent}, and where the policy would step from there")
    axes[1].set_ylim(0, plan.trial.limits.max_replicas + 0.5)
    p95_s = {incumbent: rows[:, FIELD_INDEX["ttft_p95_s"]]}
    draw_latency(axes[2], p95_s, minutes, colors, default_reward.slo.latency_limit_s)
    axes[2].set_title(f"P95 of time to first token under {incumbent}, as scraped, log scale")
    _threshold(axes[3], ticks, minutes, (colors[incumbent], colors[POLICY]))
    _modes(axes[4], ticks, plan.trial.tick_s / 60)
    for ax in axes[:-1]:
        _shade(ax, ticks, plan.trial.tick_s / 60)
    axes[-1].set_xlabel("Minutes since the start of the window")
    axes[-1].set_xlim(0, len(ticks) * plan.trial.tick_s / 60)
    return figure


def _replicas(
    ax: Axes,
    ticks: Sequence[WatchedTick],
    rows: NDArray[np.float64],
    minutes: NDArray[np.float64],
    colors: tuple[str, str],
) -> None:
    ours, theirs = colors[1], colors[0]
    ready = rows[:, FIELD_INDEX["replicas_ready"]]
    in_force = np.array([tick.before.replicas for tick in ticks], float)
    wanted = in_force + [policy_step(tick) for tick in ticks]
    ax.fill_between(minutes, ready, step="post", color=theirs, alpha=0.16, lw=0, label="ready")
    ax.step(minutes, in_force, where="post", color=theirs, lw=1.4, label="in force")
    ax.fill_between(minutes, in_force, wanted, step="post", color=ours, alpha=0.55, lw=0)
    stepping = np.where(wanted == in_force, np.nan, wanted)
    ax.step(minutes, stepping, where="post", color=ours, lw=1.4, label="policy would step to")
    ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    ax.set_ylabel("replicas")
    ax.legend(loc="lower right", bbox_to_anchor=(1, 0.98), ncols=3, borderaxespad=0)


def _threshold(
    ax: Axes,
    ticks: Sequence[WatchedTick],
    minutes: NDArray[np.float64],
    colors: tuple[str, str],
) -> None:
    in_force = np.array([tick.before.threshold for tick in ticks])
    wanted = in_force + THRESHOLD_STEP * np.array([threshold_step(tick) for tick in ticks])
    ax.step(minutes, in_force, where="post", color=colors[0], lw=1.4)
    ax.fill_between(minutes, in_force, wanted, step="post", color=colors[1], alpha=0.55, lw=0)
    ax.set_ylim(0, 1)
    ax.set_title("Breaker threshold, a share, and the policy's steps")


def _modes(ax: Axes, ticks: Sequence[WatchedTick], tick_minutes: float) -> None:
    first = 0
    for color, run in groupby(ticks, key=_mode_color):
        end = first + len(list(run))
        ax.axvspan(first * tick_minutes, end * tick_minutes, color=color, lw=0)
        first = end
    ax.set_yticks([])
    ax.grid(visible=False)
    ax.set_title("Mode of the bridge")
    named = ((_COUNTS, "NORMAL: counts"), (_FROZEN, "FROZEN: seen, held"), (_BLIND, "blind"))
    handles = [Patch(color=color, label=name) for color, name in named]
    ax.legend(
        handles=handles, loc="lower right", bbox_to_anchor=(1, 0.98), ncols=3, borderaxespad=0
    )


def _mode_color(tick: WatchedTick) -> str:
    if tick.decision.is_blind:
        return _BLIND
    return _COUNTS if tick.decision.counts else _FROZEN


def _shade(ax: Axes, ticks: Sequence[WatchedTick], tick_minutes: float) -> None:
    """Greys the ticks that do not count."""
    held = np.array([not tick.decision.counts for tick in ticks], np.int8)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], held, [0]])))
    for first, end in edges.reshape(-1, 2):
        ax.axvspan(
            first * tick_minutes, end * tick_minutes, color=_FROZEN, alpha=0.35, lw=0, zorder=0
        )
