"""The plots of a leaderboard: dozens of policies, of which those that matter are named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator
from numpy.typing import NDArray

from ...agents.baselines.registry import UNIT_SUFFIX
from ..plots import COLORS, FAR, pareto_front, percent_axis
from ..wording import short
from .standings import Standing, Steps
from .sweep import Sweep

NAMED: Final = len(COLORS)
"""Policies that a plot tells apart by colour."""
_GREY: Final = "#b4bcc4"
_LINEAR: Final = 10.0
"""Returns up to which an axis stays linear where it must be logarithmic beyond."""
_MARKERS: Final[dict[Steps, str]] = {"native": "o", "unit": "s", "bound": "*"}


def named_colors(rows: Sequence[Standing], always: Sequence[str]) -> dict[str, str]:
    """A colour for the policies that are named in every plot.

    Args:
        rows: The table over the suite.
        always: Who is named in any case; the others are the best rivals.
    """
    rivals = [row for row in rows if row.steps != "bound"]
    best = [row.policy for row in sorted(rivals, key=lambda row: -row.return_mean)]
    chosen = list(dict.fromkeys((*always, *best)))[:NAMED]
    return dict(zip(chosen, COLORS, strict=False))


def pareto_plot(rows: Sequence[Standing], colors: Mapping[str, str]) -> Figure:
    """Replica-hours against violations; the line joins rivals that none beats on both counts."""
    figure = Figure(figsize=(10.5, 4.6), layout="constrained")
    ax = figure.subplots()
    rivals = [row for row in rows if row.steps != "bound"]
    front = [rivals[i] for i in pareto_front([_cost(row) for row in rivals])]
    corners = [(row.replica_hours, 100 * row.violation_rate) for row in front]
    if corners:
        ax.step(*zip(*corners, strict=True), where="post", color=_GREY, lw=1, ls="--", zorder=0)
    for row in rows:
        color = colors.get(row.policy, _GREY)
        is_named = row.policy in colors
        ax.plot(
            row.replica_hours,
            100 * row.violation_rate,
            _MARKERS[row.steps],
            color=color,
            mfc="white" if row.steps == "unit" else color,
            ms=7 if is_named else 4.5,
            zorder=3 if is_named else 2,
            label=short(row.policy) if is_named else None,
        )
        if row in front and not is_named:
            ax.annotate(
                short(row.policy),
                (row.replica_hours, 100 * row.violation_rate),
                xytext=(4, 4),
                textcoords="offset points",
                fontsize=7.5,
                color="#5b6672",
            )
    percent_axis(ax)
    ax.set_xlabel("Replica-hours per window (fewer is cheaper)")
    ax.set_ylabel("Violating ticks, % (linear up to 1)")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _cost(row: Standing) -> tuple[float, float]:
    return row.replica_hours, row.violation_rate


def gap_plot(rows: Sequence[Standing], bound: str, floor: str) -> Figure:
    """How far below the bound each controller stays, at its own step size and at steps of one."""
    by_name: dict[str, dict[str, Standing]] = {}
    for row in rows:
        if row.policy != bound:
            name = row.policy.removesuffix(UNIT_SUFFIX)
            by_name.setdefault(name, {})["unit" if row.steps == "unit" else "native"] = row
    order = sorted(
        by_name, key=lambda name: min(r.gap for r in by_name[name].values()), reverse=True
    )
    figure = Figure(figsize=(10.5, 1.2 + 0.24 * len(order)), layout="constrained")
    ax = figure.subplots()
    for place, name in enumerate(order):
        for steps, offset in (("native", 0.14), ("unit", -0.14)):
            if steps not in by_name[name]:
                continue
            standing = by_name[name][steps]
            color = COLORS[0] if steps == "native" else COLORS[1]
            ax.barh(place + offset, standing.gap, height=0.26, color=color, alpha=0.75)
            if standing.gap_ci95 is not None:
                ax.plot(standing.gap_ci95, [place + offset] * 2, color="#333333", lw=1)
    ax.set_yticks(range(len(order)), [short(name) for name in order])
    ax.set_ylim(-0.6, len(order) - 0.4)
    if _is_wide([row.gap for found in by_name.values() for row in found.values()]):
        ax.set_xscale("symlog", linthresh=_LINEAR)
        ax.xaxis.set_major_formatter("{x:g}")
    floors = [row.gap for row in rows if row.policy == floor]
    ax.axvline(floors[0], color="#d62728", lw=1, ls="--")
    ax.set_xlabel(
        f"Return below {bound}, per window; blue: own step size, orange: steps of one; "
        f"dashed: {floor}"
    )
    return figure


def sweep_plot(sweeps: Sequence[Sweep], colors: Mapping[str, str]) -> Figure:
    """Return and violations over the time that a replica takes to start."""
    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    axes: NDArray[Any] = figure.subplots(1, 2)
    for sweep in sorted(sweeps, key=lambda one: one.policy in colors):
        is_named = sweep.policy in colors
        style: dict[str, Any] = {
            "color": colors.get(sweep.policy, _GREY),
            "lw": 1.8 if is_named else 0.7,
            "marker": "o",
            "ms": 5 if is_named else 2.5,
            "zorder": 3 if is_named else 1,
            "label": short(sweep.policy) if is_named else None,
        }
        axes[0].plot(sweep.cold_start_s, sweep.return_mean, **style)
        axes[1].plot(sweep.cold_start_s, 100 * np.array(sweep.violation_rate), **style)
    axes[0].set_title("Return per window")
    if _is_wide([value for sweep in sweeps for value in sweep.return_mean]):
        axes[0].set_yscale("symlog", linthresh=_LINEAR)
        axes[0].yaxis.set_major_formatter("{x:g}")
    percent_axis(axes[1])
    axes[1].set_title("Violating ticks, % (linear up to 1)")
    for ax in axes:
        ax.xaxis.set_major_locator(FixedLocator(sweeps[0].cold_start_s))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlabel("Seconds from order to ready")
    axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _is_wide(values: Sequence[float]) -> bool:
    """Whether a few values are so much larger than the middle one that they would hide it."""
    sizes = np.abs(values)
    return bool(sizes.max() > FAR * max(float(np.median(sizes)), _LINEAR))
