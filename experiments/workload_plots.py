"""Pictures of loads: rate over time, burstiness over windows, lengths."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ..envs.workload.arrivals import MOST_WINDOWS, window_counts
from ..envs.workload.bootstrap import Burstiness, local_dispersions
from ..envs.workload.request import Requests
from ..envs.workload.statistics import WINDOWS_S
from .files import OutputError, replacing
from .page import Picture
from .plots import COLORS, drawn, write_figure

PLOT_ENDINGS: Final = (".png", ".svg")
"""What a picture's file can end in."""

_RATE_WINDOWS_S: Final = (1.0, 5.0, 15.0, 60.0, 300.0, 600.0, 1800.0, 3600.0)
_RATE_POINTS: Final = 500
"""About as many windows are drawn."""
_SHORTEST_S: Final = 0.25
_FEWEST_WINDOWS: Final = 20
_CDF_POINTS: Final = 500


def check_plot(path: Path) -> None:
    """Refuses a picture's name that says no format.

    Raises:
        OutputError: It ends in none of the known ways.
    """
    if not path.name.endswith(PLOT_ENDINGS):
        raise OutputError(f"{path}: expected a name that ends in {', '.join(PLOT_ENDINGS)}")


def write_plot(loads: Mapping[str, Requests], path: Path) -> None:
    """Draws everything into one file.

    Args:
        loads: By name, at most a few.
        path: A png or svg file.

    Raises:
        OutputError: The file cannot be written.
    """
    check_plot(path)
    with replacing(path) as temporary:
        write_figure(lambda: overview(loads), temporary, path.suffix.removeprefix("."))


def pictures(loads: Mapping[str, Requests]) -> list[Picture]:
    """The same, one picture each, for a page."""
    window_s = rate_window_s(loads)
    return [
        Picture(
            "Rate over time",
            f"Requests per second in windows of {window_s:g} s.",
            drawn(lambda: _alone(_draw_rate, loads, (10.5, 3.2))),
        ),
        Picture(
            "Burstiness",
            "Half the mean squared difference of neighbouring counts over their mean, by the "
            "length of the windows. A Poisson process gives 1; slow swings cancel. Bars: 95 % "
            "block bootstrap of the first load.",
            drawn(lambda: _alone(_draw_dispersion, loads, (10.5, 3.2))),
        ),
        Picture(
            "Lengths",
            "Share of requests with at most so many tokens.",
            drawn(lambda: _lengths(loads)),
        ),
    ]


def overview(loads: Mapping[str, Requests]) -> Figure:
    """Rate above, burstiness and lengths below."""
    figure = Figure(figsize=(10.5, 6.4), layout="constrained")
    grid = figure.add_gridspec(2, 3)
    rate = figure.add_subplot(grid[0, :])
    _draw_rate(rate, loads)
    rate.set_title(f"Requests per second in windows of {rate_window_s(loads):g} s")
    dispersion = figure.add_subplot(grid[1, 0])
    _draw_dispersion(dispersion, loads)
    dispersion.set_title("Local dispersion")
    for place, name in ((1, "prompt_tokens"), (2, "output_tokens")):
        ax = figure.add_subplot(grid[1, place])
        _draw_cdf(ax, loads, name)
        ax.set_title(f"{name.replace('_', ' ').capitalize()}, share below")
    return figure


def rate_window_s(loads: Mapping[str, Requests]) -> float:
    """Windows that show a load's course in some hundred points."""
    span_s = max(load.span_s for load in loads.values())
    wanted = span_s / _RATE_POINTS
    return next((w for w in _RATE_WINDOWS_S if w >= wanted), _RATE_WINDOWS_S[-1])


def _alone(draw: Any, loads: Mapping[str, Requests], size: tuple[float, float]) -> Figure:  # noqa: ANN401
    figure = Figure(figsize=size, layout="constrained")
    draw(figure.subplots(), loads)
    return figure


def _lengths(loads: Mapping[str, Requests]) -> Figure:
    figure = Figure(figsize=(10.5, 3.2), layout="constrained")
    axes: NDArray[Any] = figure.subplots(1, 2, sharey=True)
    for ax, name in zip(axes, ("prompt_tokens", "output_tokens"), strict=True):
        _draw_cdf(ax, loads, name)
        ax.set_xlabel(name.replace("_", " "))
    return figure


def _draw_rate(ax: Axes, loads: Mapping[str, Requests]) -> None:
    window_s = rate_window_s(loads)
    longest_s = max(load.span_s for load in loads.values())
    unit_s, unit = (3600.0, "hours") if longest_s > 3 * 3600 else (60.0, "minutes")
    for color, (name, load) in zip(COLORS, loads.items(), strict=False):
        counts = window_counts(load.arrival_s, load.span_s, min(window_s, load.span_s))
        times = (np.arange(counts.size) + 0.5) * window_s / unit_s
        ax.plot(times, counts / window_s, color=color, lw=1.1, alpha=0.85, label=name)
    ax.set_ylim(bottom=0)
    ax.set_xlim(0, longest_s / unit_s)
    ax.set_xlabel(unit)
    ax.legend(loc="upper right")


def _draw_dispersion(ax: Axes, loads: Mapping[str, Requests]) -> None:
    ax.axhline(1.0, color="#333333", lw=1, ls="--")
    for i, (color, load) in enumerate(zip(COLORS, loads.values(), strict=False)):
        shortest_s, longest_s = (
            max(_SHORTEST_S, load.span_s / MOST_WINDOWS),
            load.span_s / _FEWEST_WINDOWS,
        )
        if longest_s <= shortest_s:
            continue
        windows_s = np.geomspace(shortest_s, longest_s, 24)
        values = local_dispersions(load.arrival_s, load.span_s, windows_s.tolist())
        ax.plot(windows_s, values, color=color, lw=1.4)
        if i == 0:
            known = Burstiness.of(load.arrival_s, load.span_s, WINDOWS_S)
            ax.vlines(known.windows_s, known.low, known.high, color=color, lw=5, alpha=0.3)
    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
    ax.set_xlabel("length of the windows, s")


def _draw_cdf(ax: Axes, loads: Mapping[str, Requests], name: str) -> None:
    shares = np.linspace(0, 1, _CDF_POINTS)
    for color, load in zip(COLORS, loads.values(), strict=False):
        if len(load):
            ax.plot(np.quantile(getattr(load, name), shares), shares, color=color, lw=1.4)
    ax.set_xscale("log")
    ax.set_ylim(0, 1)
    ax.xaxis.set_major_formatter("{x:g}")
