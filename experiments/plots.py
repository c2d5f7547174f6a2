"""The plots of a report, as SVG text. Nothing is interactive: they must print and mail well."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, SymmetricalLogLocator
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from ..agents.statistics import Interval, Values
from .results import Pair, Summary
from .wording import short

COLORS: Final = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#666666",
    "#A07C00",
)
"""Okabe and Ito's palette, told apart by the colour-blind too; yellow and black are replaced."""
FAR: Final = 5.0
"""How many times the middle one a value must be for an axis to become logarithmic outside."""
_GREY: Final = "#9aa3ad"
_POSITION_DECIMALS: Final = 5
_DPI: Final = 120
_PERCENT_TICKS: Final = (0, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100)
_STYLE: Final[dict[str, Any]] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#6b7480",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "grid.color": "#e3e7eb",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "svg.hashsalt": "gatepilot",
}
"""The hash salt keeps the same figures the same bytes."""


def color_of(policies: Sequence[str]) -> dict[str, str]:
    """One colour a policy, the same in every plot of a report."""
    return {policy: COLORS[i % len(COLORS)] for i, policy in enumerate(policies)}


def drawn(draw: Callable[[], Figure]) -> str:
    """Draws in the report's style and returns SVG text."""
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]  # it wants every key as a literal
        figure = draw()
        _lay_out(figure)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def write_figure(draw: Callable[[], Figure], path: Path, kind: str) -> None:
    """Draws in the report's style into a file.

    Args:
        draw: Makes the figure.
        path: The file.
        kind: "png", "svg" or "pdf".
    """
    # What would make the same figure other bytes on another day.
    dates = {
        "png": {"Software": None},
        "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    }
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        figure = draw()
        _lay_out(figure)
        figure.savefig(path, format=kind, dpi=150, metadata=dates.get(kind))


def _lay_out(figure: Figure) -> None:
    """Places the axes for good, on a grid: the solver's last digits are not the same every time."""
    engine = figure.get_layout_engine()
    if engine is None:
        return
    engine.execute(figure)
    figure.set_layout_engine("none")
    for ax in figure.axes:
        x, y, width, height = ax.get_position(True).bounds
        ends = [round(end, _POSITION_DECIMALS) for end in (x, y, x + width, y + height)]
        ax.set_position(Bbox.from_extents(*ends))


def means_plot(summary: Sequence[Summary], colors: Mapping[str, str]) -> Figure:
    """Return, violating ticks and replica-hours of every policy with their intervals."""
    rows = sorted(summary, key=lambda row: row.return_mean)
    panels: tuple[tuple[str, float, Callable[[Summary], tuple[float, Interval]]], ...] = (
        ("Return per episode (higher is better)", 1.0, lambda r: (r.return_mean, r.return_ci95)),
        ("Violating ticks, %", 100.0, lambda r: (r.violation_rate, r.violation_rate_ci95)),
        ("Replica-hours per episode", 1.0, lambda r: (r.replica_hours, r.replica_hours_ci95)),
    )
    figure = Figure(figsize=(10.5, 1.1 + 0.34 * len(rows)), layout="constrained")
    axes: NDArray[Any] = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for ax, (title, factor, value_of) in zip(axes, panels, strict=True):
        ax.set_title(title)
        for place, row in enumerate(rows):
            mean, interval = value_of(row)
            if interval is not None:
                ends = [factor * end for end in interval]
                ax.plot(ends, [place, place], color=colors[row.policy], lw=2.2, alpha=0.55)
            ax.plot(factor * mean, place, "o", color=colors[row.policy], ms=6.5)
        ax.margins(x=0.08)
        _stretch(ax, [factor * value_of(row)[0] for row in rows])
    axes[0].set_yticks(range(len(rows)), [short(row.policy) for row in rows])
    axes[0].set_ylim(-0.6, len(rows) - 0.4)
    return figure


def pareto_plot(summary: Sequence[Summary], colors: Mapping[str, str]) -> Figure:
    """Cost against broken promises; the line joins the policies that none beats on both."""
    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    ax = figure.subplots()
    for row in summary:
        x, y = row.replica_hours, 100 * row.violation_rate
        if row.replica_hours_ci95 is not None and row.violation_rate_ci95 is not None:
            ends = [100 * end for end in row.violation_rate_ci95]
            ax.plot(row.replica_hours_ci95, [y, y], color=colors[row.policy], lw=1.4, alpha=0.5)
            ax.plot([x, x], ends, color=colors[row.policy], lw=1.4, alpha=0.5)
        ax.plot(x, y, "o", color=colors[row.policy], ms=7, label=short(row.policy))
    front = pareto_front([(row.replica_hours, row.violation_rate) for row in summary])
    corners = [(summary[i].replica_hours, 100 * summary[i].violation_rate) for i in front]
    ax.step(*zip(*corners, strict=True), where="post", color=_GREY, lw=1, ls="--", zorder=0)
    percent_axis(ax)
    ax.set_xlabel("Replica-hours per episode (fewer is cheaper)")
    ax.set_ylabel("Violating ticks, % (linear up to 1)")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def percent_axis(ax: Axes) -> None:
    """A vertical axis of percentages: linear up to 1, so that 0 has a place, then logarithmic."""
    ax.set_yscale("symlog", linthresh=1.0, linscale=0.8)
    ax.set_ylim(bottom=-0.05)
    ax.yaxis.set_major_locator(FixedLocator(_PERCENT_TICKS))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter("{x:g}")


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the points that no other beats on both values, by rising first value."""
    order = sorted(range(len(points)), key=lambda i: points[i])
    front: list[int] = []
    for i in order:
        if not front or points[i][1] < points[front[-1]][1]:
            front.append(i)
    return front


def pairs_plot(pairs: Sequence[Pair], colors: Mapping[str, str]) -> Figure:
    """Mean paired differences with their intervals, and the IQM beside them."""
    figure = Figure(figsize=(10.5, 0.9 + 0.34 * len(pairs)), layout="constrained")
    ax = figure.subplots()
    ax.axvline(0, color="#333333", lw=1)
    for place, pair in enumerate(reversed(pairs)):
        found = pair.comparison
        color = colors[pair.policy]
        if found.ci95 is not None:
            ax.plot(found.ci95, [place, place], color=color, lw=2.2, alpha=0.55)
        ax.plot(found.mean_difference, place, "o", color=color, ms=6.5)
        ax.plot(found.iqm_difference, place, "D", color=color, ms=4.5, mfc="white")
    names = [f"{short(pair.policy)} − {short(pair.against)}" for pair in reversed(pairs)]  # noqa: RUF001
    ax.set_yticks(range(len(pairs)), names)
    ax.set_ylim(-0.6, len(pairs) - 0.4)
    ax.set_xlabel(
        "Difference of return per window: dot = mean, line = 95 % interval, diamond = IQM"
    )
    _stretch(ax, [pair.comparison.mean_difference for pair in pairs])
    return figure


def _stretch(ax: Axes, values: Sequence[float]) -> None:
    """Gives the small values room where a few are far larger: linear in the middle, then log."""
    sizes = np.abs(values)
    middle = float(np.median(sizes))
    if middle > 0 and sizes.max() > FAR * middle:
        linear = 10.0 ** round(float(np.log10(middle)))
        ax.set_xscale("symlog", linthresh=linear)
        ax.xaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=linear))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_xlabel(f"{ax.get_xlabel()} (log beyond ±{linear:g})".lstrip())


def scatter_plot(ours: Values, theirs: Values, names: tuple[str, str], color: str) -> Figure:
    """Every window once: one policy's return against the other's."""
    figure = Figure(figsize=(4.8, 4.4), layout="constrained")
    ax = figure.subplots()
    low, high = min(ours.min(), theirs.min()), max(ours.max(), theirs.max())
    margin = 0.05 * (high - low) or 1.0
    ends = low - margin, high + margin
    ax.fill_between(ends, ends, ends[1], color=color, alpha=0.07, lw=0)
    ax.plot(ends, ends, color="#333333", lw=1)
    ax.plot(theirs, ours, "o", color=color, ms=5, alpha=0.75, mec="white", mew=0.5)
    ax.set_xlim(ends)
    ax.set_ylim(ends)
    ax.set_aspect("equal")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(5))
    ax.set_xlabel(f"Return of {short(names[1])}")
    ax.set_ylabel(f"Return of {short(names[0])}")
    return figure


def mark_violations(ax: Axes, violations: NDArray[np.bool_], tick_minutes: float) -> None:
    """Shades the ticks that violate the SLO."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], violations.astype(np.int8), [0]])))
    for first, last in edges.reshape(-1, 2):
        ax.axvspan(first * tick_minutes, last * tick_minutes, color="#d62728", alpha=0.16, lw=0)
