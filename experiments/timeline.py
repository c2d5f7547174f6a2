"""The course of one episode under several policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from ..agents.episodes import Outcomes
from ..envs.schema.fields import FIELD_INDEX
from .plots import mark_violations
from .wording import short

LOWEST_P95_S: Final = 0.02
"""Lower end of the latency axis: less is shown at the end."""
CROWDED: Final = 300.0
"""Span of a latency axis from which on only powers of ten are labelled."""


def timeline_plot(
    outcomes: Mapping[str, Outcomes],
    window: int,
    colors: Mapping[str, str],
    *,
    tick_s: float,
    latency_limit_s: float,
    max_replicas: int,
) -> Figure:
    """Load, replicas, latency and threshold of one window.

    Args:
        outcomes: By policy.
        window: Place of the window in the outcomes.
        colors: By policy.
        tick_s: Length of a tick.
        latency_limit_s: The SLO's limit on the P95.
        max_replicas: Top of the replica axes.
    """
    policies = list(outcomes)
    heights = [1.0, *[0.85] * len(policies), 1.5, 0.8]
    figure = Figure(figsize=(10.5, 1.35 * sum(heights)), layout="constrained")
    axes: NDArray[Any] = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    minutes = np.arange(1, outcomes[policies[0]].rows.shape[1] + 1) * tick_s / 60
    first = outcomes[policies[0]].rows[window]
    draw_load(axes[0], first, minutes)
    axes[0].set_title("Load: requests per second, the same for every policy")
    for ax, policy in zip(axes[1:-2], policies, strict=True):
        played = outcomes[policy]
        _replicas(ax, played.rows[window], minutes, colors[policy], max_replicas)
        mark_violations(ax, played.violations[window], tick_s / 60)
        share = 100 * played.violations[window].mean()
        ax.set_title(
            f"{short(policy)}: return {played.returns[window]:.1f}, {share:.1f} % of ticks "
            f"violate, {played.replica_hours[window]:.1f} replica-hours"
        )
    axes[1].legend(loc="lower right", bbox_to_anchor=(1, 0.98), ncols=3, borderaxespad=0)
    p95_s = {
        policy: played.rows[window][:, FIELD_INDEX["ttft_p95_s"]]
        for policy, played in outcomes.items()
    }
    draw_latency(axes[-2], p95_s, minutes, colors, latency_limit_s)
    axes[-2].set_title("P95 of time to first token, log scale")
    _threshold(axes[-1], outcomes, window, minutes, colors)
    axes[-1].set_xlabel("Minutes since the start of the window")
    axes[-1].set_xlim(0, minutes[-1])
    return figure


def draw_load(ax: Axes, rows: NDArray[Any], minutes: NDArray[np.float64]) -> None:
    """Requests per second over time.

    Args:
        ax: Where to draw.
        rows: Snapshots, `(ticks, F)`.
        minutes: Their times.
    """
    rate = rows[:, FIELD_INDEX["request_rate_rps"]]
    ax.fill_between(minutes, rate, color="#4a5563", alpha=0.18, lw=0)
    ax.plot(minutes, rate, color="#4a5563", lw=1.2)
    ax.set_ylim(bottom=0)


def _replicas(
    ax: Axes,
    rows: NDArray[np.float32],
    minutes: NDArray[np.float64],
    color: str,
    max_replicas: int,
) -> None:
    requested = rows[:, FIELD_INDEX["replicas_requested"]]
    ready = rows[:, FIELD_INDEX["replicas_ready"]]
    starting = ready + rows[:, FIELD_INDEX["replicas_starting"]]
    ax.fill_between(minutes, ready, step="pre", color=color, alpha=0.35, lw=0, label="ready")
    ax.fill_between(
        minutes, ready, starting, step="pre", color=color, alpha=0.13, lw=0, label="starting"
    )
    ax.step(minutes, requested, where="pre", color=color, lw=1.4, label="requested")
    ax.set_ylim(0, max_replicas + 0.5)
    ax.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    ax.set_ylabel("replicas")


def draw_latency(
    ax: Axes,
    p95_s: Mapping[str, NDArray[Any]],
    minutes: NDArray[np.float64],
    colors: Mapping[str, str],
    limit_s: float,
) -> None:
    """P95 over time on a logarithmic axis, with the SLO's limit.

    Args:
        ax: Where to draw.
        p95_s: By policy, `(ticks,)` each.
        minutes: Times of the ticks.
        colors: By policy.
        limit_s: The limit.
    """
    for policy, values in p95_s.items():
        ax.plot(minutes, np.maximum(values, LOWEST_P95_S), color=colors[policy], lw=1.3)
    ax.axhline(limit_s, color="#d62728", lw=1, ls="--")
    ax.annotate(
        f"limit {limit_s:g} s",
        (1, limit_s),
        xycoords=("axes fraction", "data"),
        xytext=(-3, 3),
        textcoords="offset points",
        ha="right",
        color="#d62728",
    )
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    low, high = min(low, limit_s / 8), max(high, limit_s * 3)
    ax.set_ylim(low, high)
    digits = (1, 2, 5) if high < CROWDED * low else (1,)
    ax.yaxis.set_major_locator(LogLocator(subs=digits, numticks=8))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_ylabel("s")


def _threshold(
    ax: Axes,
    outcomes: Mapping[str, Outcomes],
    window: int,
    minutes: NDArray[np.float64],
    colors: Mapping[str, str],
) -> None:
    column = FIELD_INDEX["breaker_threshold"]
    for policy, played in outcomes.items():
        ax.step(minutes, played.rows[window][:, column], where="pre", color=colors[policy], lw=1.3)
    ax.set_ylim(0, 1)
    ax.set_title("Breaker threshold")


def telling_windows(outcomes: Mapping[str, Outcomes]) -> tuple[int, int]:
    """Two windows worth looking at: the one in which the policies differ most, and an ordinary one.

    Args:
        outcomes: By policy.

    Returns:
        Places in the outcomes; they can be the same.
    """
    returns = np.stack([played.returns for played in outcomes.values()])
    ordinary = np.argsort(returns.mean(axis=0), kind="stable")[returns.shape[1] // 2]
    return int(np.argmax(np.ptp(returns, axis=0))), int(ordinary)
